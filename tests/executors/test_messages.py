"""Messages of nodes go from host to host; no bit depends on where their nodes live."""

import pickle
import time

import numpy as np
import pandas as pd
import pytest
import ray

from rayfed import api
from rayfed.clients.host import UnknownRun
from rayfed.engine.loop import Loop
from rayfed.executors.base import HostLost
from rayfed.executors.calls import Calls
from rayfed.executors.ray_host import Opened, RayHost
from rayfed.executors.ray_pool import RayExecutor
from rayfed.executors.serial import SerialExecutor
from rayfed.testing.studies import LOCAL
from tests.fakes.cluster import Node, no_ray, pool, stored

COUNT = 23
MARKOV = {"name": "markov", "mean_on_s": 3, "mean_off_s": 2}
KINDS = {
    "two vectors": {"algorithm": "diging", "topology": {"name": "random", "p": 0.3, "every": 2}},
    "arcs": {"algorithm": "sgp", "topology": {"name": "out-degree", "number": 2, "every": 1}},
    "absent": {"algorithm": "d-psgd", "topology": "ring", "availability": MARKOV},
    "coded": {
        "algorithm": "choco-sgd", "topology": "star", "uplink": [{"name": "qsgd", "levels": 4}],
    },
    "alone": {
        "algorithm": "dfedavg", "topology": {"name": "random", "p": 0.02, "disconnected": "allow"},
    },
}  # fmt: skip


def prepared(kind, features=3):
    made = {"availability": "always", "uplink": []} | KINDS[kind]
    topology = made["topology"]
    if isinstance(topology, dict) and "p" in topology:
        topology = {"disconnected": "repair"} | topology
    patience = {"patience_s": 0.5} if kind == "absent" else {}
    data = {"name": "linear", "features": features, "samples": {"low": 4, "high": 12}}
    scenario = {
        "name": "messages",
        "rounds": 6,
        "problem": {"name": "least-squares", "dataset": data},
        "clients": {
            "count": COUNT,
            "delay": {"name": "exponential", "mean_s": 0.3},
            "availability": made["availability"],
        },
        "topology": topology,
        "participation": {"select": "all", **patience},
        "uplink": made["uplink"],
        "algorithms": [{"name": made["algorithm"], "local": LOCAL | {"lr": 0.01}}],
        "executor": "serial",
    }
    plan = api.prepare(api.read(scenario))
    return plan.runs[0], plan.tables


def begun(run, executor, pieces=()):
    executor.open(run.folder, run.setup(), pieces)
    return Loop(run, executor)


def ended(run, executor, loop, state, rows):
    """Return the rows of a run, its last model, and its clients' state."""
    while len(rows) <= 6:
        state, row, _ = loop.step(state)
        rows.append(row)
    clients = {
        int(i): {name: values[k].tobytes() for name, values in piece.items()}
        for piece in executor.snapshot(run.folder)
        for k, i in enumerate(piece["ids"])
    }
    return pd.DataFrame(rows), state.model.tobytes(), clients


def of(run, executor):
    loop = begun(run, executor)
    state, row = loop.start()
    return ended(run, executor, loop, state, [row])


def interrupted(run, executor):
    """Return a loop after three rounds, its state, its rows, and the client state."""
    loop = begun(run, executor)
    state, row = loop.start()
    rows = [row]
    for _ in range(3):
        state, row, _ = loop.step(state)
        rows.append(row)
    return loop, state, rows, list(executor.snapshot(run.folder))


def assert_same(found, wanted):
    pd.testing.assert_frame_equal(found[0], wanted[0], check_exact=True)
    assert found[1:] == wanted[1:]


def placed(tables, sizes, *, own, **how):
    nodes = [Node(size, COUNT, **how) for size in sizes]
    host = RayHost(None) if own else None
    return nodes, RayExecutor(pool(nodes), COUNT, stored(tables), own=host)


@pytest.mark.parametrize("kind", KINDS)
def test_hosts_of_any_number_give_the_bits_of_one_process(kind):
    run, tables = prepared(kind)
    wanted = of(run, SerialExecutor(tables))
    if kind == "absent":
        assert (wanted[0]["participants"].iloc[1:] < COUNT).any()
        assert (wanted[0]["missed"].iloc[1:] > 0).any()
    for sizes, own, wires in (
        ([1], True, True), ([1, 1, 1], False, True), ([1, 2, 1], True, True),
        ([2, 1, 3], False, False), ([1, 2], True, False),
    ):  # fmt: skip
        with no_ray(wires=wires):
            nodes, executor = placed(tables, sizes, own=own, memory=0)
            assert_same(of(run, executor), wanted)
            executor.close(run.folder)
        if kind == "alone":
            continue
        assert executor.calls.tried == wires
        for node in nodes:  # actors that the driver reaches by wire share their memory
            asked = [method for actor in node.actors for method, *_ in actor.calls]
            assert ("outgoing" in asked) == (len(node.actors) > 1 or not wires)


@pytest.mark.parametrize("own", [True, False])
def test_combiners_that_send_their_messages_late_mix_those_of_this_step(own):
    """A combiner does several things at once: it may be asked to mix before it begins to send."""
    run, tables = prepared("two vectors")
    wanted = of(run, SerialExecutor(tables))
    with no_ray():
        nodes, executor = placed(tables, [2, 3], own=own, late=["outgoing"])
        assert_same(of(run, executor), wanted)
    for node in nodes:
        assert "outgoing" in [method for method, *_ in node.combiner.calls]


