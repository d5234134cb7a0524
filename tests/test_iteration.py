"""Studies in a loop of the user's record what they record without one."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import yaml

import rayfed
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.core.plugins import find
from rayfed.engine.loop import Loop
from rayfed.executors.serial import SerialExecutor
from rayfed.iteration import Row
from rayfed.testing.studies import mixed_for


@pytest.fixture
def small():
    """Return a scenario of two algorithms that takes no time."""
    return {
        "name": "small",
        "rounds": 6,
        "evaluate": {"every": 3},
        "problem": {
            "name": "least-squares",
            "dataset": {"name": "linear", "features": 2, "samples": 5},
            "test": 0.2,
        },
        "clients": {"count": 6},
        "participation": {"cohort": 2},
        "algorithms": ["scaffold", {"name": "fedexp", "local": {"steps": 2, "batch": 2}}],
        "executor": "serial",
    }


def told(folder, run="scaffold-seed0"):
    return json.loads((folder / run / "run.json").read_text())


def test_a_loop_gets_every_row_and_records_the_same_bytes(small, tmp_path, assert_same):
    result = rayfed.run(small, out=tmp_path / "run", page=False)
    rows = list(rayfed.iterate(small, out=tmp_path / "loop", page=False))
    assert_same(tmp_path / "run", tmp_path / "loop")
    assert [(row["label"], row["round"]) for row in rows] == [
        (label, number) for label in ("scaffold", "fedexp") for number in range(7)
    ]
    recorded = result.rounds.to_dict("records")
    columns = ("label", "seed", "round", "time_s", "loss", "bytes_up")
    np.testing.assert_equal(
        [[row[name] for name in columns] for row in rows],
        [[row[name] for name in columns] for row in recorded],
    )
    assert rows[6].model.tobytes() == result.model("scaffold").tobytes()
    assert rows[0].model.tolist() == [0.0, 0.0, 0.0]  # kept rows keep their models


@pytest.mark.parametrize("leave", [False, True])
def test_a_run_that_the_loop_stops_is_one_of_fewer_rounds(small, tmp_path, assert_same, leave):
    """The fourth row is not evaluated by the cadence, but as the last."""
    rows = rayfed.iterate(small, out=tmp_path / "loop", page=False)
    for row in rows:
        if row["round"] == 4:
            row.stop()
            if leave and row["label"] == "fedexp":  # of the last run
                break
    rows.close()
    shorter = rayfed.run(small | {"rounds": 4}, out=tmp_path / "run", page=False)
    assert rows.result.rounds.equals(shorter.rounds)
    assert rows.result.events.equals(shorter.events)
    assert np.isfinite(rows.result.rounds.loss.iloc[4])
    record = told(tmp_path / "loop")
    assert (record["status"], record["stopped_by"]) == ("finished", "loop")
    again = rayfed.resume(tmp_path / "loop", page=False)  # it has ended: nothing goes on
    assert again.rounds.equals(shorter.rounds)


@pytest.mark.guard
def test_a_loop_that_is_left_but_held_is_told_to_be_closed(small, tmp_path, assert_same):
    rows = rayfed.iterate(small, out=tmp_path / "loop", page=False)
    next(rows)
    with pytest.raises(ScenarioError, match=r"by close\(\) of what rayfed.iterate returned"):
        rayfed.resume(tmp_path / "loop", page=False)
    rows.close()
    rayfed.resume(tmp_path / "loop", page=False)
    rayfed.run(small, out=tmp_path / "run", page=False)
    assert_same(tmp_path / "run", tmp_path / "loop")


@pytest.mark.guard
def test_a_loop_that_is_left_goes_on_by_resume(small, tmp_path, assert_same):
    rayfed.run(small, out=tmp_path / "run", page=False)
    for row in rayfed.iterate(small, out=tmp_path / "loop", page=False):
        if row["round"] == 2:
            break
    assert told(tmp_path / "loop")["status"] == "running"
    rayfed.resume(tmp_path / "loop", page=False)
    assert_same(tmp_path / "run", tmp_path / "loop")


def test_steps(small, tmp_path):
    one = rayfed.iterate(small, out=tmp_path / "one", page=False)
    other = rayfed.iterate(small | {"seeds": [1]}, out=tmp_path / "other", page=False)
    pairs = [(one.step(), other.step()) for _ in range(2)]  # two studies side by side
    assert [(a["seed"], b["seed"], a["round"], b["round"]) for a, b in pairs] == [
        (0, 1, 0, 0), (0, 1, 1, 1),
    ]  # fmt: skip
    other.close()
    while row := one.step():
        last = row
    assert isinstance(last, Row)
    assert (last["label"], last["round"]) == ("fedexp", 6)
    assert one.step() is None
    with pytest.raises(ScenarioError, match="name one"):
        one.result.model()


def test_ctrl_c_in_a_round_leaves_a_checkpoint(small, tmp_path, assert_same, monkeypatch):
    rayfed.run(small, out=tmp_path / "run", page=False)
    rows = rayfed.iterate(small, out=tmp_path / "loop", page=False)
    rows.step()
    whole = Loop.step

    def step(loop, before):
        os.kill(os.getpid(), signal.SIGINT)
        return whole(loop, before)

    monkeypatch.setattr(Loop, "step", step)
    with pytest.raises(KeyboardInterrupt):
        rows.step()
    monkeypatch.undo()
    assert told(tmp_path / "loop")["status"] == "running"
    rayfed.resume(tmp_path / "loop", page=False)
    assert_same(tmp_path / "run", tmp_path / "loop")


def test_a_run_that_fails_ends_its_rows_alone(small, tmp_path):
    small["algorithms"] = [{"name": "fedavg", "local": {"lr": 1e300}}, "fedexp"]
    with pytest.warns(RuntimeWarning, match="1 of 2 runs failed, the first fedavg-seed0: round 1"):
        rows = list(rayfed.iterate(small, out=tmp_path / "loop", page=False))
    assert [row["round"] for row in rows if row["label"] == "fedexp"] == list(range(7))
    assert [row["round"] for row in rows if row["label"] == "fedavg"] == [0, 1]


def test_what_is_wrong_is_said_before_anything_is_written(small, tmp_path):
    with pytest.raises(ScenarioError, match="rounds"):
        rayfed.iterate(small | {"rounds": -1}, out=tmp_path / "loop")
    search = {"participation.cohort": {"int": [1, 3]}}
    with pytest.raises(ScenarioError, match="is for rayfed sweep"):
        rayfed.iterate(small | {"search": search}, out=tmp_path / "loop")
    assert not (tmp_path / "loop").exists()


def test_a_network_is_a_module(small, tmp_path):
    torch = pytest.importorskip("torch")
    model = {"name": "torch.nn:Linear", "in_features": 2, "out_features": 1}
    task = {"name": "network", "model": model, "loss": "squared-error"}
    small["problem"] |= task
    first = next(rayfed.iterate(small, out=tmp_path / "loop", page=False))
    assert isinstance(first.model, torch.nn.Linear)
    assert first.weights.size == 3


HALVED = {"name": "step", "start": 0.1, "factor": 0.5, "rounds": [4]}
"""The schedule of a learning rate that a loop halves after round 3."""
SLOW = {"count": 6, "delay": {"name": "lognormal", "mean_s": 1.0}}


def controlled(scenario, out, changes, leave=None):
    """Run a loop that changes settings after some rounds; `leave` is where it ends."""
    for row in rayfed.iterate(scenario, out=out, page=False):
        row.change(**changes.get(row["round"], {}))
        if row["round"] == leave:
            break


def test_changed_settings_from_the_start_are_those_of_the_scenario(small, tmp_path, assert_same):
    small["clients"] = SLOW
    controlled(small, tmp_path / "loop", {0: {"cohort": 4, "deadline_s": 3.0, "lr": 0.05}})
    small["participation"] = {"cohort": 4, "deadline_s": 3.0}
    whole = {"algorithms.*.local.lr": 0.05}
    rayfed.run(small, out=tmp_path / "run", overrides=whole, page=False)
    assert_same(tmp_path / "run", tmp_path / "loop")


@pytest.mark.parametrize(
    "algorithm",
    ["fedavg", "scaffold", "mifa", "fednova", {"name": "mifa", "weights": "uniform"}],
)
def test_a_changed_rate_is_a_schedule(small, tmp_path, assert_same, algorithm):
    small |= {"algorithms": [algorithm], "clients": SLOW}
    controlled(small, tmp_path / "loop", {3: {"lr": 0.05}})
    halved = {"algorithms.0.local.lr": HALVED}
    rayfed.run(small, out=tmp_path / "run", overrides=halved, page=False)
    assert_same(tmp_path / "run", tmp_path / "loop")


@pytest.mark.slow
@pytest.mark.parametrize("name", find("algorithms"))
def test_a_changed_rate_is_a_schedule_under_unequal_clients(tmp_path, assert_same, name):
    scenario = mixed_for(find("algorithms")[name], rounds=8)
    rate = scenario["algorithms"][0]["local"]["lr"]
    try:
        for row in rayfed.iterate(scenario, out=tmp_path / "loop", page=False):
            if row["round"] == 3:
                row.change(lr=rate / 4)
    except ScenarioError as refused:
        pytest.skip(str(refused))
    step = {"name": "step", "start": rate, "factor": 0.25, "rounds": [4]}
    changed = {"algorithms.0.local.lr": step}
    rayfed.run(scenario, out=tmp_path / "run", overrides=changed, page=False)
    assert_same(tmp_path / "run", tmp_path / "loop")


SECURE = [{"name": "clip", "norm": 1.0}, {"name": "secure-sum", "range": 1.0, "bits": 20}]
EDITED = {
    "drop": {},
    "stale": {"participation": {"late": "stale"}},
    "memory": {"uplink": [{"name": "top-k", "share": 0.5, "memory": "ef21"}]},
    "secure": {"uplink": SECURE, "algorithms": [{"name": "fedavg", "weights": "uniform"}]},
    "power-of-d": {"participation": {"select": {"name": "power-of-d", "d": 6}}},
}


@pytest.mark.parametrize("case", EDITED)
def test_a_changed_cohort_is_that_of_an_edited_scenario(small, tmp_path, assert_same, case):
    """The reference is a run whose scenario is edited after round 3, and planned anew."""
    small |= {"clients": SLOW, "algorithms": ["fedavg"], **EDITED[case]}
    small["participation"] = {"cohort": 2, "deadline_s": 2.0} | EDITED[case].get(
        "participation", {}
    )
    controlled(small, tmp_path / "loop", {3: {"cohort": 5, "deadline_s": 1.0}})
    controlled(small, tmp_path / "edited", {}, leave=3)
    path = tmp_path / "edited" / "scenario.yaml"
    scenario = yaml.safe_load(path.read_text())
    scenario["participation"] |= {"cohort": 5, "deadline_s": 1.0}
    path.write_text(yaml.safe_dump(scenario))
    rayfed.resume(tmp_path / "edited", accept_changes=True, page=False)
    assert_same(tmp_path / "edited", tmp_path / "loop")


EQUAL = {"name": "fedavg", "weights": "uniform"}
EDITED_CHANNEL = {
    "rule": ({}, {"aggregate": {"name": "centred-clipping", "radius": 0.5}}),
    "no rule": ({"aggregate": {"name": "krum", "f": 1}}, {"aggregate": None}),
    "buckets": ({}, {"aggregate": {"name": "median", "before": {"name": "buckets", "size": 2}}}),
    "codec": ({"uplink": ["sign"]}, {"uplink": [{"name": "rand-k", "share": 0.5}]}),
    "no codec": ({"uplink": ["natural"]}, {"uplink": []}),
    "both": (
        {"uplink": ["qsgd"]},
        {"uplink": [{"name": "clip", "norm": 0.1}], "aggregate": "median"},
    ),
}


@pytest.mark.parametrize("case", EDITED_CHANNEL)
def test_a_changed_channel_is_that_of_an_edited_scenario(small, tmp_path, assert_same, case):
    """The reference is a run whose scenario is edited after round 3, and planned anew."""
    before, values = EDITED_CHANNEL[case]
    faults = [{"name": "scale", "count": 1}, {"name": "replay", "ids": [2], "start": 3}]
    small |= {"clients": {**SLOW, "faults": faults}, "algorithms": [EQUAL], **before}
    small["participation"] = {"cohort": 5}
    controlled(small, tmp_path / "loop", {3: values})
    controlled(small, tmp_path / "edited", {}, leave=3)
    path = tmp_path / "edited" / "scenario.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))
    rayfed.resume(tmp_path / "edited", accept_changes=True, page=False)
    assert_same(tmp_path / "edited", tmp_path / "loop")


def test_a_rule_begins_anew_after_a_change(small, tmp_path, assert_same):
    """One that was away is as one that never was; one that stayed knows its rounds."""
    small |= {"algorithms": [EQUAL], "participation": {"cohort": 5}}
    clipping = {"name": "centred-clipping", "radius": 0.05}
    near = {**clipping, "radius": 0.06}
    controlled(small, tmp_path / "new", {0: {"aggregate": None}, 3: {"aggregate": near}})
    small["aggregate"] = clipping
    controlled(small, tmp_path / "back", {0: {"aggregate": None}, 3: {"aggregate": near}})
    assert_same(tmp_path / "new", tmp_path / "back")
    controlled(small, tmp_path / "direct", {3: {"aggregate": near}})
    controlled(small, tmp_path / "away", {3: {"aggregate": None}, 4: {"aggregate": near}})
    folders = (f"{name}/fedavg-seed0/checkpoint" for name in ("direct", "away"))
    for folder, round in zip(folders, (3, 4), strict=True):
        held = [
            name for name in np.load(tmp_path / folder / "server-6.npz").files if "rule" in name
        ]
        assert held
        assert all(f"rule{round}." in name for name in held)


def test_rows_before_a_change_are_those_without_it(small, tmp_path):
    before = rayfed.run(small, out=tmp_path / "run", page=False).rounds
    controlled(small, tmp_path / "loop", {3: {"cohort": 5}})
    rounds = rayfed.load(tmp_path / "loop").rounds
    early = rounds["round"] <= 3
    assert rounds[early].equals(before[early])
    assert rounds[~early].participants.tolist() == [5] * 6


def test_a_rate_that_changes_in_every_round_opens_no_host_anew(small, tmp_path, monkeypatch):
    small["algorithms"], opened, open_ = ["scaffold"], [], SerialExecutor.open
    monkeypatch.setattr(
        SerialExecutor, "open", lambda self, *given: opened.append(0) or open_(self, *given)
    )
    controlled(small, tmp_path / "loop", {k: {"lr": 0.1 / (k + 1)} for k in range(1, 6)})
    assert len(opened) == 1
    assert len(told(tmp_path / "loop")["changes"]) == 5


def test_changes_are_recorded_and_warned_of(small, tmp_path):
    controlled(small, tmp_path / "loop", {2: {"cohort": 5, "lr": 0.1}, 4: {"cohort": 3}})
    record = told(tmp_path / "loop")
    noted = [[each[key] for key in ("round", "key", "from", "to")] for each in record["changes"]]
    assert noted == [[2, "participation.cohort", 2, 5], [4, "participation.cohort", 5, 3]]
    assert "changed after round 4: participation.cohort was 5, found 3" in record["warnings"]


def test_a_changed_rule_is_recorded_and_warned_of(small, tmp_path):
    controlled(small | {"algorithms": [EQUAL]}, tmp_path / "loop", {2: {"aggregate": "median"}})
    record = told(tmp_path / "loop", "fedavg-seed0")
    (noted,) = record["changes"]
    assert (noted["key"], noted["from"], noted["to"]["name"]) == ("aggregate", None, "median")
    assert any('aggregate was null, found {"name": "median"' in line for line in record["warnings"])


@pytest.mark.guard
@pytest.mark.parametrize(
    "changes",
    [
        {0: {"cohort": 4}, 2: {"lr": 0.05}},
        {3: {"lr": 0.05}},
        {1: {"aggregate": "centred-clipping"}, 3: {"aggregate": {"name": "krum", "f": 0}}},
    ],
)
def test_a_loop_that_is_left_repeats_its_changes(small, tmp_path, assert_same, changes):
    """The newest checkpoint is damaged, so that the run goes on from before the last change."""
    name = "fedavg" if "aggregate" in str(changes) else "mifa"
    small["algorithms"] = [{"name": name, "weights": "uniform"}]
    controlled(small, tmp_path / "run", changes)
    controlled(small, tmp_path / "loop", changes, leave=3)
    (tmp_path / f"loop/{name}-seed0/checkpoint/server-3.npz").write_bytes(b"")
    rayfed.resume(tmp_path / "loop", page=False)
    assert_same(tmp_path / "run", tmp_path / "loop")


KILLED = """
import json, os, signal, sys
import rayfed
for row in rayfed.iterate(json.loads(sys.argv[1]), out=sys.argv[2], page=False):
    row.change(**({"cohort": 4, "lr": 0.05} if row["round"] == 2 else {}))
    if row["round"] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.guard
