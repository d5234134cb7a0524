"""RWSADMM: its x-step by brute force, what it becomes without room, and what room brings."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed.algorithms.rwsadmm import RWSADMM
from rayfed.clients import Clients
from rayfed.errors import ScenarioError
from rayfed.problems.least_squares import LeastSquares
from rayfed.problems.objective import Objective
from rayfed.solvers import SGD

ONE = {"steps": 1, "batch": "full"}


class Points:
    """A row for each client: feature 1, target m."""

    dtype = np.dtype(float)

    def __init__(self, targets):
        self.targets = targets

    def widths(self, ids, part="train"):
        return np.ones(len(ids), dtype=np.int64)

    def rows(self, ids, width, part="train"):
        return np.ones((len(ids), 1, 1)), self.targets[ids][:, None]


def points(targets, x, z, steps=1):
    """Clients with F_j(x) = (x - m_j)^2 / 2, at models x and with multipliers z (K,)."""
    problem, k = LeastSquares(intercept=False), len(targets)
    solver = SGD(steps=steps, batch="full")
    return Clients(
        problem=problem, objective=Objective(problem, clients=k, samples=k, features=1),
        shards=Points(targets), solver=solver, ids=np.arange(k), sizes=np.ones(k, dtype=np.int64),
        steps=np.full(k, steps), seed=0, round=1, ask=0, p=1,
        state={"x": x[:, None], "z": z[:, None]},
    )  # fmt: skip


def soft(w, width):
    return np.sign(w) * np.maximum(np.abs(w) - width, 0)


def test_the_x_step_is_the_minimiser_of_its_sub_problem():
    rng = np.random.default_rng(0)
    k, beta, room, y = 1000, 7.0, 0.3, 0.4
    m, x0, z0 = rng.standard_normal((3, k)) * [[2], [1], [3]]
    after = RWSADMM(beta=beta, epsilon=room).walk(points(m, x0, z0), np.array([y])).state["x"][:, 0]
    g = x0 - m

    def value(x):
        """The linearised F_j, and beta / 2 times the squared distance of the constraint."""
        outside = np.maximum(np.abs(y - x + z0 / beta) - room, 0)
        return g * x + beta / 2 * outside**2

    grid = after + np.linspace(-5, 5, 2001)[:, None]
    assert (value(after) <= value(grid).min(axis=0) + 1e-9).all()
    # and nothing else is: a hundredth to either side is worse
    for way in (-0.01, 0.01):
        assert (value(after) < value(after + way)).all()


def test_two_steps_by_hand():
    # m = 5, x = 1, z = 2, y = 0, beta 2, room 1/2, kappa 1/2. g = -4: x <- 0 + 1 + 2 + 1/2 = 3.5;
    # z <- 2 + (S(2 - 7) - 2) / 2 with S(-5) = -4: z = -1. g = -1.5: x <- -0.5 + 0.75 + 0.5 = 0.75;
    # z <- -1 + (S(-1 - 1.5) + 1) / 2 with S(-2.5) = -1.5: z = -1.25.
    method = RWSADMM(beta=2.0, epsilon=0.5, kappa=0.5)
    one = np.ones(1)
    upload = method.walk(points(5 * one, one, 2 * one, steps=2), np.zeros(1))
    assert upload.state["x"].item() == pytest.approx(0.75, rel=1e-14)
    assert upload.state["z"].item() == pytest.approx(-1.25, rel=1e-14)
    # x - z / beta + room sgn(z): 0.75 + 0.625 - 0.5 = 0.875, before 1 - 1 + 0.5
    assert upload.values["change"].item() == pytest.approx(0.875 - 0.5, rel=1e-14)
    assert upload.values["distance"].item() == pytest.approx(0.75, rel=1e-14)


@pytest.fixture
def study(tmp_path):
    """20 clients with F_j(x) = ||x - c_j||^2 / 2 in five dimensions, eight of them a round."""
    centres = np.random.default_rng(0).standard_normal((20, 5))
    rows = pd.DataFrame(np.tile(np.eye(5), (20, 1)), columns=list("abcde"))
    rows.assign(client=np.repeat(np.arange(20), 5), y=centres.ravel()).to_csv(
        tmp_path / "centres.csv", index=False
    )

    def run(rounds, **settings):
        scenario = {
            "rounds": rounds,
            "problem": {
                "name": "least-squares", "half": True, "divide_by": "none", "intercept": False,
                "weighting": "uniform", "dataset": str(tmp_path / "centres.csv"), "test": 0,
            },
            "clients": {},
            "participation": {"cohort": 8},
            "evaluate": {"every": rounds},
            "algorithms": [{"name": "rwsadmm", "local": ONE, **settings}],
            "executor": "serial",
        }  # fmt: skip
        return rayfed.run(scenario, out=tmp_path / "out")

    return centres, run


def test_without_room_it_is_walkman_and_finds_the_consensus(study):
    centres, run = study
    result = run(700, epsilon=0.0, beta=10.0)
    assert np.abs(result.model("rwsadmm-seed0") - centres.mean(axis=0)).max() < 1e-12
    assert result.rounds.token_distance.iloc[-1] < 1e-12


def test_room_lets_models_differ_about_so_much_and_lowers_their_losses(study):
    centres, run = study
    result = run(300, epsilon=0.1, beta=10.0)
    consensus = 0.5 * np.mean(np.sum((centres - centres.mean(axis=0)) ** 2, axis=1))
    last = result.rounds.iloc[-1]
    # An independent implementation of these updates went from 2.242 to 1.872 (centres from NumPy's
    # default generator, seed 0).
    assert consensus == pytest.approx(2.242, abs=5e-4)
    assert last.personal_loss == pytest.approx(1.872, abs=5e-3)
    assert last.loss == pytest.approx(consensus, rel=1e-3)
    # five coordinates at the edge of the room: 0.1 sqrt(5), and a little beyond
    assert 0.9 * 0.1 * 5**0.5 < last.token_distance < 1.2 * 0.1 * 5**0.5


def test_the_printed_formulas_diverge_though_beta_is_above_its_bound(study):
    _, run = study
    loss = run(300, formulation="printed", epsilon=0.1, beta=10.0).rounds.loss.dropna()
    assert loss.iloc[-1] > 1e6 * loss.iloc[0]


def test_the_released_code_holds_clients_at_their_anchor(study):
    # its multipliers freeze, and a step moves a client by its gradient over beta
    centres, run = study
    settings = {"beta": 100.0, "epsilon": 1e-5, "kappa": 1e-3, "kappa_decay": 0.95, "users": 8}
    result = run(300, formulation="released-code", **settings)
    apart = result.rounds.token_distance.iloc[-1]
    assert apart < 1.5 * np.sqrt(np.sum(centres**2, axis=1)).mean() / 100
    assert apart > 0


def test_every_client_may_have_a_room_of_its_own(study):
    _, run = study
    rooms = [0.0] * 10 + [0.2] * 10
    clients = run(200, epsilon=rooms, beta=10.0).clients.set_index("client")
    same = run(200, epsilon=0.0, beta=10.0).clients.set_index("client")
    assert (clients.loss[10:] < same.loss[10:]).all()
    with pytest.raises(ScenarioError, match="found 2 widths for 20 clients; give one for each"):
        run(1, epsilon=[0.1, 0.2])


def test_local_steps_that_would_not_be_its_own_are_refused(study):
    _, run = study
    with pytest.raises(ScenarioError, match="'rwsadmm' brings its own: leave them out"):
        run(1, local={**ONE, "momentum": 0.9})
