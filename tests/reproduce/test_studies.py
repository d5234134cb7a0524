"""A published study from its files to its exit status."""

import json
import shutil
import sys

import numpy as np
import pytest
import yaml

from rayfed.cli import main as cli
from rayfed.core.entries import sealed
from rayfed.core.errors import DataMissing, LibraryMissing, ScenarioError
from rayfed.reproduce import studies
from rayfed.reproduce.studies import find, known

SCENARIO = """
rounds: 4
evaluate: {every: 2}
problem: {name: least-squares, dataset: {name: linear, features: 2, samples: 5}}
clients: {count: 3}
algorithms:
  - {name: fedavg, label: slow, local: {steps: 1, batch: full, lr: 0.01}}
  - {name: fedavg, label: fast, local: {steps: 5, batch: full, lr: 0.1}}
executor: {name: serial}
"""
CLAIMS = """
source: "A. Author, Title, 2024, https://example.org"
parts:
  main: {about: "Two steps.", full: {rounds: 6}}
  sweep:
    about: "Step sizes."
    algorithms: [slow]
    set: {rounds: 2, grid: {algorithms.0.local.lr: [0.01, 0.1]}}
claims:
  - says: "Fast is below slow."
    where: "table 1"
    check: {descending: [{column: loss, of: slow, at: last}, {column: loss, of: fast, at: last}]}
  - says: "More is faster."
    where: "figure 2"
    part: sweep
    check:
      descending:
        - {column: loss, setting: lr=0.01, at: 2}
        - {column: loss, setting: lr=0.1, at: 2}
"""
FALSE = """
  - says: "Slow ends below a millionth."
    where: "table 3"
    check: {value: {column: loss, of: slow, at: last}, below: 1.0e-6}
"""


