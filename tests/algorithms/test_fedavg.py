import numpy as np
import pytest

from rayfed.algorithms.fedavg import FedAvg
from rayfed.messages import Reply


def answer(round, **mean):
    """Play the engine: answer one Ask, return the Ask and what the round returns."""
    ask = next(round)
    one = np.ones(2)
    with pytest.raises(StopIteration) as end:
        round.send(Reply(np.arange(2), one, mean, {}, one.astype(int)))
    return ask, end.value.value


def test_the_server_moves_against_the_mean_pseudo_gradient():
    x = np.array([4.0, 1.0])
    ask, (state, told) = answer(FedAvg(server_lr=0.5).round({"x": x}), delta=np.array([2.0, -4.0]))
    assert (ask.work, list(ask.send), dict(ask.up)) == ("train", ["x"], {"delta": 2})
    assert state["x"].tolist() == [3.0, 3.0]
    assert told == {}
    assert x.tolist() == [4.0, 1.0]


class TwoClients:
    """Clients that end at fixed models whatever they start from."""

    def solve(self, x):
        class Local:
            x = np.array([[1.0, 0.0], [3.0, 2.0]])
            loss = np.array([0.1, 0.2])

        return Local


def test_a_client_uploads_where_it_came_from_minus_where_it_went():
    upload = FedAvg().train(TwoClients(), np.array([4.0, 1.0]))
    assert upload.values["delta"].tolist() == [[3.0, 1.0], [1.0, -1.0]]
    assert upload.loss.tolist() == [0.1, 0.2]
