"""Control variates against their own equations, with hand-made clients."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import rayfed
from rayfed.algorithms import Algorithm, Scaffold, control
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Quadratics
from rayfed.messages import Ask, Upload
from rayfed.problems import LeastSquares
from rayfed.problems.objective import Objective
from rayfed.solvers import SGD, Adam, Exponential
from rayfed.testing import points, reply


class Fixed:
    """Two clients that end at 1 and 2 whatever they do, with gradients 7 and 9."""

    ids = np.arange(2)
    sizes = np.array([1, 3])
    steps = np.array([2, 4])
    round = 1

    def __init__(self, mass=(1.0, 3.0), **settings):
        self.solver = SGD(**{"lr": 0.5} | settings)
        self.state = {"c": np.array([[1.0], [-1.0]])}
        self.mass = np.array(mass)
        self.objective = Objective(LeastSquares(), 2, samples=4, features=1, mass=sum(mass))

    def solve(self, x, correction):
        self.correction = correction
        return SimpleNamespace(x=np.array([[1.0], [2.0]]), loss=None)

    def gradient(self, x):
        return np.array([[7.0], [9.0]])


X, C = np.array([5.0]), np.array([0.5])


def test_the_correction_is_c_minus_c_i():
    clients = Fixed()
    control.solve(clients, X, C, None)
    assert clients.correction.tolist() == [[-0.5], [1.5]]


def test_option_1_takes_the_gradient_at_the_servers_model():
    _, upload = control.solve(Fixed(), X, C, None, option=1)
    assert upload.state["c"].tolist() == [[7.0], [9.0]]
    assert upload.values["control"].tolist() == [[6.0], [10.0]]


def test_option_2_divides_by_the_steps_and_the_step_of_the_round():
    # c_i - c + (x - y) / (K lr): 1 - 0.5 + 4 / (2 * 0.5), -1 - 0.5 + 3 / (4 * 0.5)
    _, upload = control.solve(Fixed(), X, C, None)
    assert upload.state["c"].tolist() == [[4.5], [0.0]]
    halved = Fixed(lr=Exponential(start=0.5, factor=0.5))
    halved.round = 2
    _, upload = control.solve(halved, X, C, None)
    assert upload.state["c"].tolist() == [[8.5], [1.5]]


def test_option_2_with_momentum_divides_by_the_norm_of_the_coefficients():
    # two steps with momentum 1/2: 1.5 + 1; four: 1.875 + 1.75 + 1.5 + 1
    _, upload = control.solve(Fixed(momentum=0.5), X, C, None)
    assert upload.state["c"].ravel() == pytest.approx([0.5 + 4 / 1.25, -1.5 + 3 / (0.5 * 6.125)])


def test_clients_keep_and_send_control_variates_times_their_weights():
    """Of c_i = 2 and -2/3 at the weights 1/2 and 3/2."""
    clients, shares = Fixed(), np.array([0.5, 1.5])
    _, upload = control.solve(clients, X, C, shares, option=1)
    assert clients.correction.ravel() == pytest.approx([0.5 - 2, 0.5 + 2 / 3])
    assert upload.state["c"].tolist() == [[3.5], [13.5]]
    assert upload.values["control"].tolist() == [[2.5], [14.5]]
    assert upload.mirrors == {"c": ("control", 1.0)}


def test_weights_are_of_masses_and_not_of_rows():
    # m_i N / sum m = 9 * 2 / 12 and 3 * 2 / 12, though the clients have 1 and 3 rows
    bound = Scaffold().weighed("size", False, SimpleNamespace(), seed=0)
    assert bound.shares(Fixed(mass=(9.0, 3.0))).tolist() == [1.5, 0.5]
    assert Scaffold().weighed("uniform", False, SimpleNamespace(), seed=0).shares(Fixed()) is None


PAIRS = {
    "scaffold 1": {"name": "scaffold", "option": 1},
    "scaffold 2": {"name": "scaffold", "option": 2},
    "fednova": {"name": "fednova", "variance_reduction": True},
    "fedexp": {"name": "fedexp", "variance_reduction": True},
}


@pytest.mark.parametrize("method", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_quadratics_with_weights_of_their_own_end_at_the_optimum_of_f(method, seed, tmp_path):
    """Unequal masses p_k, unequal numbers of steps; x* = (sum p_k e_k) / (sum p_k h_k)."""
    data = {"name": "quadratic", "clients": 10, "features": 3, "seed": seed}
    scenario = {
        "seeds": [0],
        "rounds": 500,
        "evaluate": {"every": 500},
        "problem": {"name": "quadratic", "dataset": data},
        "clients": {"groups": [{"ids": [0, 3, 4], "local": {"steps": 2}}]},
        "participation": {"select": "all"},
        "algorithms": [{**method, "local": {"steps": 5, "lr": 0.02, "batch": "full"}}],
        "executor": "serial",
    }
    result = rayfed.run(scenario, out=tmp_path / "out", page=False)
    (run,) = result.outcome
    table = Quadratics(clients=10, features=3, seed=seed).load(None, 0)
    best = table.mass @ table.X / (table.mass @ table.y)
    assert result.model(run) == pytest.approx(best, rel=1e-9)


def test_the_server_adds_the_sum_over_participants_over_all_clients():
    mean = reply({"control": [6.0]}, population=8)
    renewed = control.renewed({"c": np.array([1.0])}, mean)
    assert renewed["c"].tolist() == [1.0 + 2 / 8 * 6.0]


def test_without_control_variates_nothing_of_them_is_kept_or_sent():
    state = {"x": X, **control.zeros(X, used=False)}
    assert dict(control.ask(state, {"delta": 1}).up) == {"delta": 1}
    assert control.renewed(state, reply({"delta": [6.0]}, population=8)) == {}
    some, model = points([1.0, 2.0]), np.zeros(1)
    local, upload = control.solve(some, model, None, None)
    assert local.x.tobytes() == some.solve(model).x.tobytes()
    assert (upload.values, upload.state) == ({}, {})


@dataclass(frozen=True, kw_only=True)
class Probe(Algorithm):
    """Its model becomes the mean of the clients' ids, plain or weighted, plus 10 N."""

    name: ClassVar[str] = "probe"
    alike: tuple[str, ...] = ()

    def tell(self, clients):
        return Upload({"own": clients.ids[:, None].astype(float)})

    def round(self, state):
        reply = yield Ask("tell", send={}, up={"own": 1}, plain=self.alike)
        return {"x": reply.mean["own"] + 10 * reply.population}, {}


def test_a_plain_mean_counts_clients_once_whatever_their_size(line):
    # clients 0 and 1 with one row and three
    probe = {"name": Probe, "weights": "size"}
    found = line(probe, {**probe, "label": "plain", "alike": ["own"]}, rows=(1, 3))
    assert found == {"probe": 20.75, "plain": 20.5}


def test_only_sums_of_gradients_can_be_undone():
    control.need_sgd(SGD(momentum=0.9), "scaffold")
    with pytest.raises(
        ScenarioError, match=r"local: found 'adam', but 'scaffold' must know .*; use"
    ):
        control.need_sgd(Adam(), "scaffold")
