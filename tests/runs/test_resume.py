"""What a resume takes for the run that it would go on with: files, folders, modules, digests."""

import json
import shutil
from dataclasses import replace
from importlib.util import find_spec

import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.core.dotted import put
from rayfed.core.entries import Damaged
from rayfed.core.errors import ScenarioError
from rayfed.core.files import read_json
from rayfed.core.run_state import damage, read_record
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.checkpoints import Checkpoints
from rayfed.runs.files.run_json import status
from rayfed.runs.files.stops import STOPPED
from rayfed.runs.resume import Identities, adopt, check_same

pytestmark = pytest.mark.guard

ONE, TWO = "fedavg-seed0", "fedavg-seed1"
STUDY = {
    "seeds": [0, 1],
    "rounds": 3,
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 3},
    "algorithms": [{"name": "fedavg", "local": {"lr": 0.01}}],
    "executor": "serial",
}


def written(folder, after, **changes):
    """Run a study up to a round, as a kill leaves it, or to its end; return its plan."""
    plan = api.prepare(api.read(STUDY | changes))
    api.begin(plan, folder)
    for run in plan.runs:
        driver = Driver(run, folder, SerialExecutor(plan.tables))
        driver.records.every_s = 0
        last = driver.execute(
            report=lambda now, driver=driver: driver.stop() if now.round == after else None
        )
        assert last == (STOPPED if after else "finished")
    return plan


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Folders and plans of one study that was killed and one that has ended."""
    home = tmp_path_factory.mktemp("studies")
    return {how: (home / how, written(home / how, after)) for how, after in ENDS.items()}


ENDS = {"killed": 2, "ended": None}


@pytest.fixture(params=ENDS)
def study(request, studies, tmp_path):
    """A copy of a study, and its runs."""
    folder, plan = studies[request.param]
    shutil.copytree(folder, tmp_path / "out")
    return tmp_path / "out", plan.runs


def exchange(one, two):
    one.rename(one.with_name("aside"))
    two.rename(one)
    one.with_name("aside").rename(two)


def refused(folder, runs, **how):
    with pytest.raises(ScenarioError) as error:
        check_same(folder, runs, **how)
    return error.value.problem


def test_what_is_as_it_was_goes_on(study):
    folder, runs = study
    assert check_same(folder, runs) == []


def test_a_folder_in_older_spelling_goes_on(tmp_path, assert_same):
    """Its scenario and records have the keys of earlier versions."""
    rate = {"name": "exponential", "start": 0.01, "factor": 0.9}
    asked = {"participation": {"select": "all"}, "local": {"lr": rate}}
    algorithms = {"algorithms": [{"name": "fedavg", **asked}]}
    evaluate = {"evaluate": {"measures": ["fairness", {"name": "appeal", "steps": 2}]}}
    api.run(STUDY | algorithms | evaluate, out=tmp_path / "whole", page=False)
    plan = written(tmp_path / "out", 2, **algorithms, **evaluate)

    def older(scenario):
        made = json.loads(json.dumps(scenario))
        del made["evaluate"]["measures"]
        made["evaluate"] |= {"fairness": True, "appeal": 2, "skew": False, "skew_draws": 100}
        made["participation"]["too_few"] = made["participation"].pop("if_fewer")
        (algorithm,) = made["algorithms"]
        algorithm["select"] = algorithm.pop("participation")["select"]
        algorithm["local"] |= {"lr": 0.01, "lr_decay": 0.9}
        return made

    (tmp_path / "out" / "scenario.yaml").write_text(yaml.safe_dump(older(plan.study.to_dict())))
    for run in plan.runs:
        path = tmp_path / "out" / run.folder
        held = read_record(path)
        status(path, held | {"scenario": older(held["scenario"])})
    assert api.unfinished(tmp_path / "out") == [ONE, TWO]
    resumed = api.resume(tmp_path / "out", page=False)
    assert set(resumed.outcome.values()) == {"finished"}
    assert_same(tmp_path / "whole", tmp_path / "out")


def test_exchanged_folders_are_refused(study):
    folder, runs = study
    exchange(folder / ONE, folder / TWO)
    assert refused(folder, runs).startswith(f"{ONE}: holds the run of 'fedavg' with seed 1; put")


def test_a_folder_of_another_study_is_refused(study, tmp_path):
    folder, runs = study
    written(tmp_path / "other", 1, rounds=2, clients={"count": 2})
    shutil.rmtree(folder / ONE)
    (tmp_path / "other" / ONE).rename(folder / ONE)
    assert refused(folder, runs).startswith(f"{ONE}: clients.count was 2, found 3; undo that")


def test_a_change_that_comes_with_the_version_names_it(study):
    folder, runs = study
    other = api.prepare(api.read(STUDY | {"clients": {"count": 2}})).runs
    status(folder / ONE, read_record(folder / ONE) | {"versions": {"rayfed": "0.1.0"}})
    assert refused(folder, other[:1]) == (
        f"{ONE}: clients.count was 3, found 2; if you changed nothing, resume with rayfed 0.1.0, "
        "which began it, run the study anew, or go on with --accept-changes"
    )
    assert check_same(folder, runs) == []


@pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs dp-accounting")
@pytest.mark.parametrize(
    ("key", "value", "refuses"),
    [
        ("privacy.noise", 6.0, True),
        ("participation.cohort", 1, True),
        ("uplink.0.norm", 0.5, True),
        ("algorithms.0.local.lr", 0.2, False),
    ],
)
def test_what_epsilon_counts_is_not_changed_in_a_private_run(tmp_path, key, value, refuses):
    """Epsilon of a round would be that of all rounds with the later value."""
    private = {
        "uplink": [{"name": "clip", "norm": 1.0}],
        "privacy": {"noise": 0.6, "delta": 1e-3, "accountant": "rdp"},
        "participation": {"cohort": 2, "select": "poisson"},
    }
    algorithm = {"name": "fedavg", "weights": "uniform", "local": {"lr": 0.1}}
    given = STUDY | private | {"algorithms": [algorithm], "seeds": [0], "executor": "serial"}
    for row in rayfed.iterate(given, out=tmp_path, page=False):
        if row["round"] == 1:
            break
    held = yaml.safe_load((tmp_path / "scenario.yaml").read_text())
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(put(held, key, value)))
    if not refuses:
        assert rayfed.resume(tmp_path, accept_changes=True, page=False).outcome
        return
    with pytest.raises(ScenarioError, match="epsilon counts all rounds alike, undo that or run"):
        rayfed.resume(tmp_path, accept_changes=True, page=False)


def test_a_run_that_has_ended_keeps_its_settings_whatever_is_accepted(tmp_path):
    """One of two seeds has ended, the other goes on with another rate."""
    given = STUDY | {"seeds": [0, 1], "executor": "serial"}
    for row in rayfed.iterate(given, out=tmp_path, page=False):
        if row["seed"] == 1:
            break
    ended, open_ = sorted(path.parent for path in tmp_path.glob("*/run.json"))
    before = read_record(ended)
    held = yaml.safe_load((tmp_path / "scenario.yaml").read_text())
    now = put(held, "algorithms.0.local.lr", 0.2)
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(now))
    with pytest.raises(ScenarioError, match="go on with --accept-changes"):
        rayfed.resume(tmp_path, page=False)
    rayfed.resume(tmp_path, accept_changes=True, page=False)
    for key in ("scenario", "settings", "identity"):
        assert read_record(ended)[key] == before[key]
    assert read_record(open_)["scenario"]["algorithms"][0]["local"]["lr"] == 0.2
    assert set(rayfed.resume(tmp_path, page=False).outcome.values()) == {"finished"}
    with pytest.raises(ScenarioError, match="go on with --accept-changes"):
        rayfed.extend(tmp_path, rounds=5)  # it would go on
    now = put(held, "algorithms.0.local.lr", 0.3)
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(now))
    with pytest.raises(ScenarioError, match="go on with --accept-changes"):
        rayfed.resume(tmp_path, page=False)


@pytest.mark.parametrize("now", ["other", "same"])
def test_an_exchanged_module_is_refused_unless_a_failure_was_mended(study, now):
    folder, runs = study
    for run in runs:
        held = read_record(folder / run.folder)
        identity = {**held["identity"], "modules": {"mine": "same"}}
        status(folder / run.folder, {**held, "identity": identity})
    named = [
        replace(run, record=run.record | {
            "identity": {**run.record["identity"], "modules": {"mine": now}}
        })
        for run in runs
    ]  # fmt: skip
    assert check_same(folder, named, mended=True) == check_same(folder, named, accept=True) == []
    if now == "same":
        assert check_same(folder, named) == []
    else:
        line = f"{ONE}: modules.mine was digest same, found digest other; undo that, "
        assert refused(folder, named).startswith(line)


def test_an_exchanged_record_is_told_by_the_files_beside_it(study):
    """The run goes on by these, and writes its record anew."""
    folder, runs = study
    shutil.copyfile(folder / TWO / "run.json", folder / ONE / "run.json")
    assert check_same(folder, runs) == []


def test_nothing_is_noted_of_a_record_that_is_another_run_s(studies, tmp_path):
    shutil.copytree(studies["killed"][0], folder := tmp_path / "out")
    shutil.copyfile(folder / TWO / "run.json", folder / ONE / "run.json")
    other = STUDY | {"algorithms": [{"name": "fedavg", "local": {"lr": 0.5}}]}
    one, two = adopt(folder, api.prepare(api.read(other)).runs)
    assert "changes" not in one.record
    assert [change["key"] for change in two.record["changes"]] == ["algorithms.fedavg.local.lr"]
    assert "changes" not in read_json(folder / ONE / "run.json")


def test_a_record_of_files_that_are_gone_is_another_run_s(studies, tmp_path):
    """There is no checkpoint that says whose run it is."""
    folder, plan = studies["ended"]
    shutil.copytree(folder, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / ONE / "checkpoint")
    record_of_two = (folder / TWO / "run.json").read_bytes()
    (tmp_path / "out" / ONE / "run.json").write_bytes(record_of_two)
    assert check_same(tmp_path / "out", plan.runs) == []
    shutil.copytree(folder / TWO, tmp_path / "out" / ONE, dirs_exist_ok=True)
    assert "holds the run of" in refused(tmp_path / "out", plan.runs)


def parts(run):
    return sorted(p.relative_to(run) for p in run.rglob("*.parquet") if p.is_file())


def test_an_exchanged_part_of_a_table_is_damage_once_a_run_has_ended(studies, tmp_path):
    shutil.copytree(studies["ended"][0], tmp_path / "out")
    run, other = tmp_path / "out" / ONE, tmp_path / "out" / TWO
    differ = [p for p in parts(run) if (run / p).read_bytes() != (other / p).read_bytes()]
    assert {part.parts[0] for part in differ} >= {"rounds.parquet", "clients.parquet"}
    for part in differ:
        own = (run / part).read_bytes()
        shutil.copyfile(other / part, run / part)
        assert damage(run, read_record(run)) is not None, part
        (run / part).write_bytes(own)
    assert damage(run, read_record(run)) is None


def test_no_checkpoint_is_read_beside_an_exchanged_part(studies, tmp_path):
    shutil.copytree(studies["killed"][0], tmp_path / "out")
    run, other = tmp_path / "out" / ONE, tmp_path / "out" / TWO
    checkpoints = Checkpoints(run / "checkpoint")
    held = checkpoints.read("manifest.json", run).tables
    assert held["rounds"]
    for table in held:
        for name in held[table]:
            part = run / f"{table}.parquet" / name
            own = part.read_bytes()
            shutil.copyfile(other / f"{table}.parquet" / name, part)
            with pytest.raises(Damaged):
                checkpoints.read("manifest.json", run)
            part.write_bytes(own)


def test_a_checkpoint_of_another_run_is_not_read(studies):
    folder, plan = studies["killed"]
    own, other = (run.record["identity"]["digest"] for run in plan.runs)
    assert own != other
    Checkpoints(folder / ONE / "checkpoint", [own]).read("manifest.json", folder / ONE)
    with pytest.raises(Damaged, match="of another run"):
        Checkpoints(folder / ONE / "checkpoint", [other]).read("manifest.json", folder / ONE)


def digest(lr=0.1, label="fedavg", seed=0, rows="a", module="a", folder="here"):
    scenario = {"algorithms": [{"name": "fedavg", "label": label, "local": {"lr": lr}}]}
    scenario |= {"name": folder, "rounds": 3}
    made = Identities({}, {"mine": module})
    return made.of(scenario, label, "", seed, {"digest": rows})["digest"]


@pytest.mark.parametrize(
    "change",
    [{"lr": 0.2}, {"label": "other"}, {"seed": 1}, {"rows": "b"}, {"module": "b"}],
    ids=str,
)
def test_the_identity_of_a_run_knows_all_that_decides_it(change):
    assert digest(**change) != digest() == digest(folder="elsewhere")
