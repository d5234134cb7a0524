import numpy as np
import pytest

from rayfed.algorithms.base import Reply
from rayfed.algorithms.fedexp import FedExP


def server_step(mean, norm2, **settings):
    round = FedExP(**settings).round(FedExP(**settings).init(np.zeros(2)))
    ask = next(round)
    assert dict(ask.up) == {"delta": 2, "norm2": 1}
    one = np.ones(2)
    values = {"delta": np.array(mean), "norm2": np.float64(norm2)}
    with pytest.raises(StopIteration) as end:
        round.send(Reply(np.arange(2), one, values, {}, one.astype(int)))
    state, told = end.value.value
    return state["x"].tolist(), told["server_lr"]


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
    assert upload.values["norm2"].tolist() == [10.0, 2.0]
