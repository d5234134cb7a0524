"""Asynchronous runs on actors as objects in this process: bitwise equal to a serial run."""

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

        def make(tables, *, wires=False):
            patched.enter_context(no_ray(wires=wires))
            nodes = [Node(1, COUNT) for _ in range(3)]
            return RayExecutor(pool(nodes), COUNT, stored(tables))

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


def rows_of(run, executor):
    """Return the rows of a run, and its last state."""
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, row = loop.start()
    rows = [row]
    for _ in range(12):
        state, row, _ = loop.step(state)
        rows.append(row)
    return pd.DataFrame(rows), state


@pytest.mark.parametrize(
    ("name", "settings", "wires"),
    [
        ("fedbuff", {"buffer": 3, "concurrency": 8}, False),
        ("fedbuff", {"buffer": 3, "concurrency": 8, "local": LOCAL | {"lr": Exponential()}}, True),
        ("fedat", {}, True),
    ],
)
def test_actors_give_the_same_bits(actors, name, settings, wires):
    run, tables = run_of(name, **settings)
    wanted, wanted_after = rows_of(run, SerialExecutor(tables))
    executor = actors(tables, wires=wires)
    found, after = rows_of(run, executor)
    pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    np.testing.assert_array_equal(after.model, wanted_after.model)
    assert [wire is not None for wire in executor.calls.wires] == [wires] * 3
    assert all("exchange" in actor.answered for actor in executor.pool.actors)


def test_a_failure_is_reported_as_in_a_serial_run(actors, monkeypatch):
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
