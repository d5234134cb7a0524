import numpy as np
import pytest

from rayfed.algorithms import FedExP
from rayfed.core.errors import ScenarioError
from rayfed.solvers import Adam
from rayfed.testing import answer, reply


def server_step(mean, norm2, **settings):
    algorithm = FedExP(**settings)
    means = reply({"delta": mean, "norm2": norm2})
    state, diagnostics, (ask,) = answer(algorithm, algorithm.init(np.zeros(2)), means)
    assert dict(ask.up) == {"delta": 2, "norm2": 1}
    return state["x"].tolist(), diagnostics["server_lr"]


def test_clients_that_disagree_are_extrapolated():
    # mean of squared norms 20, squared norm of the mean 2: eta = 20 / (2 * 2) = 5
    assert server_step([1.0, 1.0], 20.0, epsilon=0.0) == ([-5.0, -5.0], 5.0)


def test_epsilon_enters_beside_the_squared_norm():
    assert server_step([1.0, 1.0], 20.0, epsilon=3.0)[1] == 2.0


def test_clients_that_agree_give_one_half_without_the_maximum_and_one_with_it():
    assert server_step([1.0, 1.0], 2.0, epsilon=0.0, max_one=False)[1] == 0.5
    assert server_step([1.0, 1.0], 2.0, epsilon=0.0)[1] == 1.0


def test_a_huge_epsilon_is_fedavg():
    assert server_step([1.0, 1.0], 20.0, epsilon=1e12) == ([-1.0, -1.0], 1.0)


def test_epsilon_decays_or_grows_from_round_to_round():
    for factor, second in ((0.25, 5.0), (2.25, 1.0)):
        # 20 / (2 (1 + 4)) = 2; then epsilon is 1 or 9: 20 / (2 (1 + 1)) or 20 / (2 (1 + 9))
        algorithm = FedExP(epsilon=4.0, epsilon_decay=factor, max_one=False)
        state = algorithm.init(np.zeros(1))
        steps = []
        for _ in range(2):
            means = reply({"delta": [1.0], "norm2": 20.0})
            state, diagnostics, _ = answer(algorithm, state, means)
            steps.append(diagnostics["server_lr"])
        assert steps == [2.0, second]


def test_nobody_moved_is_no_division_by_zero():
    assert server_step([0.0, 0.0], 0.0, epsilon=0.0, max_one=False) == ([0.0, 0.0], 1.0)


def test_a_client_adds_the_squared_norm_of_its_pseudo_gradient():
    class Clients:
        def solve(self, x):
            class Local:
                x = np.array([[1.0, 0.0], [3.0, 2.0]])
                loss = None

            return Local

    upload = FedExP().train(Clients(), np.array([4.0, 1.0]))
    assert upload.values["delta"].tolist() == [[3.0, 1.0], [1.0, -1.0]]
    assert upload.squares == {"norm2": "delta"}


def test_server_momentum_stretches_the_remembered_direction():
    algorithm = FedExP(epsilon=0.0, server_momentum=0.5)
    state = algorithm.init(np.array([0.0]))
    # eta 8 / (2 * 4) = 1, m = 2; then eta 4 / (2 * 1) = 2, m = 1 + 1
    state, _, _ = answer(algorithm, state, reply({"delta": [2.0], "norm2": 8.0}))
    assert state["x"].item() == -2.0
    state, diagnostics, _ = answer(algorithm, state, reply({"delta": [1.0], "norm2": 4.0}))
    assert (state["x"].item(), diagnostics["server_lr"]) == (-6.0, 2.0)


LOCAL = {"steps": 2, "batch": "full", "lr": 0.1}


def test_a_huge_epsilon_is_fedavg_to_the_bit(line):
    huge = {"name": "fedexp", "epsilon": 1e300, "local": LOCAL}
    found = line(huge, {"name": "fedavg", "local": LOCAL}, rounds=9)
    assert found["fedexp"] == found["fedavg"]


def test_on_scaffold_with_a_huge_epsilon_it_is_scaffold_to_the_bit(line):
    huge = {"name": "fedexp", "epsilon": 1e300, "variance_reduction": True, "local": LOCAL}
    found = line(huge, {"name": "scaffold", "local": LOCAL}, rows=(1, 3), rounds=9)
    assert found["fedexp"] == found["scaffold"]


def test_on_scaffold_it_reaches_the_minimum_of_f_whatever_the_steps(line):
    more = {"groups": [{"ids": [1], "local": {"steps": 6}}]}
    fedexp = {"name": "fedexp", "local": LOCAL}
    reduced = {**fedexp, "label": "vr", "variance_reduction": True}
    found = line(fedexp, reduced, rows=(1, 3), clients=more, rounds=200)
    assert found["vr"] == pytest.approx(3.0, abs=1e-8)
    assert abs(found["fedexp"] - 3.0) > 0.1


def test_on_fedprox_it_steps_along_proximal_local_steps(line):
    # two steps of 1/2 with mu 1 end at 5 and 7 (see FedProx): mean change 4, squares 25 and 9
    prox = {"steps": 2, "batch": "full", "lr": 0.5, "mu": 1.0}
    found = line({"name": "fedexp", "epsilon": 0.0, "max_one": False, "local": prox})
    assert found["fedexp"] == pytest.approx(10 - 17 / 32 * 4, rel=1e-14)


def test_variance_reduction_refuses_solvers_that_it_cannot_read():
    with pytest.raises(ScenarioError, match="local: found 'adam', but 'fedexp' must know"):
        FedExP(variance_reduction=True, local=Adam())
    assert FedExP(local=Adam()).local == Adam()
