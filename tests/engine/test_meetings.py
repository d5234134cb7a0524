"""Meetings of nodes: the trace of AD-PSGD, random cases against a plain program, and refusals."""

import heapq

import numpy as np
import pytest

from rayfed import api
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.core.rng import Key
from rayfed.engine.meetings import Event, levels
from rayfed.engine.tasks import DROPPED, USED, Task
from rayfed.study.forecast.cost import _RunCost
from rayfed.testing import loop
from tests.fakes.presence import Presence

ROWS = "client,a,y\n0,1,0\n1,1,4\n1,0,0\n2,1,8\n3,0.5,1\n"
"""Curvatures (1, 1/2, 1, 1/4) and minimisers (0, 4, 8, 2)."""
SECONDS, LATENCY = (1, 2.5, 3, 1.5), (0.125, 0.125, 0.125, 0.375)
PEERS = "13113133", "20020", "3113", "202002"


class Scripted:
    """Peers in a given order, in place of keyed draws."""

    def __init__(self, graph, peers):
        self.graph, self.peers = graph, [iter(map(int, each)) for each in peers]

    def integers(self, ids, high, count, *, round):
        (node,) = ids
        return np.array(self.graph.neighbours(node).tolist().index(next(self.peers[node])))

    def sub(self, purpose):
        return Key(0, purpose)


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
    engine.policy.key = Scripted(engine.run.federation.graphs.at(1), PEERS)
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


def test_meetings_that_share_no_node_are_on_one_level():
    task = Task(*[0] * len(Task._fields))
    met = [Event(0, 1, task), Event(2, 2), Event(3, 2, task), Event(1, 1), Event(1, 2, task)]
    found = [(begins.tolist(), places.tolist()) for begins, places in levels(met)]
    assert found == [([2], [0, 1]), ([1], [2]), ([], [])]


# -- random cases against programs that go from event to event ---------------------------------


class Ranked:
    """Places among the neighbours that are available, in place of keyed draws."""

    def __init__(self, ranks):
        self.ranks = [iter(each) for each in ranks]

    def integers(self, ids, high, count, *, round):
        (node,), (most,) = ids, high
        return np.array(next(self.ranks[node]) % most)

    def sub(self, purpose):
        return Key(0, purpose)


