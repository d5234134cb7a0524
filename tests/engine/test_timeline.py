"""Where all ends are known, one expression does what the timeline does moment by moment."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed import api, testing
from rayfed.engine.clock import Duration, Times
from rayfed.engine.cohort import Cohorts
from rayfed.engine.exchange import Exchange
from rayfed.engine.link import Link
from rayfed.engine.stages import Transfers
from rayfed.engine.tasks import USED, Task, Tasks
from rayfed.engine.timeline import Timeline, fate, fates
from rayfed.executors.serial import SerialExecutor
from rayfed.population import ConstantDelay, Population
from tests.fakes.stepping import step

COUNT, ROUNDS = 6, 4
seconds = st.integers(0, 9).map(float)  # whole numbers, so that they tie often
never = st.one_of(st.just(math.inf), seconds)


def test_a_row_has_the_columns_of_the_table():
    assert Task._fields == tuple(field.name for field in fields(Tasks))
    rows = [Task(*range(k, k + len(Task._fields))) for k in (1, 40)]
    assert Tasks.of(rows).rows() == rows
    assert len(Tasks.of([])) == 0


@given(st.lists(st.tuples(never, never, never), max_size=9))
def test_one_work_ends_as_many_do(tasks):
    columns = (np.array([task[k] for task in tasks], dtype=float) for k in range(3))
    status, over_s = fates(*columns)
    assert list(zip(status.tolist(), over_s.tolist(), strict=True)) == [fate(*w) for w in tasks]


def test_what_is_broken_off_leaves_the_link():
    """Two uploads of 1,000 bytes share 1,000 bytes/s; at 1 s, 500 bytes of each are left."""
    population = Population(2, 0, ConstantDelay(mean_s=1.0))
    line = Timeline(Transfers(Link(math.inf), Link(1000.0)))
    rows = [
        Task(math.inf, client, client + 1, USED, 1, 0, 0, 0, 1, 1, 0, 1000, 1.0, 0.0, 0.0, math.inf,
             math.inf, math.inf, math.inf)
        for client in range(2)
    ]  # fmt: skip
    line.begin(rows)
    blank = np.zeros(2)
    times = Times(Duration(*[blank] * 4), *[blank] * 4, away_s=np.full(2, math.inf))
    line.stages.begin(0.0, Tasks.of(rows), times, population)
    assert list(line.all_over(1.0)) == []
    line.break_off(rows[1:])
    assert [(task.client, task.over_s) for task in line.all_over(9.0)] == [(0, 1.5)]
    assert not line.open


@pytest.fixture(scope="module")
def plan():
    data = {"name": "quadratic", "clients": COUNT, "features": 2}
    return api.prepare(api.read({
        "name": "walked", "rounds": ROUNDS, "problem": {"name": "quadratic", "dataset": data},
        "clients": {"availability": {"name": "cyclic", "groups": 2, "period_s": 7.0}},
        "participation": {"select": "weighted", "cohort": 4},
        "algorithms": [{"name": "fedavg", "local": {"steps": 3, "batch": "full", "lr": 1e-3}}],
        "executor": "serial",
    }))  # fmt: skip


def walked(plan, paces, how, *, known):
    """Return the rows, events and models of a run, by one of the two paths."""
    run = plan.runs[0]
    run = replace(run, participation=replace(run.participation, **how))
    loop = testing.loop(plan, run)
    assert loop.policy.cohorts.known
    loop.policy.cohorts.known = known
    loop.exchange.clock.pace = lambda ids, draw, ask=0: np.array([
        paces[(i + 7 * draw + 5 * ask) % len(paces)] for i in ids.tolist()
    ])  # fmt: skip
    state, row = loop.start()
    found = [repr(row)]
    for _ in range(ROUNDS):
        state, row, events = step(loop, state)
        columns = [{name: column.tolist() for name, column in part.items()} for part in events]
        flying = [] if state.timeline is None else state.timeline.unfinished(in_time=False).rows()
        found += [repr(row), repr(columns), state.model.tobytes()]
        found += [
            task._replace(serial=0) for task in flying
        ]  # tasks that are over have numbers, too
    return found


@settings(max_examples=120, deadline=None)
@given(
    paces=st.lists(seconds, min_size=3, max_size=9),
    late=st.sampled_from(["drop", "partial", "stale"]),
    cohort=st.integers(1, COUNT),
    over_select=st.sampled_from([1.0, 1.3, 2.0]),
    deadline_s=st.one_of(st.none(), st.integers(1, 25).map(float)),
    timeout_s=st.one_of(st.none(), st.integers(1, 25).map(float)),
    interrupted=st.sampled_from(["drop", "resume"]),
)
def test_both_paths_of_a_round_are_equal_to_the_bit(plan, paces, **how):
    """A round ends after the first replies, at the deadline or when all are over.

    Attempts are timed out, clients go away, and late ones are dropped, cut short or used later.
    """
    assert walked(plan, paces, how, known=True) == walked(plan, paces, how, known=False)


def test_the_other_path_is_taken_where_ends_are_not_known(plan):
    (run,) = plan.runs
    again = replace(run, participation=replace(run.participation, retries=1))
    executor = SerialExecutor(plan.tables)
    assert not Cohorts(again, Exchange(again, executor)).known
