"""Combiners: what reaches a driver of 64 actors on 4 nodes, and that no bit depends on them."""

import threading
import weakref

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.clients.request import Request, uncharged
from rayfed.clients.store import PIECE
from rayfed.core.errors import RunFailed
from rayfed.engine.loop import Loop
from rayfed.executors.base import HostLost
from rayfed.executors.ray_host import RayHost
from rayfed.executors.ray_pool import Pool, RayExecutor
from rayfed.executors.serial import SerialExecutor
from rayfed.executors.wire import Lost
from rayfed.study.plan import controller
from rayfed.testing.studies import LOCAL, mixed
from tests.fakes.cluster import Node, Stored, no_ray, pool, stored


@pytest.fixture(autouse=True)
def _without_ray():
    with no_ray():
        yield


def study_of(count, **changed):
    made = mixed(**{"participation": {}, "executor": "serial"} | changed)
    made["clients"] = {"count": count, "delay": {"name": "exponential", "mean_s": 0.3}}
    return api.read(made | {"rounds": 6})


def prepared(count, **changed):
    plan = api.prepare(study_of(count, **changed))
    return plan.runs[0], plan.tables


def rows_of(run, executor, rounds=6, changed=None):
    """Return the rows of a run, its last state, and its clients' state.

    `changed` is the run with other settings, which it continues as after round 3.
    """
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, row = loop.start()
    rows = [row]
    for number in range(rounds):
        if changed is not None and number == 3:
            executor.change(run.folder, changed.setup())
            loop = Loop(changed, executor)
        state, row, _ = loop.step(state)
        rows.append(row)
    return pd.DataFrame(rows), state, clients_of(run, executor)


def clients_of(run, executor):
    return {
        int(i): {name: values[k] for name, values in piece.items()}
        for piece in executor.snapshot(run.folder)
        for k, i in enumerate(piece["ids"])
    }


def assert_same(found, wanted):
    pd.testing.assert_frame_equal(found[0], wanted[0], check_exact=True)
    np.testing.assert_array_equal(found[1].model, wanted[1].model)
    assert found[2].keys() == wanted[2].keys()
    for i, rows in wanted[2].items():
        for name in rows:
            np.testing.assert_array_equal(found[2][i][name], rows[name])


METHODS = [
    {"name": "fedavg", "local": LOCAL},
    {"name": "scaffold", "local": LOCAL},
    {"name": "fedbuff", "buffer": 3, "concurrency": 8, "local": LOCAL},
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method["name"])
def test_nodes_of_any_size_give_the_bits_of_one_process(method):
    run, tables = prepared(23, algorithms=[method])
    wanted = rows_of(run, SerialExecutor(tables))
    for sizes, wires in (([2, 2], False), ([1, 3, 2], True), ([5], False)):
        nodes = [Node(size, 23) for size in sizes]
        with no_ray(wires=wires):
            executor = RayExecutor(pool(nodes), 23, stored(tables))
            assert_same(rows_of(run, executor), wanted)
            assert all((wire is not None) == wires for wire in executor.calls.wires)
            executor.close(run.folder)


FEEDBACK = {"name": "top-k", "k": 3, "memory": "error-feedback"}
STALE = {"cohort": 5, "deadline_s": 1.0, "late": "stale"}
SECURE = {"name": "secure-sum", "range": 8.0}


@pytest.mark.parametrize(
    ("most", "changes"),
    [
        (1, {"participation": {"cohort": 1}}),
        (0, {"participation": {"cohort": 4, "deadline_s": 0.02}}),
        (8, {"participation": STALE, "uplink": [FEEDBACK]}),
        (6, {"participation": {"cohort": 6}, "uplink": [SECURE]}),
    ],
    ids=["one client", "all late", "stale with memory", "masked"],
)
def test_nodes_of_which_few_clients_are_asked_give_the_same_bits(most, changes):
    run, tables = prepared(11, algorithms=[METHODS[0]], **changes)
    wanted = rows_of(run, SerialExecutor(tables))
    assert wanted[0]["participants"].max() == most
    for sizes, own in (([1, 3], None), ([3, 1], RayHost(None))):
        nodes = [Node(size, 11) for size in sizes]
        executor = RayExecutor(pool(nodes), 11, stored(tables), own=own)
        assert_same(rows_of(run, executor), wanted)


