"""Steps of nodes as a run records them: times, bytes, events, and what drift may change."""

import numpy as np
import pytest

from rayfed import api
from rayfed.cli.forecasts import server_sees
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.engine.barriers import Arcs
from rayfed.engine.tasks import DROPPED, USED, events_of
from rayfed.study.forecast.cost import _RunCost
from rayfed.testing import loop
from rayfed.topology import Complete, Graphs, Ring, Star
from tests.engine.test_barriers import by_events_with_absences
from tests.fakes.presence import Presence

SECONDS, UP = (1, 2.5, 3, 1.5), (16, 16, 8, 16)
MODEL = 8 * 125_000  # bytes
MESSAGE = 8 * 3  # bytes of small models


def scenario(algorithm, **more):
    """The ring of four of ``test_barriers``, by the settings of a user."""
    links = [{"up_mbps": up, "latency_s": 0.125} for up in UP]
    links[3]["down_mbps"] = 8
    groups = [
        {"name": f"node {i}", "ids": [i], "network": links[i],
         "delay": {"name": "constant", "mean_s": SECONDS[i]}}
        for i in range(4)
    ]  # fmt: skip
    data = {"name": "synthetic", "features": 125_000 - 1, "classes": 2, "samples": 2}
    return {
        "name": "ring", "rounds": 3, "evaluate": {"every": 3}, "dtype": "float64",
        "problem": {"name": "logistic-regression", "dataset": data},
        "clients": {"count": 4, "groups": groups}, "topology": "ring", "executor": "serial",
        "algorithms": [{"local": {"steps": 1}} | algorithm],
    } | more  # fmt: skip


def small(algorithm, **more):
    """The same ring and the same times, with models of a hundredth of the size."""
    made = scenario(algorithm, **more)
    made["problem"]["dataset"]["features"] = 1250 - 1
    for group in made["clients"]["groups"]:
        group["network"] |= {
            way: group["network"][way] / 100
            for way in ("up_mbps", "down_mbps") if way in group["network"]
        }  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("algorithm", "times", "skews"),
    [
        ({"name": "dfedavg"}, [5.25, 9, 14.25], [1.5, 0, 1.5]),
        ({"name": "d-psgd"}, [3, None, 9], [1.75, None, 2.5]),
    ],
)
def test_rows_have_the_times_of_the_ring(algorithm, times, skews):
    engine = loop(scenario(algorithm))
    state, _ = engine.start()
    for time_s, skew_s in zip(times, skews, strict=True):
        state, row, ended = engine.step(state)
        if time_s is not None:
            assert (row["time_s"], row["skew_s"]) == (time_s, skew_s)
        assert row["bytes_up"] == row["bytes_down"] == 4 * 2 * MODEL
        assert (row["participants"], row["late"], row["dropped"]) == (4, 0, 0)
        (counted,) = ended
        assert counted.tasks.compute_s.tolist() == list(SECONDS)


@pytest.mark.parametrize(
    ("name", "waits", "awaited"),
    [
        ("dfedavg", [[2.75, 2.75, 0.75, 3.75], [4.25, 1.25, 2.25, 2.25]], [[1, 2, 1, 2]] * 2),
        ("d-psgd", [[0.25, 0, 0, 0.75], [1.5, 0.25, 0, 1.5]], [[1, -1, -1, 0], [1, 2, -1, 2]]),
    ],
)
def test_events_have_the_wait_for_the_message_that_came_last(name, waits, awaited):
    """In step 1 node 0 has computed at 1 s; messages come at 2.5 + 1.25 and at 1.5 + 1.25 s."""
    engine = loop(small({"name": name}))
    state, _ = engine.start()
    for seconds, ids in zip(waits, awaited, strict=True):
        state, _, ended = engine.step(state)
        found = events_of(ended)
        assert (found["wait_s"].tolist(), found["awaited"].tolist()) == (seconds, ids)


