"""Tools for tests of plug-ins, ours and users'.

Examples
--------
A round of FedAvg by hand: two clients at 4 moved to 1 and to 3, so the mean change is 2.

>>> import numpy as np
>>> from rayfed.algorithms.fedavg import FedAvg
>>> from rayfed.testing import answer, reply
>>> state, diagnostics, asks = answer(FedAvg(), {"x": np.array([4.0])}, reply({"delta": [2.0]}))
>>> state["x"].tolist()
[2.0]
"""

from rayfed.testing.rounds import Answered, Chosen, answer, choose, reply
from rayfed.testing.toy import TOY, clients_of, loop, points, tiny_run, toy_scenario

__all__ = [
    "TOY",
    "Answered",
    "Chosen",
    "answer",
    "choose",
    "clients_of",
    "loop",
    "points",
    "reply",
    "tiny_run",
    "toy_scenario",
]
