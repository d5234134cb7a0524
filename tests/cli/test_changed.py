"""What `rayfed resume` says when something is not as it was; nothing is touched then."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED

pytestmark = pytest.mark.guard

RUN = "fedavg-seed0"
STUDY = {
    "name": "study",
    "seeds": [0, 1],
    "rounds": 20,
    "problem": {"name": "least-squares", "dataset": "own.csv"},
    "clients": {"count": 4},
    "participation": {"cohort": 2},
    "checkpoint": {"every_s": 0},
    "algorithms": [{"name": "fedavg", "local": {"steps": 2, "batch": 4, "lr": 0.01}}],
    "executor": "serial",
}


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "y"])
    frame.to_csv(tmp_path / "own.csv", index=False)
    return frame


def write(path, **changes):
    path.write_text(yaml.safe_dump({**STUDY, **changes}))
    return path


def killed(scenario, out, after=8):
    """Leave a study as a kill does: its first run after a round, the other not begun."""
    plan = api.prepare(api.read(scenario))
    api.begin(plan, out)
    driver = Driver(plan.runs[0], out, SerialExecutor(plan.tables))
    assert (
        driver.execute(report=lambda now: driver.stop() if now.round == after else None) == STOPPED
    )
    return out


def edit(out, change):
    path = out / "scenario.yaml"
    held = yaml.safe_load(path.read_text())
    change(held)
    path.write_text(yaml.safe_dump(held))


def content(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(command, out):
    """Return the one line with which a resume is refused; all files are as they were."""
    before = content(out)
    status, said, line = command("resume", out)
    assert (status, said) == (2, "")
    assert line.count("\n") == 1, line
    assert content(out) == before
    assert line.startswith(f"rayfed: {out}: ")
    return line.removeprefix(f"rayfed: {out}: ").rstrip()


@pytest.fixture
def study(data, tmp_path):
    return killed(write(tmp_path / "s.yaml"), tmp_path / "out")


def other_rate(held):
    held["algorithms"][0]["local"]["lr"] = 0.02


def test_another_rate_after_a_kill(command, study):
    edit(study, other_rate)
    assert refused(command, study) == (
        f"{RUN}: algorithms.fedavg.local.lr was 0.01, found 0.02; undo that, run the study anew, "
        "or go on with --accept-changes"
    )


def test_a_change_that_is_undone(command, study, tmp_path, assert_same):
    text = (study / "scenario.yaml").read_text()
    edit(study, other_rate)
    refused(command, study)
    (study / "scenario.yaml").write_text(text)
    assert command("resume", study, "--no-page")[0] == 0
    rayfed.run(tmp_path / "s.yaml", out=tmp_path / "calm", page=False)
    assert_same(study, tmp_path / "calm")


def test_several_changes_are_named_and_counted(command, study):
    def change(held):
        other_rate(held)
        held["algorithms"][0]["local"] |= {"steps": 3, "batch": 5, "momentum": 0.5}

    edit(study, change)
    line = refused(command, study)
    assert "algorithms.fedavg.local.steps was 2, found 3; " in line
    assert " and 1 more; undo that" in line


def test_fewer_rounds_than_its_checkpoint(command, study):
    edit(study, lambda held: held.update(rounds=5))
    assert refused(command, study) == (
        f"{RUN}: found rounds: 5, but it is after round 8; give at least 8, or run the study anew"
    )


def test_fewer_rounds_than_its_checkpoint_where_a_file_is_damaged(command, study):
    assert command("resume", study, "--no-page")[0] == 0
    (study / RUN / "model.npz").write_bytes(b"{}")
    edit(study, lambda held: held.update(rounds=5))
    assert refused(command, study).startswith(f"{RUN}: found rounds: 5, ")


def test_fewer_rounds_than_its_checkpoint_beside_the_record_of_another_run(command, study):
    assert command("resume", study, "--no-page")[0] == 0
    record = (study / "fedavg-seed1" / "run.json").read_bytes()
    (study / RUN / "run.json").write_bytes(record)
    edit(study, lambda held: held.update(rounds=5))
    assert refused(command, study).startswith(f"{RUN}: found rounds: 5, ")


def test_fewer_rounds_than_its_checkpoint_beside_an_empty_record(command, study):
    assert command("resume", study, "--no-page")[0] == 0
    (study / RUN / "run.json").write_bytes(b"")
    edit(study, lambda held: held.update(rounds=5))
    assert refused(command, study).startswith(f"{RUN}: found rounds: 5, ")


def test_fewer_rounds_but_more_than_its_checkpoint(command, study, tmp_path, assert_same):
    edit(study, lambda held: held.update(rounds=11))
    assert command("resume", study, "--no-page")[0] == 0
    scenario = write(tmp_path / "other.yaml", rounds=11)
    rayfed.run(scenario, out=tmp_path / "calm", page=False)
    assert_same(study, tmp_path / "calm")


def test_a_table_with_a_column_negated(command, study, data, tmp_path):
    before = (tmp_path / "own.csv").stat().st_size
    data.assign(a=-data["a"]).to_csv(tmp_path / "own.csv", index=False)
    line = refused(command, study)
    assert line.startswith(f"{RUN}: problem.dataset (own.csv) was {before:,} bytes, digest ")
    assert line.endswith("--accept-changes")


def test_a_table_with_a_row_more(command, study, data, tmp_path):
    pd.concat([data, data[:1]]).to_csv(tmp_path / "own.csv", index=False)
    assert "problem.dataset (own.csv) was " in refused(command, study)


def test_a_table_that_was_moved(command, study, data, tmp_path):
    (tmp_path / "own.csv").rename(tmp_path / "moved.csv")
    edit(study, lambda held: held["problem"].update(dataset=str(tmp_path / "moved.csv")))
    assert command("resume", study, "--no-page")[0] == 0


def test_a_run_of_another_study_of_that_name(command, study, tmp_path):
    scenario = write(tmp_path / "other.yaml", partition={"name": "sorted"})
    other = killed(scenario, tmp_path / "other")
    shutil.rmtree(study / RUN)
    shutil.copytree(other / RUN, study / RUN)
    line = refused(command, study)
    assert line.startswith(f'{RUN}: partition.name was "sorted", found nothing; undo that, ')


def test_two_finished_runs_that_were_exchanged(command, study):
    assert command("resume", study, "--no-page")[0] == 0
    one, two, aside = study / RUN, study / "fedavg-seed1", study / "aside"
    one.rename(aside)
    two.rename(one)
    aside.rename(two)
    assert refused(command, study) == (
        f"{RUN}: holds the run of 'fedavg' with seed 1; put the folders back to where they were"
    )


def test_a_checkpoint_of_another_run_is_not_used(command, study, tmp_path, assert_same):
    scenario = write(tmp_path / "other.yaml", partition={"name": "sorted"})
    other = killed(scenario, tmp_path / "other")
    shutil.rmtree(study / RUN / "checkpoint")
    shutil.copytree(other / RUN / "checkpoint", study / RUN / "checkpoint")
    assert command("resume", study, "--no-page")[0] == 0
    assert "manifest.json is of another run" in (study / RUN / "log.txt").read_text()
    rayfed.run(tmp_path / "s.yaml", out=tmp_path / "calm", page=False)
    assert_same(study, tmp_path / "calm")


def test_a_seed_that_is_no_longer_wanted(command, study):
    edit(study, lambda held: held.update(seeds=[1]))
    assert refused(command, study) == (
        f"holds {RUN}, which the scenario has not; undo the change of the scenario, or move that "
        "folder away"
    )


def test_a_module_of_the_user(command, data, tmp_path):
    source = (
        "from rayfed.algorithms.fedavg import FedAvg\n\n\nclass Mine(FedAvg):\n    name = 'mine'\n"
    )
    (tmp_path / "own_changed.py").write_text(source)
    algorithm = {**STUDY["algorithms"][0], "name": "own_changed:Mine"}
    scenario = write(tmp_path / "s.yaml", algorithms=[algorithm])
    assert command("run", scenario, "--out", tmp_path / "out", "--no-page")[0] == 0
    held = json.loads((tmp_path / "out" / "mine-seed0" / "run.json").read_text())
    assert list(held["identity"]["modules"]) == ["own_changed"]
    (tmp_path / "own_changed.py").write_text(source + "    server_lr = 0.5\n")
    line = refused(command, tmp_path / "out")
    assert line.startswith("mine-seed0: modules.own_changed was digest ")
    # a mended module is what --failed is for
    assert command("resume", tmp_path / "out", "--failed", "--no-page")[0] == 0
    assert command("resume", tmp_path / "out", "--no-page")[0] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"executor": {"name": "workers"}},
        {"checkpoint": {"every_s": 5.0}},
        {"description": "in other words"},
        {"clock": {"name": "wall", "scale": 1e-9}},
    ],
)
def test_what_changes_no_result(command, study, change):
    edit(study, lambda held: held.update(change))
    status, _, said = command("resume", study, "--no-page")
    assert status == 0
    assert "warning" not in said


def test_changes_that_are_accepted_are_on_record(command, study, capsys):
    edit(study, other_rate)
    status, said, errors = command("resume", study, "--accept-changes", "--no-page")
    assert status == 0
    line = "changed after round 8: algorithms.fedavg.local.lr was 0.01, found 0.02"
    assert line in (said + errors).replace("\n", " ")
    held = json.loads((study / RUN / "run.json").read_text())
    (change,) = held["changes"]
    assert change.pop("time").endswith("Z")
    assert change == {"round": 8, "key": "algorithms.fedavg.local.lr", "from": 0.01, "to": 0.02}
    assert line in held["warnings"]
    assert held["scenario"]["algorithms"][0]["local"]["lr"] == 0.02
    other = json.loads((study / "fedavg-seed1" / "run.json").read_text())
    assert "changes" not in other  # it began later
    assert len(rayfed.load(study).rounds.query("seed == 0")) == 21
    kept = content(study / RUN)
    assert command("resume", study, "--no-page")[0] == 0  # accepted once is accepted
    assert content(study / RUN) == kept


def test_a_change_of_the_model_is_refused_by_the_run(command, study, data, tmp_path):
    data.assign(c=1.0).to_csv(tmp_path / "own.csv", index=False)
    status, _, errors = command("resume", study, "--accept-changes", "--no-page")
    assert status == 1
    assert "the model had 3 numbers and has 4 now" in errors.replace("\n", " ")


def test_a_sweep_is_not_changed(command, data, tmp_path):
    changes = {
        "search": {"algorithms.fedavg.local.lr": {"log": [0.001, 0.1]}},
        "sweep": {"trials": 2}, "seeds": [0],
    }  # fmt: skip
    out = tmp_path / "out"
    assert command("sweep", write(tmp_path / "s.yaml", **changes), "--out", out)[0] == 0
    edit(out, lambda held: held.update(rounds=30))
    assert "trials of a sweep were chosen by what others reached" in refused(command, out)
    edit(out, lambda held: held.update(rounds=20, problem={**held["problem"], "l2": 0.5}))
    assert "problem.l2 was 0.0, found 0.5" in refused(command, out)