@pytest.mark.parametrize("own", [False, True])
def test_sums_are_those_of_a_loop_over_clients(own):
    """Nodes of unequal sizes, unequal weights, and cohorts with nobody at some nodes or actors."""
    run, tables = prepared(23, algorithms=[METHODS[0]])
    alone = SerialExecutor(tables)
    host = RayHost(None) if own else None
    executor = RayExecutor(pool([Node(1, 23), Node(3, 23)]), 23, stored(tables), own=host)
    for each in (alone, executor):
        each.open(run.folder, run.setup())
    dice, size = np.random.default_rng(0), 3 * (5 + 1)  # of a model with intercepts
    send = {"x": dice.normal(size=size)}

    def sums(executor, ids, weights):
        none = np.zeros(len(ids), dtype=np.int64)
        up = {"delta": size}
        request = Request("algorithm", "train", up, ids, weights, none + 5, none, 1, 0)
        return executor.exchange(run.folder, request, send)

    everyone = np.arange(23)
    hosts = executor.run(run.folder).layout.hosts(everyone)
    of_host = [np.flatnonzero(hosts == host) for host in executor.calls.hosts]
    for ids in (everyone[7:8], *of_host, everyone):
        weights = dice.gamma(1.0, size=len(ids))
        found, total = sums(executor, ids, weights), np.zeros(size)
        for k, weight in enumerate(weights):
            one = sums(alone, ids[k : k + 1], np.ones(1))
            total += weight * one.sums["delta"]
            assert found.each["loss"][k] == one.each["loss"][0]
        np.testing.assert_allclose(found.sums["delta"], total, rtol=1e-11)


def test_a_changed_rate_reaches_the_actors_of_every_node():
    halved = {"name": "step", "start": 0.1, "factor": 0.5, "rounds": [4]}
    method = {"name": "scaffold", "local": LOCAL | {"lr": 0.1}}
    scheduled, tables = prepared(23, algorithms=[method | {"local": LOCAL | {"lr": halved}}])
    wanted = rows_of(scheduled, SerialExecutor(tables))
    run, tables = prepared(23, algorithms=[method])
    changed, _ = controller.changed(study_of(23, algorithms=[method]), run, 3, {"lr": 0.05})
    for sizes in ([2, 2], [1, 3, 2]):
        executor = RayExecutor(pool([Node(size, 23) for size in sizes]), 23, stored(tables))
        assert_same(rows_of(run, executor, changed=changed), wanted)


def test_a_driver_of_64_actors_sends_4_requests_and_gets_4_vectors():
    run, tables = prepared(64, algorithms=[METHODS[0]])
    wanted = rows_of(run, SerialExecutor(tables), rounds=2)
    together = [Node(16, 64) for _ in range(4)]
    apart = [Node(16, 64, combines=False) for _ in range(4)]
    messages, bytes_up = {}, {}
    for name, nodes in (("together", together), ("apart", apart)):
        executor = RayExecutor(pool(nodes), 64, stored(tables))
        assert_same(rows_of(run, executor, rounds=2), wanted)
        calls = [call for host in executor.pool.actors for call in host.calls]
        asked = [(down, up) for method, down, up in calls if method == "message"]
        messages[name], bytes_up[name] = len(asked), sum(up for _, up in asked)
    asks = messages["apart"] // 64
    assert messages == {"together": 4 * asks, "apart": 64 * asks}
    assert bytes_up["together"] < bytes_up["apart"] / 8
    # what a combiner sends up is one branch: its node has a single residue class
    runs = [node.combiner.actor.runs[run.folder].executor.run(run.folder) for node in together]
    assert [len(each.layout.within) for each in runs] == [1] * 4


def test_tables_pass_combiners_as_references():
    rows = {"X": np.arange(32.0).reshape(16, 2), "y": np.arange(16.0)}
    problem = {"name": "least-squares", "dataset": {"name": "arrays", "data": rows}}
    run, tables = prepared(8, algorithms=[METHODS[0]], problem=problem, partition="iid")
    nodes, kept = [Node(2, 8) for _ in range(2)], stored(tables)
    RayExecutor(pool(nodes), 8, kept).open(run.folder, run.setup())
    assert kept
    for table in tables.values():
        assert [node.combiner.got[id(table)] for node in nodes] == [0, 0]
        assert [actor.got[id(table)] for node in nodes for actor in node.actors] == [1] * 4


def test_a_large_model_goes_to_the_object_store_once(monkeypatch):
    """Combiners hand on the reference."""
    monkeypatch.setattr("rayfed.executors.calls.BY_VALUE", 0)
    run, tables = prepared(8, algorithms=[METHODS[0]])
    wanted = rows_of(run, SerialExecutor(tables))
    nodes = [Node(2, 8) for _ in range(2)]
    executor = RayExecutor(pool(nodes), 8, stored(tables))
    kinds = []

    def put(value):
        kinds.append(type(value).__name__)
        return Stored(value)

    monkeypatch.setattr("ray.put", put)
    assert_same(rows_of(run, executor), wanted)
    asks = sum(call[0] == "message" for call in nodes[0].combiner.calls)
    assert sorted(kinds) == ["Setup", *["dict"] * asks]