def test_a_wait_ends_with_the_patience_and_has_no_time_away(tmp_path):
    """With 1.5 s node 0 waits in vain; node 1 is away from 1 to 3 s, computes until 4.5 s."""
    engine = loop(small({"name": "dfedavg"}, participation={"patience_s": 1.5}))
    found = events_of(engine.step(engine.start()[0])[2])
    assert found["wait_s"].tolist() == [1.5, 1.5, 0.75, 1.5]
    assert found["awaited"].tolist() == [1, 2, 1, 2]
    made = small({"name": "dfedavg"}, participation={"interrupted": "resume"})
    made["clients"]["availability"] = availability(tmp_path, "1,0,1", "1,3,100000")
    engine = loop(made)
    found = events_of(engine.step(engine.start()[0])[2])
    assert found["wait_s"].tolist() == [4.75, 0.75, 2.75, 3.75]
    assert found["awaited"].tolist() == [1, 2, 1, 2]


def test_nodes_that_drop_out_wait_for_nobody(tmp_path):
    made = small({"name": "dfedavg"})
    made["clients"]["availability"] = availability(tmp_path, "1,0,1", "1,3,100000")
    engine = loop(made)
    found = events_of(engine.step(engine.start()[0])[2])
    assert found["status"].tolist() == [USED, DROPPED, USED, USED]
    assert (found["wait_s"][1], found["awaited"][1]) == (0, -1)
    assert (found["wait_s"][0], found["awaited"][0]) == (1.75, 3)


def test_a_forecast_and_rows_know_coded_messages():
    made = scenario({"name": "choco-sgd"}, uplink=[{"name": "top-k", "k": 1000}])
    (run,) = api.prepare(api.read(made)).runs
    message = 1000 * (64 + 17) // 8  # a number and its place
    assert _RunCost(run).up == 3 * 8 * message
    engine = loop(made)
    _, row, _ = engine.step(engine.start()[0])
    assert row["bytes_up"] == row["bytes_down"] == 8 * message


def test_a_forecast_knows_messages():
    (run,) = api.prepare(api.read(scenario({"name": "diging"}))).runs
    cost = _RunCost(run)
    assert cost.up == cost.down == 3 * 4 * 2 * 2 * MODEL
    assert cost.copies(1, 0) > 3 * 4 * 2 * MODEL
    assert server_sees(run) == "nothing; neighbours get single vectors"


def test_rows_that_arrive_are_refused():
    """The matrix of a graph follows from the sizes of the nodes, which would change."""
    drift = {"name": "arriving", "at": 2}
    data = {"name": "synthetic", "features": 3, "classes": 2, "samples": 8}
    problem = {"name": "logistic-regression", "dataset": data}
    with pytest.raises(ScenarioError, match="needs clients of constant size, but drift changes"):
        loop(scenario({"name": "d-psgd"}, drift=drift, problem=problem))


def test_labels_that_change_reach_the_nodes():
    drift = {"name": "labels-swap", "at": 2, "pairs": [[0, 1]]}
    data = {"name": "synthetic", "features": 3, "classes": 2, "samples": 8}
    more = {"problem": {"name": "logistic-regression", "dataset": data}}
    models = []
    for given in (more, more | {"drift": drift}):
        engine = loop(scenario({"name": "d-psgd"}, **given))
        state, _ = engine.start()
        models.append([])
        for _ in range(2):
            state, _, _ = engine.step(state)
            models[-1].append(state.state["x"])
    np.testing.assert_array_equal(models[0][0], models[1][0])
    assert (models[0][1] != models[1][1]).any()


def availability(tmp_path, *intervals):
    """Return a trace of the intervals in which nodes are there; the others always are."""
    file = tmp_path / "there.csv"
    rows = ["client,start_s,end_s", *intervals]
    away = {line.split(",")[0] for line in intervals}
    rows += [f"{i},0,1000000" for i in range(4) if str(i) not in away]
    file.write_text("\n".join(rows))
    return {"name": "trace", "file": str(file)}