MARK = """
    measured: {{equals: {}, within: 0.01}}
    because: "other data"
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Return a function that writes the claims of a study, with additions, beside its scenario."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "own.yaml").write_text(SCENARIO)

    def write(more="", change=("", "")):
        text = CLAIMS.replace(*change) + more
        (tmp_path / "scenarios" / "own.claims.yaml").write_text(text)
        return tmp_path / "results" / "reproduce" / "own"

    return write


@pytest.fixture
def reproduce(monkeypatch, capsys):
    """Return a function that runs the command: status, output, errors."""

    def go(*arguments):
        monkeypatch.setattr(cli.out, "width", 200)  # no line is cut, wherever the tests run
        monkeypatch.setattr(sys, "argv", ["rayfed", "reproduce", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return go


@pytest.fixture
def no_page(monkeypatch):
    monkeypatch.setattr("rayfed.api.Result.report", lambda *_, **more: None)


def told(folder):
    return json.loads((folder / "claims.json").read_text())


def test_orders_that_hold_are_undecided_with_one_seed(study, reproduce):
    home = study()
    status, out, err = reproduce("own")
    assert (status, err) == (0, "")
    assert "2 claims: 2 undecided" in out
    assert "undecided: undecided with one seed" in out
    assert [claim["status"] for claim in told(home)["claims"]] == ["undecided", "undecided"]
    assert [claim["says"] for claim in told(home / "sweep")["claims"]] == ["More is faster."]
    assert (home / "main" / "report.html").is_file()
    scenario = yaml.safe_load((home / "sweep" / "scenario.yaml").read_text())
    assert (scenario["name"], scenario["description"]) == ("own: sweep", "Step sizes.")


@pytest.mark.usefixtures("no_page")
def test_one_that_fails(study, reproduce):
    home = study(FALSE)
    status, out, _ = reproduce("own", "--part", "main")
    assert status == 1
    assert "NO" in out
    states = [claim["status"] for claim in told(home)["claims"]]
    assert states == ["undecided", "not checked", "fails"]


@pytest.mark.usefixtures("no_page")
def test_one_that_fails_for_a_reason(study, reproduce):
    home = study(FALSE)
    reproduce("own", "--part", "main")
    (loss,) = told(home)["claims"][-1]["values"]
    assert loss > 1e-6
    study(FALSE + MARK.format(loss))
    status, out, _ = reproduce("own", "--part", "main", "--keep")
    assert status == 0
    assert "not reproduced: other data" in out
    study(FALSE + MARK.format(1.02 * loss))  # the mark has drifted by 2 %
    status, out, _ = reproduce("own", "--part", "main", "--keep")
    assert status == 1
    assert "drifted" in out
    study(FALSE.replace("1.0e-6", "1.0e+6") + MARK.format(loss))  # it begins to hold
    status, out, _ = reproduce("own", "--part", "main", "--keep")
    assert status == 1
    assert "holds now" in out


@pytest.mark.usefixtures("no_page")
def test_what_is_recorded_is_kept_when_asked(study, reproduce):
    home = study()
    reproduce("own")
    table = home / "main" / "fast-seed0" / "rounds.parquet"
    before = table.stat().st_mtime_ns
    study(FALSE)
    status, out, _ = reproduce("own", "--keep")
    assert (status, table.stat().st_mtime_ns) == (1, before)
    assert "0 of them to resume" in out
    assert [claim["holds"] for claim in told(home)["claims"]] == [True, True, False]
    study(FALSE, ("Two steps.", "Two steps, in other words."))
    status, out, _ = reproduce("own", "--keep")
    assert (status, table.stat().st_mtime_ns) == (1, before)
    assert "0 of them to resume" in out
    # what was recorded is of another length, so that it is moved aside
    status, out, _ = reproduce("own", "--keep", "--full", "--part", "main")
    assert "6 rounds" in out
    assert (home / "main.1").is_dir()
    assert told(home)["length"] == "full"


@pytest.mark.usefixtures("no_page")
def test_a_part_alone_is_judged_with_what_others_recorded(study, reproduce):
    home = study()
    reproduce("own")
    assert reproduce("own", "--part", "sweep")[0] == 0
    assert [claim["status"] for claim in told(home)["claims"]] == ["undecided", "undecided"]


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize("missing", [DataMissing, LibraryMissing])
def test_what_is_missing_on_this_machine(missing, study, reproduce, monkeypatch):
    home = study()

    def lacks(*_):
        raise missing("problem.dataset", "'x' is not at hand")

    monkeypatch.setattr("rayfed.api.prepare", lacks)
    status, out, err = reproduce("own", "--part", "main")
    assert status == 1
    assert "main was left out: 'x' is not at hand" in err
    assert told(home)["missing"] == {"main": "'x' is not at hand"}
    assert "2 claims: 2 not checked" in out


DIVERGES = """
  - says: "Too large a step diverges."
    where: "text"
    check: {diverges: [{of: fast}]}
"""
MARKED = """
  - says: "Even a large step is right."
    where: "text"
    check: {value: {column: loss, of: fast, at: last}, below: 9}
    because: "it diverges"
    measured: {equals: diverges}