def test_after_kill_9_a_resume_repeats_the_changes(small, tmp_path, assert_same):
    small["algorithms"] = ["mifa"]
    text = json.dumps(small)
    ended = subprocess.run([sys.executable, "-c", KILLED, text, str(tmp_path / "loop")])
    assert ended.returncode == -signal.SIGKILL
    rayfed.resume(tmp_path / "loop", page=False)
    controlled(small, tmp_path / "run", {2: {"cohort": 4, "lr": 0.05}})
    assert_same(tmp_path / "run", tmp_path / "loop")


@pytest.mark.guard
def test_a_record_that_lost_its_changes_is_refused(small, tmp_path):
    small["algorithms"] = ["scaffold"]
    controlled(small, tmp_path / "loop", {2: {"cohort": 4}}, leave=4)
    (tmp_path / "loop/scaffold-seed0/run.json").write_text("{}")
    with pytest.raises(RunFailed, match=r"round 4: run\.json lacks changes of settings"):
        rayfed.resume(tmp_path / "loop", page=False)


def test_a_row_that_is_over_changes_nothing(small, tmp_path):
    rows = rayfed.iterate(small, out=tmp_path / "loop", page=False)
    first, _ = next(rows), next(rows)
    with pytest.raises(ScenarioError, match="row of round 0; change settings at the newest row"):
        first.change(cohort=3)
    rows.close()
    assert "changes" not in told(tmp_path / "loop")