def run_of(made, rows):
    """Return the state, the rows and the tasks of the first steps of a scenario."""
    engine = loop(made)
    state, _ = engine.start()
    found, tasks = [], []
    for _ in range(rows):
        state, row, (counted,) = engine.step(state)
        found.append(row)
        tasks.append(counted.tasks)
    return state, found, tasks


def absent(algorithm, there, **more):
    made = scenario(algorithm, **more)
    made["clients"]["availability"] = there
    return made


def test_who_is_away_sits_the_step_out_and_keeps_the_pace_of_its_neighbours(tmp_path):
    made = absent({"name": "dfedavg"}, availability(tmp_path, "1,6,1000000"))
    _, rows, tasks = run_of(made, 3)
    assert [row["time_s"] for row in rows[:2]] == [5.25, 8.25]
    assert rows[0]["skew_s"] == 2.5
    assert [row["participants"] for row in rows] == [3, 3, 4]
    assert tasks[0].client.tolist() == [0, 2, 3]
    assert tasks[2].start_s.tolist() == [8, 8.25, 8, 8.25]
    assert [row["bytes_up"] for row in rows] == [4 * MODEL, 4 * MODEL, 8 * MODEL]


@pytest.mark.parametrize(
    ("interrupted", "status", "over_s", "dropped"),
    [("drop", DROPPED, 1.0, 1), ("resume", USED, 5.5, 0)],
)
def test_interrupted_steps_are_lost_or_resumed(tmp_path, interrupted, status, over_s, dropped):
    """Node 1 leaves after 1 of its 2.5 s and is back at 4; it would be done at 5.5."""
    there = availability(tmp_path, "1,0,1", "1,4,1000000")
    made = absent({"name": "dfedavg"}, there, participation={"interrupted": interrupted})
    _, (row,), (tasks,) = run_of(made, 1)
    assert row["participants"] == 4 - dropped
    assert (tasks.status[1], tasks.over_s[1], row["dropped"]) == (status, over_s, dropped)


def test_a_server_with_a_limit_changes_nothing_without_it(tmp_path):
    """Node 1 leaves for good while it computes its first step, which is lost then."""
    both = [{"name": "dfedavg", "local": {"steps": 1}}, {"name": "fedavg", "local": {"steps": 1}}]
    resume = {"participation": {"interrupted": "resume"}, "algorithms": both}
    there = availability(tmp_path, "1,0,1")
    for more in ({}, {"server": {"uploads_mbps": 1}}):
        made = absent({"name": "dfedavg"}, there, **resume, **more)
        _, _, (tasks,) = run_of(made, 1)
        assert tasks.status.tolist() == [USED, DROPPED, USED, USED]


def test_neighbours_notice_lost_work_at_once(tmp_path):
    """Node 1 is lost at 2; its neighbour 0, done at 1, would have waited for its message to 3.75"""
    there = availability(tmp_path, "1,0,2", "1,9,1000000")
    state, _, _ = run_of(absent({"name": "dfedavg"}, there), 1)
    assert state.state["ready_s"].tolist() == [2.75, 5.25, 3, 5.25]


def test_late_messages_are_missed_and_counted():
    made = scenario({"name": "dfedavg"}, participation={"patience_s": 1.5})
    _, (row,), (tasks,) = run_of(made, 1)
    assert tasks.over_s.tolist() == [2.5, 4, 3.75, 3]
    assert row["missed"] == 5  # 0 and 3 hear nobody, 1 does not hear 2
    assert row["bytes_up"] == 4 * 2 * MODEL


def test_patience_leaves_the_influence_to_the_fastest_node():
    """Without patience mixing keeps the mean by mass; with 1.5 s all models follow node 0 at last.

    In the first step 0 and 3 hear nobody, 1 hears 0, and 2 hears 1 and 3: repeated, 0 has 5/8.
    """
    made = small({"name": "dfedavg"})
    _, rows, _ = run_of(made | {"participation": {"patience_s": 1.5}}, 6)
    first = 1 / (4 * (0.625**2 + 0.375**2))
    assert [row["influence"] for row in rows] == pytest.approx([first, *[0.25] * 5], rel=1e-9)
    _, rows, _ = run_of(made | {"participation": {"patience_s": 100}}, 2)
    assert [row["influence"] for row in rows] == pytest.approx([1, 1], rel=1e-12)
    _, rows, _ = run_of(made, 1)
    assert "influence" not in rows[0]


