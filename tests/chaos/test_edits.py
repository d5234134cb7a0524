"""What is changed before a resume, and what the campaign notices of it."""

from pathlib import Path

import pytest
import yaml

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.testing.studies import mixed
from tests.chaos.dice import Dice
from tests.chaos.edits import EDITS, EXTENSIONS, Begun, Edit, resume_edited
from tests.chaos.faults import Attempt
from tests.chaos.own import table_file
from tests.fakes.disk import Disk

PAST_THE_END = 0.9


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Two methods on rows of a table, with two seeds."""
    path = table_file(Dice(3), 13, tmp_path_factory.mktemp("table"), classes=3)
    local = {"steps": 2, "batch": 4}
    made = mixed(rounds=4, seeds=[1, 2], algorithms=[{"name": "fedavg", "local": local}])
    made["problem"]["dataset"] = path
    return api.prepare(api.read(made))


@pytest.fixture(scope="module")
def calm(plan, tmp_path_factory):
    attempt = Attempt(plan, api.begin(plan, tmp_path_factory.mktemp("calm") / "out"), 0)
    disk = Disk()
    with disk.patched():
        attempt.execute()
    return attempt.folder, disk.count


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_changes_something_and_is_undone(plan, calm, kind, tmp_path):
    _, operations = calm
    study = Begun(plan, api.begin(plan, tmp_path / "study"), tmp_path / "aside")
    Attempt(plan, study.folder, operations).execute()
    table = Path(plan.study.given()["problem"]["dataset"])

    def held():
        found = {p: p.read_bytes() for p in study.folder.rglob("*") if p.is_file()}
        return found | {table: table.read_bytes()}

    before = held()
    undo = EDITS[kind](study, Dice(4))
    assert held() != before
    undo()
    assert held() == before


@pytest.mark.parametrize("stop", [0.6, pytest.param(PAST_THE_END, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", EDITS)
def test_no_edit_goes_by_unnoticed(plan, calm, kind, stop, tmp_path):
    folder, operations = calm
    became, wrong = resume_edited(plan, folder, tmp_path / "home", Edit(kind, stop, 4), operations)
    assert wrong == []
    assert became == ("taken" if kind in EXTENSIONS else "refused")


def test_results_of_other_inputs_are_noticed(plan, calm, tmp_path, monkeypatch):
    """Here the resume looks at the scenario, and goes on as if nothing were changed."""
    folder, operations = calm

    def ignore(folder, watch=None, *, accept=False):
        Attempt(plan, folder, operations).execute()

    monkeypatch.setattr("tests.chaos.edits.resumed", ignore)
    _, wrong = resume_edited(plan, folder, tmp_path / "a", Edit("value", 0.4, 4), operations)
    assert "are different" in wrong[0]


def test_a_refusal_that_changes_files_or_comes_too_often_is_noticed(
    plan, calm, tmp_path, monkeypatch
):
    folder, operations = calm

    def refuse(folder, watch=None, *, accept=False):
        if yaml.safe_load((folder / "scenario.yaml").read_text())["rounds"] != 4:
            (folder / "summary.csv").write_text("")
            raise ScenarioError("rounds", "Traceback")
        Attempt(plan, folder, operations).execute()

    monkeypatch.setattr("tests.chaos.edits.resumed", refuse)
    _, wrong = resume_edited(plan, folder, tmp_path / "a", Edit("more", 0.4, 4), operations)
    assert wrong == [
        "a refusal speaks of its programs: rounds: Traceback",
        "a refused resume changed summary.csv",
        "it was refused",
    ]


def test_a_mistake_need_not_be_accepted(plan, calm, tmp_path, monkeypatch):
    folder, operations = calm
    monkeypatch.setitem(EDITS, "value", lambda study, _: study.write(study.scenario() | {"x": 1}))
    became, wrong = resume_edited(plan, folder, tmp_path / "a", Edit("value", 0.4, 4), operations)
    assert (became, wrong) == ("refused", [])
