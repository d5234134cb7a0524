import numpy as np
import pytest

from rayfed.algorithms import FedNova
from rayfed.core.errors import ScenarioError
from rayfed.solvers import SGD
from rayfed.study import Study
from rayfed.testing import answer, points, reply

SOLVERS = {
    "plain": {},
    "momentum": {"momentum": 0.9},
    "proximal": {"mu": 0.5},
    "both": {"momentum": 0.9, "mu": 0.5},
}
solvers = pytest.mark.parametrize("settings", SOLVERS.values(), ids=SOLVERS)


def local(lr, steps, **more):
    return {"steps": steps, "batch": "full", "lr": lr, **more}


def unequal(steps):
    """Return clients of which the second takes so many steps."""
    return {"groups": [{"ids": [1], "local": {"steps": steps}}]}


def test_the_server_multiplies_the_mean_direction_by_the_effective_steps():
    algorithm = FedNova()
    means = reply({"direction": [2.0, 1.0], "norm": 3.0})
    state, diagnostics, (ask,) = answer(algorithm, algorithm.init(np.array([10.0, 0.0])), means)
    assert dict(ask.up) == {"direction": 2, "norm": 1}
    assert state["x"].tolist() == [4.0, -3.0]
    assert diagnostics == {"tau_eff": 3.0}


def test_effective_steps_may_be_the_mean_number_of_steps():
    # two steps with momentum 1/2 have coefficients 1.5 + 1, four 1.875 + 1.75 + 1.5 + 1
    solver = SGD(momentum=0.5, lr=0.1, batch="full")
    clients = points([0.0, 4.0], solver=solver, steps=[2, 4])
    for mode, norms in (("steps", [2.0, 4.0]), ("norms", [2.5, 6.125])):
        upload = FedNova(tau_eff=mode, local=solver).train(clients, np.array([1.0]))
        assert upload.values["norm"].tolist() == norms


def test_server_momentum_adds_a_share_of_the_last_change():
    algorithm = FedNova(server_momentum=0.5)
    state = algorithm.init(np.array([10.0]))
    for norm in (2.0, 1.0):  # changes 2, then 1 + 0.5 * 2
        state, _, _ = answer(algorithm, state, reply({"direction": [1.0], "norm": norm}))
    assert state["x"].tolist() == [6.0]


@solvers
def test_equal_steps_are_fedavg(line, settings):
    same = local(0.1, 5, **settings)
    found = line(
        {"name": "fednova", "local": same}, {"name": "fedavg", "local": same}, rows=(1, 3), rounds=7
    )
    assert found["fednova"] == pytest.approx(found["fedavg"], rel=1e-13)


def test_unequal_steps_by_hand(line):
    """One step of 1/2 against two, from 10.

    Client 0 moves by 5 in one step, client 1 by 3 + 1.5 in two: directions 5 and 2.25, mean 3.625,
    times 1.5 effective steps. FedAvg moves by (5 + 4.5) / 2.
    """
    found = line(
        {"name": "fednova", "local": local(0.5, 1)}, {"name": "fedavg", "local": local(0.5, 1)},
        clients=unequal(2),
    )  # fmt: skip
    assert found == pytest.approx({"fednova": 10 - 5.4375, "fedavg": 5.25}, rel=1e-14)


def test_fednova_reaches_the_minimum_of_f_and_fedavg_that_of_the_weighted_by_steps(line):
    """On F_i = (x - m_i)^2 / 2 clients move by 1 - (1 - lr)^tau_i of their distance to m_i.

    F = (F_0 + F_1) / 2 is least at 2, (1 F_0 + 3 F_1) / 4 at 3. Where the steps are small the
    methods end there; exactly, where the moves cancel.
    """
    steps = {"local": local(0.01, 1)}
    found = line(
        {"name": "fednova", **steps}, {"name": "fedavg", **steps}, clients=unequal(3), rounds=600
    )
    one, three = 0.01, 1 - 0.99**3
    assert found["fednova"] == pytest.approx(4 * (three / 3) / (one + three / 3), rel=1e-4)
    assert found["fedavg"] == pytest.approx(4 * three / (one + three), rel=1e-4)
    assert found["fednova"] == pytest.approx(2.0, abs=0.02)
    assert found["fedavg"] == pytest.approx(3.0, abs=0.02)


@solvers
def test_every_local_solver_is_normalised_to_the_minimum_of_f(line, settings):
    """Divided by their steps, 2 and 8, clients with momentum would end at 2.85 (2.9 and 28.7)."""
    found = line(
        {"name": "fednova", "local": local(0.005, 2, **settings)}, clients=unequal(8), rounds=400
    )
    assert found["fednova"] == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_variance_reduction_takes_the_rest_of_the_bias(line, momentum):
    nova = {"name": "fednova", "local": local(0.1, 2, momentum=momentum)}
    reduced = {**nova, "label": "vr", "variance_reduction": True}
    found = line(nova, reduced, rows=(1, 3), clients=unequal(8), rounds=300)
    assert found["vr"] == pytest.approx(3.0, abs=1e-8)
    assert abs(found["fednova"] - 3.0) > 0.05


def test_variance_reduction_keeps_control_variates_and_sends_them():
    reduced, x0 = FedNova(variance_reduction=True), np.zeros(2)
    ask = next(reduced.round(reduced.init(x0)))
    assert set(ask.send) == {"x", "c"}
    assert dict(ask.up) == {"direction": 2, "norm": 1, "control": 2}
    assert list(reduced.client_state(x0)) == ["c"]
    assert list(FedNova().client_state(x0)) == []


def test_drawn_epochs_differ_from_client_to_client_and_stay_within_bounds(line):
    found = line(
        {"name": "fednova", "local": {"epochs": {"low": 2, "high": 5}, "batch": 1, "lr": 0.01}},
        rows=(1, 3), rounds=600,
    )  # fmt: skip
    assert found["fednova"] == pytest.approx(3.0, abs=0.1)


def test_a_solver_without_a_normaliser_is_refused():
    raw = {
        "rounds": 1,
        "problem": {"name": "least-squares", "dataset": "line"},
        "clients": {"count": 3},
        "algorithms": [{"name": "fednova", "local": {"name": "adagrad"}}],
    }
    with pytest.raises(ScenarioError, match=r"^algorithms.0.local: found 'adagrad'; give a kind"):
        Study.parse(raw)


@pytest.mark.parametrize(
    ("rate", "rounds"), [(0.03, 150), pytest.param(0.003, 600, marks=pytest.mark.slow)]
)
def test_a_group_with_a_learning_rate_of_its_own_does_not_count_more(line, rate, rounds):
    """F = (F_0 + F_1) / 2 is least at 2; FedAvg weighs client 1 by its rate as well."""
    own = {"groups": [{"ids": [1], "local": {"steps": 4, "lr": rate}}]}
    found = line(
        {"name": "fednova", "local": local(0.01, 4)},
        {"name": "fednova", "label": "steps", "tau_eff": "steps", "local": local(0.01, 4)},
        {"name": "fedavg", "local": local(0.01, 4)},
        clients=own, rounds=rounds,
    )  # fmt: skip
    assert found["fednova"] == pytest.approx(2.0, abs=0.1)
    assert found["steps"] == pytest.approx(2.0, abs=0.1)
    assert abs(found["fedavg"] - 2.0) > 0.8
