"""Multi-Walk against a plain program of events, and against a walking server."""

import heapq
import itertools
from collections import defaultdict

import numpy as np
import pytest

from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.testing import loop
from rayfed.topology.walks.metropolis import Walker
from tests.algorithms import test_gossip
from tests.algorithms.test_gossip import LOCAL, ROWS, scenario
from tests.fakes.presence import Presence

data = test_gossip.data
METHOD = {"name": "multi-walk", "local": LOCAL}
ARRIVES, LEAVES = 0, 1
MODEL = 8 * 3  # bytes


class Case:
    """Random walks on six nodes with unequal rows, speeds, steps, rates and links."""

    def __init__(self, seed, folder, *, absent=False, faulty=False):
        self.faults = [{"name": "bit-flip", "ids": [0, 3]}] if faulty else []
        rng = np.random.default_rng(seed)
        self.walks, self.home = int(rng.integers(1, 7)), int(rng.integers(0, 6))
        # multiples of 1/8, so that walks meet at one instant
        self.pace, self.steps = rng.integers(1, 5, 6) / 8, rng.integers(1, 4, 6)
        self.rate, self.latency = rng.uniform(0.1, 0.5, 6), rng.integers(0, 3, 6) / 8
        self.mbps = 8e-6 * MODEL / (rng.integers(1, 4, (2, 6)) / 8)  # down and up
        self.hop = float(rng.integers(0, 2)) / 4
        # a ring of links with their own latency and bandwidth, too
        self.way = {frozenset((i, (i + 1) % 6)): (i / 8, MODEL * 8e-6 / 2) for i in range(6)}
        rows = [f"1,{min(k)},{max(k)},{late},{mbps}" for k, (late, mbps) in self.way.items()]
        file = folder / "links.csv"
        file.write_text("\n".join(["round,u,v,latency_s,mbps", *rows]))
        known = {"name": "trace", "path": str(file)}
        self.topology = [{"name": "ring"}, {"name": "complete"}, {"name": "star"}, known][seed % 4]
        if self.topology is not known:
            self.way = {}
        self.loss, stays = 0.3 * (absent and seed % 3 == 0), [[(0.0, np.inf)] for _ in range(6)]
        if absent:  # the first goes on, the others are away for good at last
            changes = rng.exponential(7, (6, 10)).cumsum(axis=1)
            stays = [[*zip(each[:-1:2], each[1::2], strict=True)] for each in changes.tolist()]
            stays[0].append((changes[0, -1].item() + 9, np.inf))
        self.nodes = Presence(stays, resume=absent and seed % 2 == 0)
        self.there = self.nodes.trace(folder / "there.csv")
        numbers = np.array(ROWS.split(), float).reshape(-1, 5)
        self.rows = [numbers[numbers[:, 0] == i, 1:] / 8 for i in range(6)]

    def engine(self, data):
        groups = [
            {
                "ids": [i], "delay": {"name": "constant", "mean_s": self.pace[i]},
                "local": LOCAL | {"steps": int(self.steps[i]), "lr": self.rate[i]},
                "network": {
                    "latency_s": self.latency[i], "down_mbps": self.mbps[0, i],
                    "up_mbps": self.mbps[1, i], "loss": self.loss,
                },
            }
            for i in range(6)
        ]  # fmt: skip
        rule = {"name": "metropolis", "hop_s": self.hop, "lazy": 0.25}
        method = METHOD | {"walks": self.walks, "home": self.home, "rule": rule}
        interrupted = "resume" if self.nodes.resume else "drop"
        engine = loop(scenario(
            data, method, self.topology,
            clients={"groups": groups, "availability": self.there, "faults": self.faults},
            participation={"select": "all", "interrupted": interrupted},
        ))  # fmt: skip
        self.lost = engine.run.federation.population.lost
        return engine

    def trained(self, i, x):
        a, y = self.rows[i][:, :3], self.rows[i][:, 3]
        for _ in range(self.steps[i]):
            x = x - self.rate[i] * a.T @ (a @ x - y) / len(y)
        return x

    def move_s(self, i, j):
        if i == j:
            return 0.0
        late, mbps = self.way.get(frozenset((i, j)), (0.0, np.inf))
        rate = min(self.mbps[1, i], self.mbps[0, j], mbps)
        return self.hop + late + self.latency[i] + self.latency[j] + 8e-6 * MODEL / rate

    def visits(self, walker):
        """Yield time, walk, node, bytes, whether it is lost, and the mean model, of each visit.

        A node keeps a queue; walks that wait for it are served in the order of their arrival.
        """
        x, u, left = np.zeros((self.walks, 3)), np.zeros(3), np.zeros((self.walks, 3))
        events, queues, came = [], defaultdict(list), [False] * self.walks
        self.visited = [0] * self.walks
        for walk in range(self.walks):
            heapq.heappush(events, (0.0, ARRIVES, walk, walker.first(walk), False))
        row = 0
        while True:
            if not events:
                return
            now, what, walk, node, lost = heapq.heappop(events)
            if what == ARRIVES:
                queues[node].append(walk)
                if len(queues[node]) == 1:
                    self.serve(events, now, queues, node)
                continue
            row += 1
            if not lost:
                x[walk] = self.trained(node, x[walk]) * (
                    -1 if self.faults and node in (0, 3) else 1
                )
            if node == self.home and not lost:
                u = u + (x[walk] - left[walk]) / self.walks
                x[walk] = left[walk] = u
            target = walker.step(node, row + 1, now, ask=walk)
            if not (self.nodes.there(node, now) and self.nodes.there(target, now)):
                target = node
            arrival = now + self.move_s(node, target)
            moved, had = target != node, came[walk]
            came[walk] = moved
            heapq.heappush(events, (arrival, ARRIVES, walk, target, False))
            queues[node].pop(0)
            if queues[node]:
                self.serve(events, now, queues, node)
            yield now, walk, node, MODEL * had, MODEL * moved, lost, x.mean(axis=0)

    def serve(self, events, now, queues, node):
        walk, start = queues[node][0], self.nodes.back_s(node, now)
        if np.isinf(start):  # it stays there for good
            return
        self.visited[walk] += 1
        number = (self.visited[walk] - 1) * self.walks + walk + 1
        share = self.lost([node], number, 0)[0] if self.loss else np.inf
        over, lost = self.nodes.over(node, start, self.pace[node] * self.steps[node], share)
        heapq.heappush(events, (over, LEAVES, walk, node, lost))