"""
WILD = ('"Two steps.",', '"Two steps.", set: {rounds: 400, algorithms.1.local.lr: 90},')


@pytest.mark.usefixtures("no_page")
@pytest.mark.parametrize(("claim", "holds"), [(DIVERGES, True), (MARKED, False)])
def test_a_run_that_failed_counts_unless_a_claim_expects_it(study, reproduce, claim, holds):
    home = study(claim, WILD)
    status, _, err = reproduce("own", "--part", "main")
    assert (status, err) == (1, "")  # what it was to be compared with is lost
    assert [claim["holds"] for claim in told(home)["claims"]] == [False, None, holds]
    assert "is not finite" in told(home)["claims"][-1]["measured"]
    study("", WILD)
    status, _, err = reproduce("own", "--part", "main", "--keep")
    assert status == 1
    assert err.startswith("main: fast 0 failed: round")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("of: slow,", "of: slwo,"), "claims.0.check.descending.0.of: unknown label 'slwo'; did"),
        (("of: slow, ", ""), "claims.0.check.descending.0.of: is missing; give one of: slow"),
        (("setting: lr=0.1,", ""), "claims.1.check.descending.1.setting: is missing; give one"),
        (("setting: lr=0.1,", "setting: lr=1,"), "claims.1.check.descending.1.setting: unknown"),
        (("column: loss, of", "column: lost, of"), "claims.0.check.descending.0.column: unknown"),
        (("column: loss, of", "column: loss_gap, of"), "claims.0.check.descending.0.column: found"),
        (
            ("column: loss, of: slow, at: last", "energy_to: {loss: 1}, of: slow"),
            "claims.0.check.descending.0.energy_to: no energy is recorded; set clients.energy",
        ),
        (("of: slow, at: last", "of: slow, at: 9"), "claims.0.check.descending.0.at: found 9; it"),
        (("of: slow, at: last", "of: slow, at: 3"), "claims.0.check.descending.0.at: found 3; it"),
        (("of: slow, at", "of: slow, seed: 2, at"), "claims.0.check.descending.0.seed: found 2"),
        (("full: {rounds: 6}", "set: {rounds: x}"), "parts.main: rounds: found 'x'"),
        (("algorithms: [slow]", "algorithms: [slo]"), "parts.sweep: algorithms: unknown label"),
        (("algorithms: [slow]", "scenario: no.yaml"), "parts.sweep: scenarios/no.yaml: cannot be"),
    ],
)
def test_claims_about_what_is_not_there_are_refused_before_anything_runs(
    study, reproduce, change, line
):
    home = study("", change)
    status, out, err = reproduce("own")
    assert (status, out) == (2, "")
    assert err.startswith(f"rayfed: scenarios/own.claims.yaml: {line}")
    assert err.count("\n") == 1
    assert not home.exists()


def test_the_studies_are_listed(study, monkeypatch, capsys):
    study()
    cli.reproduce.reproduce(None)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:4] == ["own", "main,", "sweep", "2"] for line in lines)
    listed = {line.split()[0] for line in lines if line[:1].strip()}
    assert known().keys() <= listed  # no name is cut, however narrow the terminal


def test_a_study_is_found_by_its_name_and_by_its_files(study, reproduce):
    study()
    for name in ("own", "scenarios/own.yaml", "scenarios/own.claims.yaml"):
        assert find(name).name == "own"
    with pytest.raises(ScenarioError, match="unknown study 'onw'; did you mean 'own'"):
        find("onw")
    status, _, err = reproduce("scenarios/other.yaml")
    assert status == 2
    assert err.startswith("rayfed: scenarios/other.claims.yaml: cannot be read")
    assert reproduce("own", "--part", "mian")[0] == 2


def test_all_studies_in_one_table(study, reproduce, no_page, monkeypatch, tmp_path):
    mark = '"\n    measured: {equals: 0.05, factor: 1000}\n    because: "it is slow'
    study(FALSE.replace("table 3", f"table 3{mark}"))
    others = tmp_path / "scenarios"
    (others / "two.yaml").write_text(SCENARIO)
    (others / "two.claims.yaml").write_text(CLAIMS + FALSE + LONG)
    paths = {name: others / f"{name}.claims.yaml" for name in ("own", "two")}
    monkeypatch.setattr("rayfed.reproduce.studies.known", lambda: paths)
    status, text, _ = reproduce("--all", "--out", str(tmp_path / "out"))
    assert status == 1
    lines = [line.split() for line in text.splitlines()]
    (own,) = (line for line in lines if line[:1] == ["own"] and len(line) == 7)
    (two,) = (line for line in lines if line[:1] == ["two"] and len(line) == 7)
    assert own[2:] == ["0", "2", "1", "0", "0"]
    assert two[2:] == ["0", "2", "0", "1", "1"]
    assert "it is slow" in text
    assert "2 studies, 4 undecided, 1 not reproduced, 1 fails, 1 not run;" in text
    written = json.loads((tmp_path / "out" / "all.json").read_text())
    assert written["counts"] == {"undecided": 4, "not reproduced": 1, "fails": 1, "not run": 1}
    assert [each["study"] for each in written["studies"]] == ["own", "two"]
    assert written["seconds"] >= sum(each["seconds"] for each in written["studies"]) - 0.2
    assert written["versions"]["numpy"] == np.__version__
    assert written["wall_s"] > 0
    assert written["processor"]
    data = [each["data"]["main"] for each in written["studies"]]
    assert data[0] == data[1]  # the same scenario
    assert data[0] == {"dataset": "linear", "rows": 0, "digest": ""}  # rows are made on demand
    assert any((tmp_path / "out" / "two" / "main").glob("*/rounds.parquet"))


def test_one_study_is_brought_up_to_date_in_the_table_of_all(study, reproduce, no_page, tmp_path):
    home = study(FALSE + LONG)
    table = tmp_path / "all.json"
    gone = {"says": "Gone.", "status": "holds"}
    later = {"says": "Later.", "status": "holds", "measured": "3", "over": "2 seeds"}
    was = {"says": "Slow ends below a millionth.", "status": "holds"}
    data = {"main": {"rows": 3}, "gone": {"rows": 4}, "sweep": {"rows": 5}}
    old = {"study": "own", "seconds": 7.0, "claims": [gone, later, was], "data": data}
    other = {"study": "zz", "seconds": 5.0, "claims": [{"status": "holds"}]}
    table.write_text(json.dumps({"commit": "then", "seconds": 12.0, "studies": [other, old]}))
    assert reproduce("own", "--update", str(table))[0] == 1  # as without
    found = json.loads(table.read_text())
    own, kept = found["studies"]
    assert kept == other
    assert found["commit"] == "then"
    assert found["counts"] == {"holds": 2, "undecided": 2, "fails": 1}
    assert own["versions"]["numpy"] == np.__version__
    assert [claim["says"] for claim in own["claims"]][2:] == [was["says"], later["says"]]
    assert own["claims"][2]["status"] == "fails"
    assert own["claims"][3] == later  # about the other length: it stays
    assert found["seconds"] == pytest.approx(5 + own["seconds"])
    assert list(own["data"]) == ["main", "sweep"]
    assert own["data"]["sweep"] != data["sweep"]
    assert reproduce("own", "--part", "main", "--update", str(table))[0] == 1
    again = json.loads(table.read_text())["studies"][0]
    assert again["data"] == own["data"]
    assert [each["says"] for each in again["claims"]] == [each["says"] for each in own["claims"]]
    assert "not run" not in {each["status"] for each in again["claims"]}
    shutil.rmtree(home)
    status, _, err = reproduce("own", "--part", "main", "--update", str(table), "--quiet")
    assert (status, "was not run" in err) == (1, False)
    alone = json.loads(table.read_text())["studies"][0]["claims"]
    assert alone == again["claims"]  # also that of the part which has no record
    table.write_text(json.dumps({"studies": [{**old, "claims": []}], "seconds": 0.0}))
    reproduce("own", "--part", "main", "--update", str(table))
    first = json.loads(table.read_text())["studies"][0]["claims"]
    assert [each["part"] for each in first if each["status"] == "not run"] == ["sweep", "main"]


def test_what_is_no_table_of_all_is_refused_before_anything_runs(study, reproduce, tmp_path):
    home = study()
    for text in (None, "[]", "{", '{"studies": 3}'):
        if text is not None:
            (tmp_path / "all.json").write_text(text)
        status, _, err = reproduce("own", "--update", "all.json")
        assert (status, err) == (
            2, "rayfed: all.json: is no all.json, which rayfed reproduce --all writes\n"
        )  # fmt: skip
    for words in (["--all"], []):
        status, _, err = reproduce(*words, "--update", "all.json")
        assert (status, err) == (2, "rayfed: --update: is for one study\n")
    assert not home.exists()


def test_all_takes_no_study(study, reproduce):
    study()
    status, _, errors = reproduce("own", "--all")
    assert status == 2
    assert "--all" in errors


def test_a_verdict_says_over_how_many_seeds(study, reproduce, no_page):
    home = study(change=("full: {rounds: 6}", "set: {seeds: [0, 1, 2]}"))
    _, text, _ = reproduce("own")
    (fast, more) = told(home)["claims"]
    assert (fast["seeds"], fast["over"], more["seeds"], more["over"]) == (
        3,
        "3 seeds",
        1,
        "one seed",
    )
    each = np.array([fast["each"][seed] for seed in "012"])
    assert each.mean(axis=0) == pytest.approx(fast["values"])
    assert len(set(each[:, 0])) == 3  # other data
    assert "3 seeds" in text
    assert "one seed" in text


LONG = """
  - says: "Later."
    where: "table 4"
    only: full
    check: {value: {column: loss, of: slow, at: 6}, above: 0}