class Adder:
    """An actor that sends its number after a while, and mixes by adding what it gets."""

    def __init__(self, number, after_s):
        self.number, self.after_s = number, after_s

    def outgoing(self, key, ids):
        time.sleep(self.after_s)
        return {"number": self.number}

    def message(self, method, packed, stored, piece):
        self.number += piece["number"]
        return self.number


@pytest.mark.ray
@pytest.mark.slow
def test_actors_that_send_late_mix_what_all_had_before():
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        make = ray.remote(num_cpus=0, max_concurrency=2)(Adder)
        calls = Calls([make.remote(1, 1.0), make.remote(2, 0.0)])
        sent = [calls.outgoing(host, "run", np.arange(1)) for host in calls.hosts]
        messages = [(host, None, [sent[1 - host]]) for host in calls.hosts]
        assert calls.mix("exchange", "run", messages) == [3, 3]
    finally:
        ray.shutdown()


@pytest.mark.parametrize("blocked", ["SharedArray", "read"])
def test_without_shared_memory_messages_go_through_ray(blocked, monkeypatch):
    run, tables = prepared("two vectors")
    wanted = of(run, SerialExecutor(tables))

    def refuse(*_):
        raise OSError("not here")

    monkeypatch.setattr(f"rayfed.clients.near.{blocked}", refuse)
    with no_ray(wires=True):
        nodes, executor = placed(tables, [1, 1], own=False)
        assert_same(of(run, executor), wanted)
    for node in nodes:
        assert "outgoing" in [method for method, *_ in node.actors[0].calls]


def test_a_host_that_ended_before_others_read_its_messages_is_lost(monkeypatch):
    """The run goes on from a checkpoint."""
    run, tables = prepared("two vectors")
    wanted = of(run, SerialExecutor(tables))
    with no_ray(wires=True):
        _, executor = placed(tables, [1], own=True)
        loop, kept, rows, pieces = interrupted(run, executor)

        def gone(place):
            raise FileNotFoundError(f"/proc/{place.pid}")

        with monkeypatch.context() as patched:
            patched.setattr("rayfed.clients.near.read", gone)
            with pytest.raises(HostLost, match="/proc/"):
                loop.step(kept)
        loop = begun(run, executor, pieces)
        found = ended(run, executor, loop, kept, rows)
    assert_same((found[0], found[1]), wanted[:2])


def test_messages_do_not_pass_the_driver():
    """Each row goes once to a node whose receivers need it, and never to the driver."""
    run, tables = prepared("two vectors", features=400)
    with no_ray():
        nodes, executor = placed(tables, [2, 2], own=False)
        loop = begun(run, executor)
        state, _ = loop.start()
        for node in nodes:
            node.combiner.calls.clear()
        state, *_ = loop.step(state)
    row_bytes, rows = 2 * 8 * 401, 0  # of two vectors
    for node in nodes:
        calls = node.combiner.calls
        (sent,) = [up for method, _, up in calls if method == "outgoing"]
        rows += sent // row_bytes
        # of what the driver sends and gets, sums of models alone are long
        others = [down + up for method, down, up in calls if method != "outgoing"]
        assert max(others) < sent / 2
    assert COUNT / 2 < rows <= COUNT


@pytest.mark.parametrize("lost", ["lost", "anew"])
def test_a_run_goes_on_from_a_checkpoint_after_messages_were_lost(lost, monkeypatch):
    """An actor is lost, or comes back empty, after a step and before its messages have left."""
    run, tables = prepared("two vectors")
    wanted = of(run, SerialExecutor(tables))
    with no_ray():
        nodes, executor = placed(tables, [2, 1], own=True)
        loop, kept, rows, pieces = interrupted(run, executor)
        victim, outgoing = nodes[0].actors[1], executor.calls.outgoing

        def fail(host, key, ids):
            if lost == "lost":
                victim.alive = False
            else:
                nodes[0].restart(1)
            return outgoing(host, key, ids)

        with monkeypatch.context() as patched:
            patched.setattr(executor.calls, "outgoing", fail)
            with pytest.raises(HostLost):
                loop.step(kept)
        victim.alive = True
        loop = begun(run, executor, pieces)
        found = ended(run, executor, loop, kept, rows)
    assert_same((found[0], found[1]), wanted[:2])


@pytest.mark.parametrize("kind", ["two vectors", "coded"])
def test_a_message_that_begins_after_its_run_was_opened_anew_is_refused(kind):
    """It would change the state of the new run's clients."""
    run, tables = prepared(kind)
    wanted = of(run, SerialExecutor(tables))
    with no_ray():
        nodes, executor = placed(tables, [2, 3], own=False, late=["message"])
        loop = begun(run, executor)
        state, row = loop.start()
        nodes[0].go()
        asked = len(nodes[1].combiner.waiting)
        with pytest.raises(HostLost):
            loop.step(state)
        (late,) = nodes[1].combiner.waiting[asked:]
        executor.offer(pool(nodes[1:]))
        loop = begun(run, executor)
        late.settle()
        assert isinstance(pickle.loads(late.value), UnknownRun)
        found = ended(run, executor, loop, state, [row])
    assert_same(found, wanted)


def test_a_host_without_the_run_has_no_messages():
    host = RayHost(None)
    assert isinstance(host.outgoing(Opened("unknown", ""), np.arange(2)), UnknownRun)