def check(data, folder, seed, rows, **more):
    """Compare visits with those of the program; return how many were lost, and the last row."""
    case, count = Case(seed, folder, **more), 0
    engine = case.engine(data)
    method = engine.run.training.algorithm
    walker = Walker(engine.run.federation.graphs, method.rule)
    (state, _), visits = engine.start(), [*itertools.islice(case.visits(walker), rows)]
    for now, *exact, lost, x in visits:
        state, row, _ = engine.step(state)
        found = [row[name] for name in ("walk", "node", "bytes_down", "bytes_up", "dropped")]
        assert found == [*exact, lost], seed
        assert row["time_s"] == pytest.approx(now, rel=1e-12)
        np.testing.assert_allclose(state.state["x"], x, rtol=1e-12, atol=1e-14)
        assert row["local_steps"] == (0 if lost else case.steps[exact[1]])
        count += lost
    if len(visits) < rows:
        with pytest.raises(RunFailed, match="all walks are at nodes that are away for good"):
            engine.step(state)
    return count, len(visits)


@pytest.mark.parametrize("seed", range(4))
def test_visits_are_those_of_a_plain_program(data, tmp_path, seed):
    check(data, tmp_path, seed, 60)


def test_visits_of_a_hundred_cases(data, tmp_path):
    for seed in range(4, 104):
        check(data, tmp_path, seed, 40)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_visits_to_nodes_that_come_and_go(data, tmp_path, seed):
    lost, _ = check(data, tmp_path, seed, 60, absent=True)
    assert (lost > 0) == (seed % 2 == 1)  # others resume


def test_faulty_nodes_hand_on_wrong_models(data, tmp_path):
    check(data, tmp_path, 5, 60, faulty=True)


