import numpy as np

from rayfed.algorithms import FedAvg
from rayfed.testing import answer, reply


def test_the_server_moves_against_the_mean_pseudo_gradient():
    x = np.array([4.0, 1.0])
    state, diagnostics, (ask,) = answer(
        FedAvg(server_lr=0.5), {"x": x}, reply({"delta": [2.0, -4.0]})
    )
    assert (ask.function, list(ask.send), dict(ask.up)) == ("train", ["x"], {"delta": 2})
    assert state["x"].tolist() == [3.0, 3.0]
    assert diagnostics == {}
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