def test_nodes_that_are_all_away_wait_until_one_is_back(tmp_path):
    there = availability(tmp_path, "0,7,99", "1,9,99", "2,8,99", "3,7.5,99")
    made = absent({"name": "dfedavg"}, there)
    _, rows, tasks = run_of(made, 2)
    assert (rows[0]["participants"], rows[0]["time_s"]) == (0, 9)
    assert tasks[1].start_s.tolist() == [7, 9, 8, 7.5]


def test_nodes_that_are_away_for_good_end_the_run(tmp_path):
    there = availability(tmp_path, *(f"{i},0,0.5" for i in range(4)))
    engine = loop(absent({"name": "dfedavg"}, there))
    state, _, _ = engine.step(engine.start()[0])
    with pytest.raises(RunFailed, match="all nodes are away for good; increase availability"):
        engine.step(state)


class AbsentNodes:
    """A random graph of nodes that come and go by a file; unequal speeds, steps and links."""

    steps = 8

    def __init__(self, seed, folder):
        draw = np.random.default_rng(seed)
        self.count = n = int(draw.integers(2, 7))
        self.graph = [Ring(), Complete(), Star()][seed % 3]
        self.overlap, self.resume = bool(draw.integers(2)), bool(draw.integers(2))
        self.patience_s = float(draw.uniform(0.5, 4)) if draw.integers(2) else np.inf
        self.pace, self.local = draw.uniform(0.2, 1.5, n), draw.integers(1, 4, n)
        self.latency = draw.uniform(0, 0.5, n)
        self.down, self.up = 8e-6 * MESSAGE / draw.uniform(0.05, 0.5, (2, n))
        changes = draw.exponential(6, (n, 20)).cumsum(axis=1)
        stays = [[*zip(each[:-1:2], each[1::2], strict=True)] for each in changes.tolist()]
        stays[0].append((changes[0, -1].item() + 90, np.inf))
        self.nodes = Presence(stays, resume=self.resume)
        self.there = self.nodes.trace(folder / f"{seed}.csv")

    def scenario(self):
        groups = [
            {"ids": [i], "local": {"steps": int(self.local[i])},
             "delay": {"name": "constant", "mean_s": float(self.pace[i])},
             "network": {"latency_s": float(self.latency[i]), "down_mbps": float(self.down[i]),
                         "up_mbps": float(self.up[i])}}
            for i in range(self.count)
        ]  # fmt: skip
        data = {"name": "linear", "features": MESSAGE // 8, "samples": 2 * self.count}
        patience = {} if np.isinf(self.patience_s) else {"patience_s": self.patience_s}
        return {
            "name": "absent", "rounds": self.steps, "evaluate": {"every": 99}, "dtype": "float64",
            "problem": {"name": "least-squares", "dataset": data, "intercept": False},
            "clients": {"count": self.count, "groups": groups, "availability": self.there},
            "topology": self.graph.name, "executor": "serial",
            "participation": {"interrupted": "resume" if self.resume else "drop"} | patience,
            "algorithms": [{"name": "d-psgd" if self.overlap else "dfedavg"}],
        }  # fmt: skip

    def links(self):
        ends = Graphs(self.graph, self.count, 0).at(1).arcs
        sender, receiver = ends[np.lexsort(ends.T)].T
        degree = np.bincount(sender)
        rate = np.minimum(self.up[sender] / degree[sender], self.down[receiver] / degree[receiver])
        seconds = self.latency[sender] + self.latency[receiver] + MESSAGE * 8e-6 / rate
        return Arcs(sender, receiver, seconds)

    def played(self):
        """Return when nodes have their models, which messages were mixed, and fates of tasks."""
        tasks, links = np.full((self.steps, self.count), " "), self.links()

        def task(i, k, now):
            if not self.nodes.there(i, now):
                return now, False
            over_s, lost = self.nodes.over(i, now, self.pace[i] * self.local[i])
            tasks[k, i] = "d" if lost else "u"
            return over_s, not lost

        def over_s(i, now, active):
            """A node that is away and hears nobody waits until it is back, if it ever is."""
            back_s = self.nodes.back_s(i, now)
            heard = active[links.sender[links.receiver == i]].any()
            return now if active[i] or heard or np.isinf(back_s) else back_s

        times, heard = by_events_with_absences(
            task, links, self.overlap, tasks.shape, self.patience_s, over_s
        )
        return times, heard, tasks


def agree(seed, folder):
    """Compare a run with events one by one, and return what became of tasks."""
    case = AbsentNodes(seed, folder)
    times, heard, tasks = case.played()
    engine, links = loop(case.scenario()), case.links()
    state, _ = engine.start()
    for k in range(case.steps):
        state, row, (counted,) = engine.step(state)
        np.testing.assert_allclose(state.state["ready_s"], times[k + 1], rtol=1e-12)
        begun, active = tasks[k] != " ", tasks[k] == "u"
        assert counted.tasks.client.tolist() == np.flatnonzero(begun).tolist()
        assert (counted.tasks.status == USED).tolist() == active[begun].tolist()
        both = active[links.sender] & active[links.receiver]
        assert row["bytes_up"] == row["bytes_down"] == MESSAGE * both.sum()
        assert row.get("missed", 0) == both.sum() - heard[k].sum()
    return set(tasks.ravel().tolist())


@pytest.mark.parametrize("seed", range(3))
def test_nodes_that_come_and_go_by_a_file(seed, tmp_path):
    agree(seed, tmp_path)


def test_a_hundred_graphs_of_nodes_that_come_and_go(tmp_path):
    fates = set().union(*(agree(seed, tmp_path) for seed in range(3, 103)))
    assert fates == {" ", "d", "u"}


def test_rounds_pass_where_availability_goes_by_rounds():
    there = {"name": "bernoulli", "p": 0.2}
    data = {"name": "synthetic", "features": 3, "classes": 2, "samples": 8}
    problem = {"name": "logistic-regression", "dataset": data}
    _, rows, _ = run_of(absent({"name": "d-psgd"}, there, problem=problem), 9)
    empty = [k for k, row in enumerate(rows) if not row["participants"]]
    assert 0 < len(empty) < 9
    assert all(rows[k]["time_s"] == (rows[k - 1]["time_s"] if k else 0) for k in empty)


def test_one_node_trains_alone():
    data = {"name": "synthetic", "features": 3, "classes": 2, "samples": 8}
    made = scenario({"name": "dfedavg"}, problem={"name": "logistic-regression", "dataset": data})
    made["clients"] = {"count": 1, "delay": {"name": "constant", "mean_s": 2.0}}
    state, rows, _ = run_of(made, 2)
    alone = made | {"algorithms": [{"name": "fedavg", "local": {"steps": 1}}]}
    del alone["topology"]
    expected, _, _ = run_of(alone, 2)
    assert [(row["time_s"], row["bytes_up"]) for row in rows] == [(2, 0), (4, 0)]
    np.testing.assert_allclose(state.state["x"], expected.state["x"], rtol=1e-14)


def test_wrong_labels_train_the_faulty_node_alone_in_the_first_step():
    problem, nodes = {"name": "logistic-regression", "dataset": "mushroom"}, []
    for faults in ([], [{"name": "label-flip", "ids": [2]}]):
        made = scenario({"name": "d-psgd"}, problem=problem)
        made["clients"]["faults"] = faults
        engine = loop(made)
        engine.step(engine.start()[0])
        nodes.append(next(engine.exchange.executor.snapshot(engine.run.folder))["x"])
    assert (nodes[0] != nodes[1]).any(axis=1).tolist() == [False, False, True, False]