def test_absence_in_forty_cases(data, tmp_path):
    ends = [check(data, tmp_path, seed, 100, absent=True)[1] for seed in range(4, 44)]
    assert min(ends) < 100  # all walks are stuck


def test_one_walk_is_that_of_a_walking_server(data):
    engine = loop(scenario(data, METHOD | {"walks": 1}, {"name": "ring"}))
    select = {"participation": {"select": {"name": "walk", "neighbours": False}}}
    served = loop(scenario(data, {"name": "fedavg", "local": LOCAL}, {"name": "ring"}, **select))
    state, other = engine.start()[0], served.start()[0]
    for _ in range(30):
        (state, row, _), (other, wanted, _) = engine.step(state), served.step(other)
        assert (row["node"], row["time_s"]) == (wanted["position"], wanted["time_s"])
        np.testing.assert_allclose(state.state["x"], other.state["x"], rtol=1e-12, atol=1e-15)


def test_a_node_alone_and_walks_that_cannot_move(data, tmp_path):
    """On a graph without links each walk stays at its first node and descends its F_i."""
    (tmp_path / "links.csv").write_text("round,u,v\n1,0,1\n1000000,1,2")
    topology = {"name": "trace", "path": str(tmp_path / "links.csv"), "disconnected": "allow"}
    engine = loop(scenario(data, METHOD | {"walks": 3}, topology))
    state, _ = engine.start()
    seen = defaultdict(set)
    for _ in range(30):
        state, row, _ = engine.step(state)
        seen[row["walk"]].add(row["node"])
        if row["node"] > 1:
            assert row["bytes_up"] == 0
    assert sorted(seen) == [0, 1, 2]
    assert all(nodes <= {0, 1} or len(nodes) == 1 for nodes in seen.values())


@pytest.mark.parametrize(
    ("place", "text", "more"),
    [
        ("participation.cohort", "a server", {"participation": {"cohort": 3}}),
        ("participation.select", "a server", {"participation": {"select": "weighted"}}),
        ("uplink", "uploads as they are", {"uplink": [{"name": "top-k", "k": 1}]}),
        (
            "participation.patience_s",
            "models of the clients' own",
            {"participation": {"patience_s": 1.0}},
        ),
        ("topology", "both directions", {"topology": {"name": "exponential"}}),
        ("aggregate", "server", {"aggregate": "median"}),
        (
            "clients.availability",
            "by the clock",
            {"clients": {"availability": {"name": "bernoulli", "p": 0.5}}},
        ),
        ("drift", "rows that stay", {"drift": {"name": "arriving", "at": 2}}),
        ("algorithms.0.home", "clients are 0 to 5", {"home": 6}),
        ("algorithms.0.rule", "never mixes", {"rule": {"name": "uniform", "periodic": "refuse"}}),
        ("algorithms.0.rule.speed_m_s", "no positions", {"rule": {"speed_m_s": 2.0}}),
        ("topology", "graph of clients", {"topology": None}),
        (
            "clients.delay",
            "so the clock of 'multi-walk' stands still",
            {"clients": {"delay": {"name": "constant", "mean_s": 0}}, "walks": 2},
        ),
    ],
)
def test_what_walks_cannot_have_is_refused(data, place, text, more):
    own = {key: more.pop(key) for key in ("home", "rule", "walks") if key in more}
    topology = more.pop("topology", {"name": "ring"})
    with pytest.raises(ScenarioError, match=text) as refused:
        loop(scenario(data, METHOD | own, topology, **more))
    assert refused.value.place.startswith(place)


def test_the_rate_of_several_walks_is_not_changed_in_a_row(data):
    """Rates go by the visits of each walk: a change would begin late, at another row of each."""
    rule = {"column": "round", "above": 3, "set": {"lr": 0.1}}
    for walks in (1, 2):
        made = scenario(data, METHOD | {"walks": walks, "control": [rule]}, {"name": "ring"})
        if walks == 1:
            loop(made)
            continue
        with pytest.raises(ScenarioError, match="numbers the visits of each walk"):
            loop(made)