class Case:
    """Nodes with random rows, speeds, steps, links, peers and times of absence."""

    def __init__(self, seed, folder, *, absent=False, faulty=False):
        draw = np.random.default_rng(seed)
        self.count, self.seed = int(draw.integers(2, 8)), seed
        self.sizes = draw.integers(1, 5, self.count)
        self.rows = [draw.normal(size=(size, 3)) for size in self.sizes]
        self.steps = draw.integers(1, 4, self.count)
        self.seconds = draw.lognormal(0, 1, self.count)
        self.latency = draw.uniform(0, 1, self.count)
        self.down, self.up = draw.uniform(1, 9, (2, self.count)) * 1e-4
        self.period_s, self.draw, self.folder = float(draw.uniform(0.5, 9)), draw, folder
        self.faults = [{"name": "bit-flip", "ids": [0], "start": 2}] if faulty else []
        self.loss = 0.3 * (absent and seed % 3 == 0)
        stays = [[(0.0, np.inf)] for _ in range(self.count)]
        if absent:  # the first goes on, the others are away for good at last
            changes = draw.exponential(6, (self.count, 20)).cumsum(axis=1)
            stays = [[*zip(each[:-1:2], each[1::2], strict=True)] for each in changes.tolist()]
            stays[0].append((changes[0, -1].item() + 90, np.inf))
        self.nodes = Presence(stays, resume=absent and seed % 2 == 0)

    def scenario(self, **algorithm):
        lines = [f"{i},{a!r},{b!r},{y!r}" for i, rows in enumerate(self.rows)
                 for a, b, y in rows.tolist()]  # fmt: skip
        file = self.folder / f"{self.seed}.csv"
        file.write_text("\n".join(["client,a,b,y", *lines]))
        groups = [
            {"name": f"node {i}", "ids": [i], "local": {"steps": int(self.steps[i])},
             "delay": {"name": "constant", "mean_s": float(self.seconds[i])},
             "network": {"latency_s": float(self.latency[i]), "down_mbps": float(self.down[i]),
                         "up_mbps": float(self.up[i]), "loss": self.loss}}
            for i in range(self.count)
        ]  # fmt: skip
        data = {"name": "table", "path": str(file), "client": "client"}
        problem = {"name": "least-squares", "dataset": data, "target": "y", "intercept": False}
        local, times = {"batch": "full", "lr": 0.1}, self.folder / f"{self.seed}-there.csv"
        return {
            "name": "case", "rounds": 99, "evaluate": {"every": 99}, "executor": "serial",
            "problem": problem,
            "clients": {"groups": groups, "availability": self.nodes.trace(times),
                        "faults": self.faults},
            "topology": {"name": "random", "p": 0.4, "disconnected": "repair"},
            "participation": {"interrupted": "resume" if self.nodes.resume else "drop"},
            "algorithms": [{"local": local} | algorithm],
        }  # fmt: skip

    def engine(self, **algorithm):
        """Return an engine with peers of our own, and iterators over the same peers."""
        engine = loop(self.scenario(**algorithm))
        graph = engine.run.federation.graphs.at(1)
        self.around = [graph.neighbours(i).tolist() for i in range(self.count)]
        ranks = self.draw.integers(0, 60, (self.count, 300)).tolist()
        engine.policy.key, self.ranks = Ranked(ranks), [iter(each) for each in ranks]
        self.tries = [0] * self.count
        self.lost = engine.run.federation.population.lost
        return engine

    def stepped(self, i, x):
        a, y = np.hsplit(self.rows[i], [2])
        for _ in range(self.steps[i]):
            x = x - 0.1 * a.T @ (a @ x - y[:, 0]) / len(y)
        return x

    def message_s(self, i, j, numbers):
        megabits = numbers * 8 * 8e-6
        return self.latency[i] + self.latency[j] + megabits / min(self.up[i], self.down[j])

    def computing(self, i, start_s):
        """Return when a task that begins is over, and whether it is lost then."""
        self.tries[i] += 1
        share = self.lost([i], self.tries[i], 0)[0] if self.loss else np.inf
        return self.nodes.over(i, start_s, self.seconds[i] * self.steps[i], share)

    def sent(self, i, j, model, row):
        """Return what node j gets for a model of node i in a row."""
        return -model if self.faults and i == 0 != j and row >= 2 else model

    def peer(self, i, now):
        """Draw a neighbour that is available, or the node itself."""
        present = [j for j in self.around[i] if self.nodes.there(j, now)]
        return present[next(self.ranks[i]) % len(present)] if present else i


def averaging(case, ends, meetings):
    """AD-PSGD, event by event: Lian et al. 2018, Algorithm 1, with times."""
    x = [np.zeros(2) for _ in range(case.count)]
    read, events, over = list(x), [], []
    for i in range(case.count):
        heapq.heappush(events, (0.0, i, "begin", None))
    while len(over) < ends:
        now, i, kind, j = heapq.heappop(events)
        if kind == "begin":
            start = case.nodes.back_s(i, now)
            if start > now:
                if np.isfinite(start):
                    heapq.heappush(events, (start, i, "begin", None))
                continue
            read[i] = x[i]
            end, lost = case.computing(i, now)
            heapq.heappush(events, (end, i, "lost" if lost else "computed", None))
        elif kind == "computed":
            j, seconds = case.peer(i, now), 0.0
            if j != i:
                seconds = case.message_s(i, j, 2) + case.message_s(j, i, 2)
            heapq.heappush(events, (now + seconds, i, "meets", j))
        else:
            if kind == "meets":
                before, row = sum(x), len(over) // meetings + 1
                mine, yours = x[i], x[j]
                x[j] = (case.sent(i, j, mine, row) + yours) / 2
                x[i] = (mine + case.sent(j, i, yours, row)) / 2
                assert case.faults or sum(x) == pytest.approx(before, abs=1e-12)
                x[i] = x[i] + case.stepped(i, read[i]) - read[i]
            over.append((now, i, kind == "lost"))
            heapq.heappush(events, (now, i, "begin", None))
    return over, np.array(x)


