"""What every selection that the plug-in search finds must keep, without Ray."""

import inspect
from dataclasses import is_dataclass, replace

import numpy as np
import pytest

from rayfed import api
from rayfed.core.plugins import find
from rayfed.engine.rounds import RoundLoop
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver, Interrupted

each = pytest.mark.parametrize("name", list(find("selections")))


def planned(mixed, name, **changes):
    made = mixed(**changes)
    made["participation"] |= {"select": {"name": name}}
    if name == "all" or find("selections")[name].own_cohort:
        made["participation"] |= {"cohort": None}
    if find("selections")[name].needs_graphs:
        made["topology"] = {"name": "random", "p": 0.3, "disconnected": "repair", "every": 2}
        made["clients"] |= {"availability": "always"}  # a whole neighbourhood may be away
    return api.prepare(api.read(made))


def drive(plan, out, block=None, **how):
    (run,) = plan.runs
    run = run if block is None else replace(run, block=block)
    return Driver(run, out, SerialExecutor(plan.tables)).execute(**how)


@each
def test_the_bits_do_not_depend_on_how_many_clients_are_stacked(mixed, name, tmp_path, assert_same):
    plan = planned(mixed, name)
    for block in (1, 7):
        drive(plan, tmp_path / str(block), block)
    assert_same(tmp_path / "1", tmp_path / "7")


@each
def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(mixed, name, tmp_path, assert_same):
    plan = planned(mixed, name)
    drive(plan, tmp_path / "calm")
    (run,) = plan.runs
    driver = Driver(run, tmp_path / "stopped", SerialExecutor(plan.tables))
    with pytest.raises(Interrupted):
        driver.execute(report=lambda p: driver.stop() if p.round == 4 else None)
    drive(plan, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "calm", tmp_path / "stopped")


@each
def test_it_names_available_clients_in_order_and_enough_of_them(mixed, name):
    plan = planned(mixed, name)
    (run,) = plan.runs
    executor = SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    engine = RoundLoop(run, executor)
    moment, _ = engine.start()
    seen = []
    for number in range(1, 7):
        start = moment.time_s
        moment, _, events = engine.step(moment)
        ids = events[-1]["client"]
        assert run.federation.population.available(ids, start, number).all()
        assert (np.diff(ids) > 0).all()  # the events hold each client once
        assert 1 <= len(ids) <= 6
        seen += ids.tolist()
    assert len(set(seen)) > 6


@each
def test_it_never_changes_its_state_in_place(mixed, name):
    plan = planned(mixed, name)
    (run,) = plan.runs
    executor = SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    engine = RoundLoop(run, executor)
    moment, _ = engine.start()
    for _ in range(3):
        for array in moment.selection.values():
            array.flags.writeable = False
        kept = {key: value.copy() for key, value in moment.selection.items()}
        after, _, _ = engine.step(moment)
        for key, value in kept.items():
            np.testing.assert_array_equal(moment.selection[key], value)
        moment = after


@each
def test_every_algorithm_runs_under_it(mixed, name):
    found = [name for name, cls in find("algorithms").items() if not cls.pooled]
    plan = planned(mixed, name, algorithms=[{"name": one} for one in found])
    for run in plan.runs:
        executor = SerialExecutor(plan.tables)
        executor.open(run.folder, run.setup())
        engine = RoundLoop(run, executor)
        moment, _ = engine.start()
        for _ in range(2):
            moment, row, _ = engine.step(moment)
        assert np.isfinite(row["loss"]), run.label
        assert row["participants"] > 0, run.label


@each
def test_it_is_a_frozen_value_that_says_what_it_does(name):
    cls = find("selections")[name]
    assert is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    assert inspect.getdoc(cls)
    source = inspect.getsource(inspect.getmodule(cls))
    for word in ("import ray", "rayfed.engine", "rayfed.executors", "import time"):
        assert word not in source
