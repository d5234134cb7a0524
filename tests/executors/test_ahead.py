"""Actors that task ahead, as objects in this process: what they give is the same to the bit."""

from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.core.errors import RunFailed
from rayfed.engine.loop import Loop
from rayfed.executors.ray_pool import RayExecutor
from rayfed.executors.serial import SerialExecutor
from rayfed.solvers import Exponential
from rayfed.testing.studies import LOCAL, mixed
from tests.fakes.cluster import Node, no_ray, pool, stored

COUNT = 12


@pytest.fixture
def actors():
    """Return a function that makes an executor of three actors whose calls run at once.

    They are of another node, unless the executor is to reach them by wire.
    """
    with ExitStack() as patched:

        def make(tables, *, works_ahead=True, wires=False):
            patched.enter_context(no_ray(wires=wires))
            nodes = [Node(1, COUNT) for _ in range(3)]
            return RayExecutor(pool(nodes, works_ahead=works_ahead), COUNT, stored(tables))

        yield make


def run_of(name, **settings):
    made = mixed(algorithms=[{"name": name, "local": dict(LOCAL), **settings}], participation={})
    made["clients"] |= {
        "count": COUNT,
        "availability": "always",
        "delay": {"name": "exponential", "mean_s": 0.3},
    }
    made["clients"]["network"] = {"loss": 0.1}
    plan = api.prepare(api.read(made | {"rounds": 12}))
    return plan.runs[0], plan.tables


def rows_of(run, executor, between=lambda: None):
    """Return the rows of a run, and its last state."""
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, row = loop.start()
    rows = [row]
    for _ in range(12):
        state, row, _ = loop.step(state)
        rows.append(row)
        between()
    return pd.DataFrame(rows), state


@pytest.mark.parametrize(
    ("name", "settings", "wires"),
    [
        ("fedbuff", {"buffer": 3, "concurrency": 8}, False),
        ("fedbuff", {"buffer": 3, "concurrency": 8, "local": LOCAL | {"lr": Exponential()}}, True),
        ("fedat", {}, True),
    ],
)
def test_actors_that_work_ahead_give_the_same_bits(actors, name, settings, wires):
    run, tables = run_of(name, **settings)
    wanted, wanted_after = rows_of(run, SerialExecutor(tables))
    executor = actors(tables, wires=wires)
    found, after = rows_of(run, executor)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    np.testing.assert_array_equal(after.model, wanted_after.model)
    assert [wire is not None for wire in executor.calls.wires] == [wires] * 3
    assert "work_ahead" in [method for actor in executor.pool.actors for method in actor.answered]
    kept = [len(actor.actor.host.runs[run.folder].kept) for actor in executor.pool.actors]
    under_way = [*after.timeline.open.values(), *after.timeline.waiting]
    assert sum(kept) <= len(under_way)  # the others were used


def test_what_actors_have_lost_is_computed_anew(actors):
    run, tables = run_of("fedbuff", buffer=3, concurrency=8)
    wanted, wanted_after = rows_of(run, SerialExecutor(tables))
    executor = actors(tables)
    hosts = [actor.actor.host for actor in executor.pool.actors]
    found, after = rows_of(run, executor, lambda: hosts[1].runs[run.folder].kept.clear())
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    np.testing.assert_array_equal(after.model, wanted_after.model)


def test_a_failure_ahead_of_time_is_reported_when_the_reply_is_due(actors, monkeypatch):
    run, tables = run_of("fedbuff", buffer=3, concurrency=8)
    algorithm = type(run.training.algorithm)
    whole = algorithm.train

    def train(self, clients, x):
        if 5 in clients.ids and int(clients.draws[list(clients.ids).index(5)]) == 2:
            raise ValueError("the second work of client 5")
        return whole(self, clients, x)

    monkeypatch.setattr(algorithm, "train", train)
    messages = []
    for executor in (SerialExecutor(tables), actors(tables)):
        with pytest.raises(RunFailed, match="client 5, 'train' failed") as error:
            rows_of(run, executor)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_actors_that_share_processors_do_not_work_ahead(actors):
    run, tables = run_of("fedbuff", buffer=3, concurrency=8)
    executor = actors(tables, works_ahead=False)
    found, _ = rows_of(run, executor)
    wanted, _ = rows_of(run, SerialExecutor(tables))
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    answered = [method for actor in executor.pool.actors for method in actor.answered]
    assert "exchange" in answered
    assert "work_ahead" not in answered
