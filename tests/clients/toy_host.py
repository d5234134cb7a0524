"""A host with a few clients, and a client function that shows how it is called."""

from dataclasses import dataclass

import numpy as np

from rayfed.clients.host import Host
from rayfed.clients.request import Request
from rayfed.clients.setup import DataView, DataViews, Setup
from rayfed.core.plugins import find
from rayfed.datasets.split import ClientRows, Split
from rayfed.datasets.table import Rows, TableShards
from rayfed.messages import Upload
from rayfed.problems.objective import Objective
from rayfed.solvers import SGD


@dataclass(frozen=True)
class ToyHalf:
    """A client function for tests: sends ids, counts its calls in the client's state."""

    def work(self, clients, x):
        if 3 in clients.ids:
            raise ValueError("client 3 is broken")
        ids = clients.ids.astype(float)
        state = {"calls": clients.state["calls"] + 1}
        return Upload({"vector": ids[:, None] * x, "scalar": ids}, state, loss=ids + 0.5)

    def liar(self, clients, x):
        return Upload({"vector": np.zeros((len(clients.ids), 7))})

    def sideways(self, clients, x):
        return Upload({"vector": np.zeros((2, len(clients.ids)))})

    def forgetful(self, clients, x):
        return Upload({}, state={"cals": clients.state["calls"]})

    def greedy(self, clients, x):
        return Upload({}, state={"calls": np.zeros((len(clients.ids), 2))})

    def both(self, clients, x):
        return Upload({"loss": np.full(len(clients.ids), 7.0)}, loss=np.zeros(len(clients.ids)))

    def crowd(self, clients, x):
        ids = clients.ids.astype(float)
        return Upload({"vector": ids[:, None] * x, "scalar": np.full(len(ids), len(ids))})

    def lossy(self, clients, x):
        return Upload({}, loss=np.zeros((len(clients.ids), 1)))

    def odd(self, clients, x):
        return "nothing"


def host_with(sizes, block=100):
    sizes = np.array(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = Rows(np.ones((offsets[-1], 2)), np.ones(offsets[-1]), (2,))
    none = ClientRows(np.zeros(0, np.int64), np.zeros(len(sizes) + 1, np.int64))
    shards = TableShards.of(rows, Split(ClientRows(np.arange(offsets[-1]), offsets), none), 0)
    problem = find("problems")["least-squares"](intercept=False)
    view = DataView(shards, Objective(problem, len(sizes), int(offsets[-1]), 2))
    setup = Setup(
        {"algorithm": ToyHalf()},
        DataViews(view, view),
        problem,
        (SGD(),),
        {"calls": np.zeros(1)},
        0,
        2,
        block,
    )
    host = Host()
    host.open("run", setup, [(0, 1)])
    return host, setup


def request(ids, work="work", up=None, weights=None):
    ids = np.array(ids)
    none = np.zeros(len(ids), dtype=np.int64)
    weights = np.ones(len(ids)) if weights is None else np.array(weights, dtype=float)
    up = {"vector": 2, "scalar": 1} if up is None else up
    return Request("algorithm", work, up, ids, weights, none, none, 1, 0)
