import numpy as np

from rayfed.algorithms import FedAvgM
from rayfed.testing import answer, reply

LOCAL = {"steps": 3, "batch": "full", "lr": 0.2}


def test_the_direction_remembers_and_the_server_step_scales_it():
    algorithm = FedAvgM(server_momentum=0.5, server_lr=2.0)
    state = algorithm.init(np.array([10.0]))
    # m = 4, x = 10 - 8; m = 2 - 1 = 1, x = 2 - 2
    state, diagnostics, _ = answer(algorithm, state, reply({"delta": [4.0]}))
    assert (state["x"].item(), state["m"].item(), diagnostics) == (2.0, 4.0, {})
    state, _, _ = answer(algorithm, state, reply({"delta": [-1.0]}))
    assert (state["x"].item(), state["m"].item()) == (0.0, 1.0)


def test_without_momentum_it_is_fedavg_to_the_bit(line):
    still = {"name": "fedavgm", "server_momentum": 0.0, "local": LOCAL}
    found = line(still, {"name": "fedavg", "local": LOCAL}, rounds=6)
    assert found["fedavgm"] == found["fedavg"]