def gossiping(case, ends, meetings, phases):
    """Gossip learning, event by event; a node has a queue of messages."""
    x, age = [np.zeros(2) for _ in range(case.count)], [0] * case.count
    queue, over = [[] for _ in range(case.count)], []
    events = [(phase, i, "send", None) for i, phase in enumerate(phases)]
    heapq.heapify(events)

    def work(j, now):
        start = case.nodes.back_s(j, now)
        end, lost = (now, True) if np.isinf(start) else case.computing(j, start)
        heapq.heappush(events, (end, j, "lost" if lost else "done", None))

    while len(over) < ends:
        now, i, kind, message = heapq.heappop(events)
        if kind == "send":
            if (start := case.nodes.back_s(i, now)) > now:
                if np.isfinite(start):
                    heapq.heappush(events, (start, i, "send", None))
                continue
            j = case.peer(i, now)
            message = (i, now, x[i], age[i])
            seconds = case.message_s(i, j, 3) if j != i else 0.0
            heapq.heappush(events, (now + seconds, j, "receive", message))
        elif kind == "receive":
            queue[i].append(message)
            if len(queue[i]) == 1:
                work(i, now)
        else:
            sender, sent_s, model, old = queue[i].pop(0)
            if kind == "done":
                share = old / (old + age[i]) if old + age[i] else 0
                model = case.sent(sender, i, model, len(over) // meetings + 1)
                x[i] = case.stepped(i, (1 - share) * x[i] + share * model)
                age[i] = max(age[i], old) + case.steps[i]
            over.append((now, i, kind == "lost"))
            if queue[i]:
                work(i, now)
            heapq.heappush(events, (max(now, sent_s + case.period_s), sender, "send", None))
    return over, np.array(x)


def agrees(seed, name, folder, *, most=40, **more):
    """Compare a run with a program; return the number of tasks that were lost."""
    case = Case(seed, folder, **more)
    period = {"period_s": case.period_s} if name == "gossip-learning" else {}
    meetings = int(case.draw.integers(1, 10))
    engine = case.engine(name=name, meetings=meetings, **period)
    state, _ = engine.start()
    found = []
    for _ in range(most // meetings):
        state, row, ended = engine.step(state)
        tasks = [task for each in ended for task in each.tasks.rows()]
        found += sorted((task.over_s, task.client, task.status == DROPPED) for task in tasks)
        assert row["time_s"] == found[-1][0]
        assert row["participants"] + row["dropped"] == meetings == len(tasks)
        assert row["dropped"] == sum(task.status == DROPPED for task in tasks)
        assert np.isfinite(ended[0].losses[ended[0].tasks.status == USED]).all()
    if name == "ad-psgd":
        over, x = averaging(case, len(found), meetings)
    else:
        phases = Key(0, "phase").uniforms(np.arange(case.count)) * case.period_s
        over, x = gossiping(case, len(found), meetings, phases)
    assert [each[1:] for each in found] == [each[1:] for each in over]
    np.testing.assert_allclose([t for t, *_ in found], [t for t, *_ in over], rtol=1e-12)
    np.testing.assert_allclose(models(engine), x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state.state["x"], x.mean(axis=0), rtol=1e-10, atol=1e-12)
    return sum(lost for *_, lost in found)


@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_a_random_case_event_by_event(name, tmp_path):
    assert agrees(0, name, tmp_path) == 0


@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_absent_nodes_are_not_drawn_and_lose_their_work(name, tmp_path):
    assert sum(agrees(seed, name, tmp_path, absent=True) for seed in (1, 3)) > 3


@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_faulty_nodes_send_wrong_models_and_keep_their_own(name, tmp_path):
    agrees(2, name, tmp_path, absent=True, faulty=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_a_hundred_random_cases_event_by_event(name, tmp_path):
    for seed in range(1, 101):
        agrees(seed, name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_absence_in_a_hundred_random_cases(name, tmp_path):
    lost = [
        agrees(seed, name, tmp_path, absent=True, faulty=seed % 5 == 0) for seed in range(1, 101)
    ]
    assert sum(lost[1::6]) > 0  # without loss, resumed


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("participation.cohort", {"participation": {"cohort": 3}}),
        ("participation.deadline_s", {"participation": {"deadline_s": 9}}),
        ("participation.late", {"participation": {"late": "stale"}}),
        ("participation.timeout_s", {"participation": {"timeout_s": 9}}),
        ("participation.retries", {"participation": {"retries": 2}}),
        ("participation.patience_s", {"participation": {"patience_s": 2.0}}),
        ("participation.select", {"participation": {"select": "poisson", "cohort": 3}}),
        ("uplink", {"uplink": [{"name": "top-k", "k": 1}]}),
        ("uplink", {"uplink": [{"name": "secure-sum", "range": 4.0}]}),
        ("downlink", {"downlink": ["natural"]}),
        ("aggregate", {"aggregate": "median"}),
        ("clients.faults.0", {"clients": {"faults": [{"name": "replay", "count": 1}]}}),
        ("clients.faults.0", {"clients": {"faults": [{"name": "silent", "count": 1}]}}),
        ("clients.availability", {"clients": {"availability": {"name": "bernoulli", "p": 0.5}}}),
        ("topology", {"topology": {"name": "out-degree", "number": 2}}),
        ("drift", {"drift": {"name": "labels-swap", "at": 2, "pairs": [[0, 1]]}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_parts_that_do_not_fit_are_refused(tmp_path, name, place, more):
    made = ring(tmp_path, name=name)
    clients = made["clients"] | more.get("clients", {})
    refused = r"needs a server|leaves clients out|needs rounds"
    refused += r"|needs its uploads as they are|links in both directions"
    with pytest.raises(ScenarioError, match=refused) as error:
        loop(made | more | {"clients": clients})
    assert error.value.place.startswith(place)


def test_weights_by_size_are_refused(tmp_path):
    text = "needs clients that count alike, but weights: size weighs clients differently"
    with pytest.raises(ScenarioError, match=text):
        loop(ring(tmp_path, weights="size"))


def test_nodes_that_take_no_time_are_refused(tmp_path):
    made = ring(tmp_path)
    made["clients"]["groups"][2] |= {"network": {}, "delay": {"name": "constant", "mean_s": 0}}
    with pytest.raises(
        ScenarioError, match="client 2 takes no time to compute or send, so the clock"
    ):
        loop(made)


def test_nodes_that_may_be_alone_need_time_to_compute(tmp_path):
    made = ring(tmp_path)
    made["clients"]["groups"][2]["delay"] = {"name": "constant", "mean_s": 0}
    loop(made)
    with pytest.raises(ScenarioError, match="client 2 takes no time"):
        loop(made | {"topology": {"name": "ring", "disconnected": "allow"}})


def test_nodes_that_may_be_absent_need_time_to_compute(tmp_path):
    made = ring(tmp_path)
    made["clients"]["groups"][2]["delay"] = {"name": "constant", "mean_s": 0}
    made["clients"]["availability"] = {"name": "markov", "mean_on_s": 9, "mean_off_s": 9}
    with pytest.raises(ScenarioError, match="client 2 takes no time"):
        loop(made)


@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_nodes_that_are_all_away_wait_until_one_is_back(tmp_path, name):
    """Node 3 comes back alone: it meets nobody, and its clock begins at 50 s."""
    made = ring(tmp_path, name=name, meetings=1)
    nodes = Presence([[(70, 71)]] * 3 + [[(50, 60)]])
    made["clients"]["availability"] = nodes.trace(tmp_path / "there.csv")
    engine = loop(made)
    _, row, (ended,) = engine.step(engine.start()[0])
    (task,) = ended.tasks.rows()
    assert (task.client, task.start_s, row["time_s"]) == (3, 50, 51.5)
    assert row["bytes_up"] == row["bytes_down"] == 0
    assert models(engine).ravel().tolist() == [0, 0, 0, 0.25]


@pytest.mark.parametrize("name", ["ad-psgd", "gossip-learning"])
def test_nodes_that_are_away_for_good_end_the_run(tmp_path, name):
    made = ring(tmp_path, name=name, meetings=1)
    made["clients"]["availability"] = Presence([[], [], [], [(0, 1)]]).trace(tmp_path / "there.csv")
    engine = loop(made)
    state, row, _ = engine.step(engine.start()[0])
    assert (row["time_s"], row["participants"], row["dropped"]) == (1, 0, 1)
    assert state.state["x"].item() == 0
    with pytest.raises(RunFailed, match=r"round 2: at 1 s all nodes are away for good; increase"):
        engine.step(state)


def test_a_message_is_as_stale_as_it_has_travelled(tmp_path):
    """Nodes send every 10 s what arrives at once; before, no model is on its way."""
    made = ring(tmp_path, name="gossip-learning", meetings=1, period_s=10.0)
    made["clients"] = {"count": 4, "delay": {"name": "constant", "mean_s": 0.001}}
    engine = loop(made)
    state, _ = engine.start()
    for _ in range(16):
        state, row, (ended,) = engine.step(state)
        assert row["staleness_max"] == 0
        assert ended.tasks.version.tolist() == [row["round"] - 1]


def test_a_graph_is_needed(tmp_path):
    made = ring(tmp_path)
    del made["topology"]
    with pytest.raises(ScenarioError, match="give a graph of clients"):
        loop(made)


def test_a_node_without_neighbours_trains_alone(tmp_path):
    (tmp_path / "links.csv").write_text("round,u,v\n1,0,1\n1,1,2")
    topology = {"name": "trace", "path": str(tmp_path / "links.csv"), "disconnected": "allow"}
    for name in ("ad-psgd", "gossip-learning"):
        engine = loop(ring(tmp_path, name=name) | {"topology": topology})
        (state, _), steps = engine.start(), 0
        for _ in range(8):
            state, _, (ended,) = engine.step(state)
            alone = ended.tasks.client == 3
            assert (ended.tasks.up_bytes[alone] == 0).all()
            assert (ended.tasks.up_bytes[~alone] > 0).all()
            steps += np.count_nonzero(alone)
        assert steps > 3
        assert models(engine)[3].item() == pytest.approx(2 - 2 * 0.875**steps, rel=1e-12)


def test_peers_are_neighbours_at_the_instant_and_all_of_them_come(tmp_path):
    """Links change after 20 seconds: the ring, then its diagonals alone."""
    lines = ["time,u,v", "0,0,1", "0,1,2", "0,2,3", "0,0,3", "20,0,2", "20,1,3"]
    (tmp_path / "links.csv").write_text("\n".join(lines))
    topology = {"name": "trace", "path": str(tmp_path / "links.csv"), "disconnected": "allow"}
    engine = loop(ring(tmp_path) | {"topology": topology})
    state, _ = engine.start()
    seen = set()
    for _ in range(20):
        met = {t.serial: int(state.state["peer"][t.client]) for t in state.timeline.open.values()}
        state, _, (ended,) = engine.step(state)
        for task in ended.tasks.rows():
            if task.serial in met:
                late = task.start_s + task.compute_s >= 20
                seen.add((late, task.client, met[task.serial]))
    ring_of = {(False, i, j) for i in range(4) for j in ((i + 1) % 4, (i - 1) % 4)}
    diagonals = {(True, i, (i + 2) % 4) for i in range(4)}
    assert diagonals <= seen <= diagonals | ring_of


def test_links_with_their_own_latency_delay_both_ways(tmp_path):
    """Each arc adds 5 s to the latency of both ends."""
    lines = ["u,v,latency_s", *(f"{i},{(i + 1) % 4},5" for i in range(4))]
    (tmp_path / "links.csv").write_text("\n".join(lines))
    took = {}
    for name in ("ring", "links"):
        topology = {"name": "trace", "path": str(tmp_path / "links.csv")}
        more = {"topology": topology} if name == "links" else {}
        engine = loop(ring(tmp_path) | more)
        state, _ = engine.start()
        took[name] = np.array(
            [(t.client, t.over_s - t.compute_s) for t in state.timeline.open.values()]
        )
    np.testing.assert_allclose(took["links"], took["ring"] + [0, 10], atol=1e-12)


def test_a_forecast_counts_messages(tmp_path):
    for name, ways, numbers in (("ad-psgd", 2, 1), ("gossip-learning", 1, 2)):
        (run,) = api.prepare(api.read(ring(tmp_path, name=name, meetings=7))).runs
        cost = _RunCost(run)
        assert cost.up == cost.down == 12 * 7 * ways * 8 * numbers
        engine = loop(ring(tmp_path, name=name, meetings=7))
        state, _ = engine.start()
        _, row, _ = engine.step(state)
        assert row["bytes_up"] == row["bytes_down"] == cost.up / 12
