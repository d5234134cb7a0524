"""What every algorithm that the plug-in search finds must keep, without Ray."""

import inspect
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import is_dataclass, replace

import numpy as np
import pandas as pd
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.core.plugins import find
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver, Interrupted
from rayfed.runs.outcome import outcomes
from rayfed.runs.serial import SerialStudy

LOCAL = {"steps": 5, "batch": 4, "lr": 0.1}
DATA = {"name": "synthetic", "features": 5, "classes": 3, "samples": 12}
TABLE = {"name": "mushroom"}


def scenario(mixed, name, **changes):
    """A scenario that the algorithm can run: one that pools data needs a table."""
    made = mixed(algorithms=[{"name": name, "local": LOCAL}], **changes)
    if find("algorithms")[name].pooled:
        made["problem"] |= {"dataset": TABLE}
        made["partition"] = {"name": "dirichlet", "alpha": 0.5}
    return made


def drive(plan, out, block=None, **how):
    (run,) = plan.runs
    run = run if block is None else replace(run, block=block)
    driver = Driver(run, out, SerialExecutor(plan.tables))
    return driver, driver.execute(**how)


each = pytest.mark.parametrize("name", list(find("algorithms")))


@each
def test_the_bits_do_not_depend_on_how_many_clients_are_stacked(mixed, name, tmp_path, assert_same):
    asked = {"every": 6, "heterogeneity": not find("algorithms")[name].pooled}
    plan = api.prepare(api.read(scenario(mixed, name, evaluate=asked)))
    for block in (1, 7):
        drive(plan, tmp_path / str(block), block)
    assert_same(tmp_path / "1", tmp_path / "7")


@each
def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(mixed, name, tmp_path, assert_same):
    plan = api.prepare(api.read(scenario(mixed, name)))
    drive(plan, tmp_path / "calm")
    (run,) = plan.runs
    driver = Driver(run, tmp_path / "stopped", SerialExecutor(plan.tables))
    with pytest.raises(Interrupted):
        driver.execute(report=lambda p: driver.stop() if p.round == 4 else None)
    drive(plan, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "calm", tmp_path / "stopped")


@each
def test_it_lowers_the_loss_and_records_its_diagnostics(mixed, name, tmp_path):
    everyone = {"select": "uniform", "cohort": 13}  # without the noise of small cohorts
    made = scenario(mixed, name, rounds=20, participation=everyone)
    made["clients"] |= {"availability": "always"}
    rows = rayfed.run(made, out=tmp_path / "out").rounds
    assert rows.loss.iloc[-1] < rows.loss.iloc[0]
    for column in find("algorithms")[name].diagnostics:
        assert math.isnan(rows[column].iloc[0])
        assert np.isfinite(rows[column].iloc[1:]).all()


@each
def test_float32_stays_float32(mixed, name, tmp_path):
    result = rayfed.run(scenario(mixed, name, dtype="float32", rounds=3), out=tmp_path / "out")
    (run,) = result.outcome
    assert result.model(run).dtype == np.float32


@each
def test_another_seed_gives_another_run(mixed, name, tmp_path):
    result = rayfed.run(scenario(mixed, name, seeds=[0, 1], rounds=3), out=tmp_path / "out")
    last = result.rounds.groupby("seed").loss.last()
    assert last[0] != last[1]


@each
def test_it_is_a_frozen_value_that_says_where_it_comes_from(name):
    cls = find("algorithms")[name]
    assert is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    text = inspect.getdoc(cls)
    assert ">>>" in text, "a short runnable example"
    assert cls.baseline or "Deviations from the paper" in text
    assert cls.baseline or "http" in inspect.getdoc(inspect.getmodule(cls))
    source = inspect.getsource(inspect.getmodule(cls))
    for word in ("import ray", "rayfed.engine", "rayfed.executors", "import time"):
        assert word not in source


def test_after_kill_9_at_a_random_moment_resume_ends_with_the_same_bytes(
    mixed, tmp_path, assert_same
):
    found = [name for name, cls in find("algorithms").items() if not cls.pooled]
    names = random.sample(found, 5)  # each of them is stopped and resumed above
    made = mixed(rounds=100, algorithms=[{"name": n, "local": LOCAL} for n in names])
    made["checkpoint"] = {"every_s": 0.05}
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(made))
    rayfed.run(file, out=tmp_path / "calm")
    command = [sys.executable, "-m", "rayfed", "run", str(file), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first = tmp_path / "killed" / f"{names[0]}-seed3" / "checkpoint" / "manifest.json"
    deadline = time.monotonic() + 30
    while not first.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.8))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    statuses = outcomes(tmp_path / "killed").values()
    assert "running" in statuses or len(statuses) < len(names)
    rayfed.resume(tmp_path / "killed")
    assert_same(tmp_path / "calm", tmp_path / "killed")


def told(mixed, names, folder, **clients):
    """Return the events of algorithms in one study, by name."""
    made = mixed(algorithms=[{"name": n, "local": LOCAL} for n in names])
    made["clients"] |= {"network": {}, **clients}
    plan = api.prepare(api.read(made))
    outcome = SerialStudy(folder).execute(plan.runs, plan.tables, False, lambda *_: None)
    events = api.Result(folder, outcome).events
    return [
        events[events.label == name].drop(columns=["label", "loss"]).reset_index(drop=True)
        for name in names
    ]


def takes_plain_steps(cls):
    """Whether a round is local steps alone, one gradient each."""
    algorithm = cls()
    asks = algorithm.round(algorithm.init(np.zeros(3)))
    ask = next(asks)
    return isinstance(ask.cost, str) and ask.each_step == 1 and not ask.passes


def test_algorithms_of_a_study_that_take_as_long_meet_the_same_clients(mixed, tmp_path):
    found = find("algorithms").items()
    names = [name for name, cls in found if not cls.pooled and takes_plain_steps(cls)]
    assert len(names) >= 12
    first, *others = told(mixed, names, tmp_path / "out")
    for other in others:
        pd.testing.assert_frame_equal(first, other, check_exact=True)


def test_all_algorithms_of_a_study_ask_the_same_clients_where_all_are_there(mixed, tmp_path):
    names = [name for name, cls in find("algorithms").items() if not cls.pooled]
    everybody = told(mixed, names, tmp_path / "out", availability="always")
    cohorts = [
        events[events["ask"] == 0].groupby("round").client.apply(list).to_list()
        for events in everybody
    ]
    assert all(cohort == cohorts[0] for cohort in cohorts)
