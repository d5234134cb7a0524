"""One damaged run of a study: a line and a row; the others go on."""

import json
import shutil

import pytest
from typer.testing import CliRunner

import rayfed
from rayfed.cli.main import app
from rayfed.core.entries import sealed
from rayfed.core.errors import ScenarioError
from rayfed.report.read.results import Results
from rayfed.testing.studies import mixed

VICTIM = "fedavg-seed3"


def written(name, content):
    def write(run):
        path = min(run.glob(name))
        path.write_bytes(content if content is not None else path.read_bytes()[:40])

    return write


def stray(name):
    def make(run):
        (run / name).mkdir()

    return make


def other_digit(run):
    """Change one figure of a record, which is still JSON."""
    record = run / "run.json"
    said = json.loads(record.read_text())
    record.write_text(json.dumps(said | {"seed": said["seed"] + 1}))


DAMAGE = {
    "another seed in the record": other_digit,
    "empty record": written("run.json", b""),
    "torn record": written("run.json", None),
    "list as record": written("run.json", b"[]"),
    "binary record": written("run.json", b"\xff\xfe\x00"),
    "torn rounds": written("rounds.parquet/*", None),
    "empty events": written("events.parquet/*", b""),
    "lost events": lambda run: min((run / "events.parquet").iterdir()).unlink(),
    "lost table": lambda run: shutil.rmtree(run / "rounds.parquet"),
    "torn clients": written("clients.parquet", None),
    "torn model": written("model.npz", None),
}
SELDOM = ("list as record", "binary record", "torn rounds", "torn clients", "torn model")
STRAYS = {
    "file": lambda run: (run / "rounds.parquet" / "notes.parquet").write_text("mine"),
    "folder": stray("events.parquet/part-x.parquet"),
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp("study") / "out"
    local = {"steps": 2}
    algorithms = [{"name": name, "local": local} for name in ("fedavg", "fedexp")]
    rayfed.run(mixed(rounds=3, algorithms=algorithms), out=out, page=False)
    return out


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=pytest.mark.slow if how in SELDOM else ()) for how in DAMAGE],
)
def test_a_damaged_run_is_a_line_and_a_row(study, tmp_path, assert_same, how):
    out = tmp_path / "out"
    shutil.copytree(study, out)
    DAMAGE[how](out / VICTIM)
    results = Results.read(out)
    assert [run.folder.name for run in results.damaged] == [VICTIM]
    assert results.study == Results.read(study).study
    assert len(results.rounds) == 4  # of the other run
    for words in (("report", out), ("best", out, "--by", "loss")):
        ran = command(*words)
        assert ran.exit_code == 0, ran.output
        assert ran.output.count("warning: ") == 1
        assert f"warning: {VICTIM}: " in ran.output.replace("\n", "")
    assert "damaged: " in (out / "report.html").read_text()
    ran = command("resume", out, "--no-page")
    assert ran.exit_code == 0, ran.output
    assert ran.output.count(f"warning: {VICTIM}") == 1
    assert_same(study, out)
    assert Results.read(out).damaged == ()


@pytest.mark.parametrize("how", STRAYS)
def test_a_stray_in_a_table_harms_nobody(study, tmp_path, how):
    out = tmp_path / "out"
    shutil.copytree(study, out)
    STRAYS[how](out / VICTIM)
    assert len(Results.read(out).rounds) == 8
    for words in (("report", out), ("best", out, "--by", "loss"), ("resume", out, "--no-page")):
        ran = command(*words)
        assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize("how", STRAYS)
def test_a_stray_in_a_table_of_an_unfinished_run_goes(study, tmp_path, assert_same, how):
    out = tmp_path / "out"
    shutil.copytree(study, out)
    record = out / VICTIM / "run.json"
    running = json.loads(record.read_text()) | {"status": "running"}
    record.write_text(json.dumps(sealed(running)))
    STRAYS[how](out / VICTIM)
    assert command("resume", out).exit_code == 0
    assert_same(study, out)


@pytest.mark.parametrize("how", ["torn record", "torn rounds"])
def test_a_study_of_damaged_runs_has_a_page_that_says_so(study, tmp_path, how):
    out = tmp_path / "out"
    shutil.copytree(study, out)
    for run in [path.parent for path in out.glob("*/run.json")]:
        DAMAGE[how](run)
    ran = command("report", out)
    assert ran.exit_code == 0, ran.output
    assert ran.output.count("warning: ") == 2
    ran = command("best", out, "--by", "loss")
    assert isinstance(ran.exception, ScenarioError)  # one line, by `rayfed.cli.main.main`


def test_a_folder_of_another_format_is_refused_in_one_line(study, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(study, out)
    record = out / VICTIM / "run.json"
    said = json.loads(record.read_text())
    assert said["format"] == 1
    record.write_text(json.dumps(sealed(said | {"format": 2, "versions": {"rayfed": "9.1"}})))
    told = (
        f"{record}: is of format 2, written by rayfed 9.1; this version reads format 1, so install"
        " a newer rayfed"
    )
    for read in (rayfed.load, rayfed.resume, Results.read):
        with pytest.raises(ScenarioError) as error:
            read(out)
        assert str(error.value) == told


def test_a_folder_from_before_formats_is_read(study, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(study, out)
    record = out / VICTIM / "run.json"
    said = json.loads(record.read_text())
    del said["format"]
    record.write_text(json.dumps(sealed(said)))
    assert set(rayfed.load(out).outcome.values()) == {"finished"}
    assert {run.status for run in Results.read(out).runs_found} == {"finished"}


@pytest.mark.parametrize("target", ["nowhere", "scenario.yaml"])
def test_a_scenario_that_is_a_link_to_nowhere_is_refused(study, tmp_path, target):
    out = tmp_path / "out"
    shutil.copytree(study, out)
    (out / "scenario.yaml").unlink()
    (out / "scenario.yaml").symlink_to(out / target)
    with pytest.raises(ScenarioError, match=r"scenario.yaml: cannot be read: "):
        Results.read(out)
