"""What algorithms of one study share, and a run that is killed; see `test_plugins` for each."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.core.needs import EVERYONE, LAYERS
from rayfed.core.plugins import find
from rayfed.messages import Ask
from rayfed.runs.files.outcome import outcomes
from rayfed.runs.serial import SerialStudy
from rayfed.testing.studies import LOCAL


def names():
    """Return the algorithms that train one model of any kind at the clients of a cohort."""
    found = find("algorithms").items()
    others = {LAYERS, EVERYONE}
    return [
        name
        for name, cls in found
        if not (cls.centralised or cls.asynchronous or cls.gossip or others & cls.needs)
    ]


@pytest.mark.guard
def test_after_kill_9_in_the_middle_of_a_run_resume_ends_with_the_same_bytes(
    mixed, tmp_path, assert_same
):
    found = names()
    some = found[:: len(found) // 5][:5]  # each of all is stopped and resumed in test_plugins
    made = mixed(rounds=60, algorithms=[{"name": n, "local": dict(LOCAL)} for n in some])
    made["checkpoint"] = {"every_s": 0.05}
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(made))
    rayfed.run(file, out=tmp_path / "calm", page=False)
    command = [sys.executable, "-m", "rayfed", "run", str(file), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    third = tmp_path / "killed" / f"{some[2]}-seed3" / "checkpoint" / "manifest.json"
    deadline = time.monotonic() + 60
    while not third.exists():
        assert time.monotonic() < deadline, "the third run saved nothing"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    statuses = outcomes(tmp_path / "killed")
    assert statuses[f"{some[0]}-seed3"] == "finished"
    assert f"{some[4]}-seed3" not in statuses
    rayfed.resume(tmp_path / "killed", page=False)
    assert_same(tmp_path / "calm", tmp_path / "killed")


def events_of(mixed, names, folder, **clients):
    """Return the events of algorithms in one study, one frame each."""
    algorithms = [{"name": n, "local": dict(LOCAL)} for n in names]
    made = mixed(algorithms=algorithms, checkpoint={"every_s": 60})
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
    ask = next(asked for asked in asks if isinstance(asked, Ask))
    alone = ask.edge_of is None  # other edge servers are not waited for
    return isinstance(ask.cost, str) and ask.each_step == 1 and not ask.passes and alone


def test_algorithms_of_a_study_that_take_as_long_meet_the_same_clients(mixed, tmp_path):
    plain = [name for name in names() if takes_plain_steps(find("algorithms")[name])]
    assert len(plain) >= 12
    first, *others = events_of(mixed, plain, tmp_path / "out")
    for other in others:
        pd.testing.assert_frame_equal(first, other, check_exact=True)


def test_all_algorithms_of_a_study_ask_the_same_clients_where_all_are_there(mixed, tmp_path):
    everybody = events_of(mixed, names(), tmp_path / "out", availability="always")
    cohorts = [
        events[events["ask"] == 0].groupby("round").client.apply(list).to_list()
        for events in everybody
    ]
    assert all(cohort == cohorts[0] for cohort in cohorts)
