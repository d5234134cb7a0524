"""A driver that hosts a share of the clients itself, with actors as objects in this process."""

import socket
import threading

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.clients.prints import Captured
from rayfed.engine.loop import Loop
from rayfed.engine.state import ServerFunction
from rayfed.executors.base import HostLost
from rayfed.executors.ray_host import RayHost
from rayfed.executors.ray_pool import RayExecutor
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import ProgressDisplay
from rayfed.runs.ray import backend as ray_runs
from rayfed.testing.studies import LOCAL, mixed
from tests.fakes.cluster import Node, no_ray, pool, stored

COUNT = 23
METHODS = [
    {"name": "fedavg", "local": LOCAL},
    {"name": "scaffold", "local": LOCAL},
    {"name": "fedbuff", "buffer": 3, "concurrency": 8, "local": LOCAL},
]


@pytest.fixture(autouse=True)
def _without_ray():
    with no_ray(wires=True):
        yield


def prepared(method):
    made = mixed(participation={}, executor="serial", algorithms=[method])
    made["clients"] = {"count": COUNT, "delay": {"name": "exponential", "mean_s": 0.3}}
    plan = api.prepare(api.read(made | {"rounds": 6}))
    return plan.runs[0], plan.tables


def hosting(tables, actors):
    """Return the executor of a driver that hosts clients beside some nodes with an actor each."""
    nodes = [Node(1, COUNT) for _ in range(actors)]
    own = RayHost(None, actors + 1)
    return RayExecutor(pool(nodes), COUNT, stored(tables), own=own)


def begun(run, executor):
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    return loop, *loop.start()


def rows_of(run, executor, rounds=6):
    """Return the rows of a run, its last state, and its clients' state."""
    loop, state, row = begun(run, executor)
    rows = [row]
    for _ in range(rounds):
        state, row, _ = loop.step(state)
        rows.append(row)
    return pd.DataFrame(rows), state, clients_of(executor.snapshot(run.folder))


def clients_of(pieces):
    return {
        int(i): {name: values[k].tobytes() for name, values in piece.items()}
        for piece in pieces
        for k, i in enumerate(piece["ids"])
    }


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method["name"])
@pytest.mark.parametrize("actors", [0, 1, 3])
def test_bits_are_those_of_one_process(method, actors):
    run, tables = prepared(method)
    rows, state, clients = rows_of(run, SerialExecutor(tables))
    executor = hosting(tables, actors)
    found, after, found_clients = rows_of(run, executor)
    pd.testing.assert_frame_equal(found, rows, check_exact=True)
    np.testing.assert_array_equal(after.model, state.model)
    assert found_clients == clients
    assert bool(clients) == (method["name"] == "scaffold")


def test_the_driver_has_its_part_of_the_clients_and_forgets_it():
    run, tables = prepared(METHODS[1])
    executor = hosting(tables, 2)
    rows_of(run, executor)
    hosts = executor.runs[run.folder].layout.hosts(np.arange(COUNT))
    assert sorted(np.bincount(hosts).tolist()) == [7, 8, 8]
    own = clients_of([executor.own.host.runs[run.folder].store.changed(10**9, 0)[0]])
    assert not own  # the snapshot had it
    assert run.folder in executor.own.host.runs
    executor.close(run.folder)
    assert not executor.own.host.runs


def test_a_run_goes_on_from_a_checkpoint_after_an_actor_was_lost():
    """Clients at the driver go back, too: what they did since the checkpoint is done again."""
    run, tables = prepared(METHODS[1])
    wanted, last, _ = rows_of(run, SerialExecutor(tables))
    executor = hosting(tables, 1)
    loop, state, _ = begun(run, executor)
    for _ in range(3):
        state, *_ = loop.step(state)
    pieces = list(executor.snapshot(run.folder))
    kept = state
    state, *_ = loop.step(state)
    executor.pool.actors[0].alive = False
    for wire in executor.calls.wires:
        wire._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(HostLost):
        loop.step(state)
    executor.pool.actors[0].alive = True
    executor.open(run.folder, run.setup(), pieces)
    rows, state = [], kept
    for _ in range(3):
        state, row, _ = loop.step(state)
        rows.append(row)
    pd.testing.assert_frame_equal(
        pd.DataFrame(rows), wanted.iloc[4:].reset_index(drop=True), check_exact=True
    )
    np.testing.assert_array_equal(state.model, last.model)


def test_what_clients_at_the_driver_print_is_told(monkeypatch):
    run, tables = prepared(METHODS[0])
    told = []
    cls = type(run.training.algorithm)

    class Loud(cls):
        name = "loud"

        def train(self, clients, x):
            print("here", *clients.ids.tolist())
            return cls.train(self, clients, x)

    object.__setattr__(run.training.algorithm, "__class__", Loud)
    monkeypatch.setattr("rayfed.executors.ray_host.Captured", Captured)
    executor = hosting(tables, 0)  # actors here would share this process's standard output
    executor.log = told.append
    loop, state, _ = begun(run, executor)
    loop.step(state)
    label, clients = told[0].split("here", 1)
    assert run.folder in label
    assert clients.split() == [str(i) for i in range(COUNT)]


def test_clients_at_the_driver_cannot_write_to_its_model(monkeypatch):
    """What an Ask sends need not be of the state, whose arrays nobody can write to anyway."""
    monkeypatch.setattr(ServerFunction, "guard", lambda self, state: None)
    run, tables = prepared(METHODS[0])
    executor = hosting(tables, 0)
    given = []
    algorithm = type(run.training.algorithm)
    train = algorithm.train
    monkeypatch.setattr(
        algorithm, "train", lambda self, *of, **send: given.append(send) or train(self, *of, **send)
    )
    loop, state, _ = begun(run, executor)
    loop.step(state)
    assert not any(values.flags.writeable for send in given for values in send.values())
    assert any("x" in send for send in given)


def test_actors_have_their_requests_before_the_driver_computes():
    run, tables = prepared(METHODS[0])
    executor = hosting(tables, 1)
    (actor,), began = executor.pool.actors, threading.Event()
    at_actor, at_driver = actor.actor.answer, executor.own.answer
    actor.actor.answer = lambda *given: began.set() or at_actor(*given)
    executor.own.answer = lambda *given: began.wait(5) and at_driver(*given)
    loop, state, _ = begun(run, executor)
    began.clear()
    loop.step(state)
    assert began.is_set()


@pytest.mark.parametrize(("hosting_", "answers"), [((None, 2), True), (None, False)])
def test_a_driver_actor_hosts_clients_if_it_is_told_to(tmp_path, monkeypatch, hosting_, answers):
    monkeypatch.setattr(ray_runs, "end_with_parent", lambda: None)
    run, tables = prepared(METHODS[0])
    driver = ray_runs.DriverActor(str(tmp_path), COUNT, 30, hosting_)
    assert driver.execute(run, stored(tables), False, pool([Node(1, COUNT)])) == "finished"
    assert (driver.executor.own is not None) == answers
    assert driver.executor.calls.own is driver.own


@pytest.mark.parametrize(("executor", "hosts"), [("ray", True), ({"clients_per_actor": 3}, False)])
def test_a_study_on_ray_is_told_whether_its_drivers_host_clients(
    tmp_path, monkeypatch, executor, hosts
):
    plan = api.prepare(api.read(mixed(executor=executor)))
    told = []
    monkeypatch.setattr(ray_runs, "RayStudy", lambda *given: told.append(given[-1]))
    api._backend(plan, tmp_path, False, ProgressDisplay())
    assert told == [hosts]
