"""Every file of a run damaged in every way: the same results or one line; a resume mends it."""

import shutil

import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.executors.serial import SerialExecutor
from rayfed.report.read.results import Results
from rayfed.runs.driver import Driver
from rayfed.runs.files.outcome import damaged
from rayfed.runs.files.stops import STOPPED
from rayfed.testing.studies import LOCAL, mixed

VICTIM, OTHER = "ditto-seed3", "scaffold-seed3"
FRAMES = ("rounds", "events", "clients", "personal")
NO_RESULTS = ("log.txt", ".lock", "profile.json")


def flipped(path, other):
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 0x10
    path.write_bytes(held)


def exchanged(path, other):
    if not other.is_file() or other.read_bytes() == path.read_bytes():
        pytest.skip("the other run has no such file")
    shutil.copyfile(other, path)


DAMAGE = {
    "truncated": lambda path, other: path.write_bytes(
        path.read_bytes()[: path.stat().st_size // 2]
    ),
    "emptied": lambda path, other: path.write_bytes(b""),
    "flipped": flipped,
    "removed": lambda path, other: path.unlink(),
    "exchanged": exchanged,
}


SELDOM = ("truncated", "emptied")
"""Found in the same way as other damages."""

ROUNDS = 3
"""Each of them writes a part of every table, and each part is damaged alone."""


@pytest.fixture(scope="module")
def scenario():
    algorithms = [{"name": "ditto", "lam": 0.1, "local": dict(LOCAL)},
                  {"name": "scaffold", "local": dict(LOCAL)}]  # fmt: skip
    return mixed(rounds=ROUNDS, algorithms=algorithms)


@pytest.fixture(scope="module")
def ended(tmp_path_factory, scenario):
    out = tmp_path_factory.mktemp("ended") / "out"
    rayfed.run(scenario, out=out, page=False)
    return out


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, scenario):
    """Both runs after round 2, as after a kill: the last rows are in no checkpoint."""
    out = tmp_path_factory.mktemp("stopped") / "out"
    plan = api.prepare(api.read(scenario))
    api.begin(plan, out)
    for run in plan.runs:
        driver = Driver(run, out, SerialExecutor(plan.tables))
        driver.records.every_s = 0
        assert driver.execute(report=lambda now, driver=driver: stop(driver, now)) == STOPPED
    return out


def stop(driver, now):
    if now.round == 2:
        driver.stop()


def files_of(folder):
    names = (p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file())
    return [name for name in names if name not in NO_RESULTS]


def frames(result):
    return {name: getattr(result, name) for name in FRAMES}


def same(left, right):
    return all(left[name].equals(right[name]) for name in FRAMES)


def check_every_file(study, calm, tmp_path, assert_same, how):
    whole = frames(rayfed.load(study))
    status = rayfed.load(study).outcome[VICTIM]
    tried = 0
    for name in files_of(study / VICTIM):
        out = tmp_path / name.replace("/", "-")
        shutil.copytree(study, out)
        try:
            DAMAGE[how](out / VICTIM / name, out / OTHER / name)
        except pytest.skip.Exception:
            continue
        tried += 1
        result = rayfed.load(out)
        lines = {run.folder.name: run.info["reason"] for run in Results.read(out).damaged}
        if same(frames(result), whole):
            assert lines == {}, name
        else:
            assert list(lines) == [VICTIM], name
            assert lines[VICTIM].startswith("damaged: "), name
            assert lines[VICTIM].endswith("; rayfed resume mends it"), name
            assert f"{VICTIM} failed: {lines[VICTIM]}" in repr(result), name
        if result.outcome[VICTIM] == "finished":
            assert status == "finished"
            assert same(frames(result), whole), name
            assert result.weights(VICTIM).size
        elif name == "model.npz":
            with pytest.raises(ScenarioError, match="rayfed resume mends it"):
                result.weights(VICTIM)
        outcome = rayfed.resume(out, page=False).outcome
        assert set(outcome.values()) == {"finished"}, name
        assert_same(calm, out)
        assert damaged(out, outcome) == []
        shutil.rmtree(out)
    assert tried > 4


@pytest.mark.guard
@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=pytest.mark.slow if how in SELDOM else ()) for how in DAMAGE],
)
def test_of_a_run_that_has_ended(ended, tmp_path, assert_same, how):
    check_every_file(ended, ended, tmp_path, assert_same, how)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, marks=pytest.mark.slow if how in (*SELDOM, "exchanged") else ())
        for how in DAMAGE
    ],
)
def test_of_a_run_that_was_stopped(stopped, ended, tmp_path, assert_same, how):
    check_every_file(stopped, ended, tmp_path, assert_same, how)


@pytest.mark.parametrize("study", ["ended", "stopped"])
def test_a_copy_of_a_part_by_a_program_that_syncs_is_no_result(request, study, tmp_path):
    """As such programs name what two machines have written."""
    out = tmp_path / "out"
    shutil.copytree(request.getfixturevalue(study), out)
    whole = frames(rayfed.load(out))
    for table in ("rounds", "events", "personal"):
        folder, others = out / VICTIM / f"{table}.parquet", out / OTHER / f"{table}.parquet"
        part = min(folder.iterdir())
        source = min(others.iterdir()) if others.is_dir() else part
        shutil.copyfile(source, folder / f"{part.stem}_conflict.parquet")
        shutil.copyfile(source, folder / "part-000000009999.parquet")
    assert same(frames(rayfed.load(out)), whole)
    rayfed.load(out).report()
    assert same(frames(rayfed.load(out)), whole)


def test_rows_are_live_while_a_run_goes_on(tmp_path, scenario):
    plan = api.prepare(api.read(scenario))
    api.begin(plan, tmp_path / "out")
    driver = Driver(plan.runs[0], tmp_path / "out", SerialExecutor(plan.tables))
    driver.records.every_s = 0
    seen = []

    def look(now):
        rounds = rayfed.load(tmp_path / "out").rounds["round"]
        seen.append((now.round, int(rounds.max())))

    driver.execute(report=look)
    assert seen == [(k, k) for k in range(1, ROUNDS + 1)]
