"""Meetings of nodes: the trace of AD-PSGD, random cases against a plain program, and refusals."""

import heapq

import numpy as np
import pytest

from rayfed.core.rng import Key
from rayfed.engine.meetings import levels
from rayfed.testing import loop

ROWS = "client,a,y\n0,1,0\n1,1,4\n1,0,0\n2,1,8\n3,0.5,1\n"
"""Curvatures (1, 1/2, 1, 1/4) and minimisers (0, 4, 8, 2)."""
SECONDS, LATENCY = (1, 2.5, 3, 1.5), (0.125, 0.125, 0.125, 0.375)
PEERS = {0: "13113133", 1: "20020", 2: "3113", 3: "202002"}


class Scripted:
    """Peers in a given order, in place of keyed draws."""

    def __init__(self, graph):
        self.graph = graph

    def integers(self, ids, high, count, *, round):
        (node,) = ids
        peer = int((PEERS[node] + "0000")[round - 1]) if round <= len(PEERS[node]) else None
        around = self.graph.neighbours(node).tolist()
        return np.array([[around.index(peer) if peer is not None else 0]])


def ring(tmp_path, **algorithm):
    (tmp_path / "rows.csv").write_text(ROWS)
    groups = [
        {"name": f"node {i}", "ids": [i], "network": {"latency_s": LATENCY[i]},
         "delay": {"name": "constant", "mean_s": SECONDS[i]}}
        for i in range(4)
    ]  # fmt: skip
    data = {"name": "table", "path": str(tmp_path / "rows.csv"), "client": "client"}
    return {
        "name": "ring", "rounds": 12, "evaluate": {"every": 12}, "executor": "serial",
        "problem": {"name": "least-squares", "dataset": data, "target": "y", "intercept": False},
        "clients": {"groups": groups}, "topology": "ring",
        "algorithms": [{"name": "ad-psgd", "local": {"steps": 1, "batch": "full", "lr": 0.5}}
                       | algorithm],
    }  # fmt: skip


def models(engine):
    (rows,) = engine.exchange.executor.snapshot(engine.run.folder)
    return rows["x"][np.argsort(rows["ids"])]


@pytest.mark.parametrize("meetings", [1, 4, 12])
def test_the_trace_of_twelve_meetings(tmp_path, meetings):
    engine = loop(ring(tmp_path, meetings=meetings))
    engine.policy.key = Scripted(engine.run.federation.graphs.at(1))
    state, _ = engine.start()
    events = []
    for _ in range(12 // meetings):
        state, row, ended = engine.step(state)
        events += ended[0].tasks.over_s.tolist()
    assert events == [1.5, 2.5, 3, 3.5, 4, 5, 5, 6, 6.5, 7.5, 7.5, 8.5]
    expected = [675 / 512, 311 / 128, 627 / 256, 815 / 512]
    assert models(engine).ravel().tolist() == expected
    assert state.state["x"].item() == sum(expected) / 4
    assert row["bytes_up"] == row["bytes_down"] == meetings * 2 * 8