def test_clients_of_one_node_are_dealt_to_its_actors_anew():
    """A cohort that lives on one of four actors is shared out among all, combiners or not."""
    run, tables = prepared(32, algorithms=[METHODS[0]])
    executor = RayExecutor(pool([Node(2, 32), Node(2, 32)]), 32, stored(tables))
    executor.open(run.folder, run.setup())
    request = uncharged("evaluation", "evaluate", {}, np.arange(0, 32, 4))
    parts = executor.runs[run.folder].layout.split(request, movable=True)
    assert [len(part.request.ids) for part in parts] == [4, 4]
    within = [
        host.actor.runs[run.folder]
        .executor.run(run.folder)
        .layout.split(part.request, movable=True)
        for host, part in zip(executor.pool.actors, parts, strict=True)
    ]
    assert [[len(p.request.ids) for p in two] for two in within] == [[2, 2], [2, 2]]


def test_a_combiner_keeps_nothing_of_a_snapshot():
    run, tables = prepared(8, algorithms=[METHODS[1]])
    node = Node(2, 8)
    executor = RayExecutor(pool([node]), 8, stored(tables))
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    loop.step(loop.start()[0])
    rows, more = node.combiner.actor.snapshot(executor.runs[run.folder].key, PIECE, 0)
    assert rows["ids"].tolist() == list(range(8))
    assert not more
    last = weakref.ref(rows["ids"])
    del rows
    assert last() is None


def test_the_first_client_that_fails_is_named_through_combiners(monkeypatch):
    """The other one lives at the host that is asked first."""
    run, tables = prepared(8, algorithms=[METHODS[0]])

    def train(self, clients, x):
        if {5, 6} & set(clients.ids.tolist()):
            raise ValueError("no batteries")
        return type(self).whole(self, clients, x)

    algorithm = type(run.training.algorithm)
    monkeypatch.setattr(algorithm, "whole", algorithm.train, raising=False)
    monkeypatch.setattr(algorithm, "train", train)
    for executor in (
        SerialExecutor(tables), RayExecutor(pool([Node(2, 8), Node(2, 8)]), 8, stored(tables))
    ):  # fmt: skip
        with pytest.raises(RunFailed, match="client 5, 'train' failed: ValueError: no batteries"):
            rows_of(run, executor)


@pytest.mark.parametrize("goes_on_at", ["combiner", "actors"])
def test_a_request_by_wire_that_goes_on_after_its_run_was_opened_anew_changes_nothing(goes_on_at):
    """A combiner that had begun it could change the state of the new run's clients."""
    run, tables = prepared(23, algorithms=[METHODS[1]])
    wanted = rows_of(run, SerialExecutor(tables))
    left, lost = Node(2, 23), Node(1, 23)
    begun, opened, done = threading.Event(), threading.Event(), threading.Event()
    with no_ray(wires=True):
        executor = RayExecutor(pool([left, lost]), 23, stored(tables))
        executor.open(run.folder, run.setup())
        loop = Loop(run, executor)
        state, row = loop.start()
        combiner = left.combiner.actor
        # before it looks for the run, or before it asks its actors
        if goes_on_at == "combiner":
            place, name = combiner, "_with"
        else:
            place, name = combiner.runs[run.folder].executor, "ask"
        whole = getattr(place, name)

        def late(*message, **more):
            begun.set()
            assert opened.wait(5)
            try:
                return whole(*message, **more)
            finally:
                done.set()

        def lose(*message):
            assert begun.wait(5)
            raise Lost("its node has gone")

        setattr(place, name, late)
        executor.calls.wires[1].send = lose
        with pytest.raises(HostLost, match="its node has gone"):
            loop.step(state)
        setattr(place, name, whole)
        hosts = left.hosts if goes_on_at == "combiner" else left.actors
        executor.offer(Pool(hosts, [2 // len(hosts)] * len(hosts)))
        executor.open(run.folder, run.setup())
        opened.set()
        assert done.wait(5)
        rows = [row]
        while len(rows) <= 6:
            state, row, _ = loop.step(state)
            rows.append(row)
        assert_same((pd.DataFrame(rows), state, clients_of(run, executor)), wanted)


def test_a_run_waits_for_a_node_where_there_is_none(monkeypatch):
    """It takes the pool that is offered meanwhile, and gives up after a while without one."""
    run, tables = prepared(8, algorithms=[METHODS[0]])
    executor = RayExecutor(Pool([], []), 8, stored(tables))
    monkeypatch.setattr("time.sleep", lambda s: executor.offer(pool([Node(2, 8)])))
    executor.open(run.folder, run.setup())
    assert executor.pool.sizes == [2]
    assert not executor.moves
    monkeypatch.setattr("time.sleep", lambda s: None)
    monkeypatch.setattr("rayfed.executors.ray_pool._RESTART_S", 0.01)
    alone = RayExecutor(Pool([], []), 8, stored(tables))
    with pytest.raises(ConnectionError, match="no node has any"):
        alone.open(run.folder, run.setup())