"""


@pytest.mark.usefixtures("no_page")
def test_claims_about_the_other_length_are_not_run(study, reproduce):
    home = study(LONG)
    status, out, _ = reproduce("own")
    assert status == 0
    assert "3 claims: 2 undecided, 1 not run" in out
    assert told(home)["claims"][-1]["status"] == "not run"
    assert told(home)["claims"][-1]["values"] == []
    assert reproduce("own", "--full")[0] == 0
    states = [claim["status"] for claim in told(home)["claims"]]
    assert states == ["undecided", "undecided", "holds"]


@pytest.mark.usefixtures("no_page")
def test_a_short_part_says_what_it_lacks(study, reproduce):
    full = "full: {rounds: 6, problem.dataset.samples: 50, algorithms.*.local.lr: 0.02}"
    home = study("stands_in: tin for gold\n", change=("full: {rounds: 6}", full))
    _, out, _ = reproduce("own")
    lacks = ["tin for gold", "4 of 6 rounds", "dataset.samples 5 in place of 50"]
    assert [claim["rests_on"] for claim in told(home)["claims"]] == [lacks, lacks[:1]]
    assert "tin for gold; 4 of 6" in " ".join(out.split())
    reproduce("own", "--full")
    assert [claim["rests_on"] for claim in told(home)["claims"]] == [lacks[:1]] * 2


@pytest.mark.usefixtures("no_page")
def test_a_study_of_which_a_run_was_stopped_has_not_held(study, reproduce, monkeypatch):
    """Somebody stops a run from the dashboard: what it has recorded is no result of the study."""
    home, execute = study(), studies.execute

    def stopped(study, part, *rest):
        result = execute(study, part, *rest)
        if part == "main":
            path = next(study.folder(part).glob("*/run.json"))
            record = json.loads(path.read_text()) | {"status": "running"}
            path.write_text(json.dumps(sealed(record)))
        return result

    monkeypatch.setattr(studies, "execute", stopped)
    for words in ((), ("--part", "main")):
        status, _, _ = reproduce("own", *words)
        assert status == 1
        assert "not checked" in [claim["status"] for claim in told(home)["claims"]]


OF_METRICS = """
source: "A. Author, Title, 2024"
parts: {main: {about: "Own code."}}
claims:
  - says: "The score gets there."
    where: "table 1"
    check: {value: {rounds_to: {f1: 0.8}}, below: 3}
  - says: "Its local score is high."
    where: "table 1"
    check: {value: {column: train_f1, at: last}, above: 0.8}
"""


def test_claims_may_be_about_metrics_of_own_code(study, tmp_path):
    study()
    scenario = yaml.safe_load(SCENARIO) | {
        "problem": {
            "name": "own-code", "code": "rayfed.testing.own_code", "metrics": {"f1": "higher"},
        },
        "algorithms": [
            {"name": "fedavg", "local": {"name": "own-train", "metrics": {"f1": "higher"}}}
        ],
    }  # fmt: skip
    claims = tmp_path / "scenarios" / "own.claims.yaml"
    (tmp_path / "scenarios" / "own.yaml").write_text(yaml.safe_dump(scenario))
    claims.write_text(OF_METRICS)
    find(str(claims)).check()
    claims.write_text(OF_METRICS.replace("train_f1", "train_f2"))
    with pytest.raises(ScenarioError, match="unknown column 'train_f2'"):
        find(str(claims)).check()
