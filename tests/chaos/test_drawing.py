"""What is drawn: from a seed alone, within the bounds of the types, of every plug-in."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic import ValidationError

from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.core.plugins import KINDS, find
from rayfed.study.scenario.fields import model_of
from tests.chaos.__main__ import main
from tests.chaos.case import Case, Outcome
from tests.chaos.dice import Dice, Settings
from tests.chaos.shrink import shrunk
from tests.chaos.tables import ALWAYS, EXCLUSIVE, FETCHED, SKIPPED, table, weights
from tests.chaos.words import reason_of, wordy


def test_a_seed_draws_one_case(tmp_path):
    first, second = (Case.drawn(seed, tmp_path) for seed in (5, 5))
    assert first == second
    assert first != Case.drawn(6, tmp_path)


def mistypes(cls, settings):
    """Return the types of pydantic's errors; "scenario" is that of settings that do not fit."""
    found = {}
    try:
        model_of(cls).model_validate(settings)
    except ValidationError as error:
        for wrong in error.errors():
            found.setdefault(wrong["loc"][:1], set()).add(wrong["type"])
    for of_setting in found.values():  # what does not fit is no word either, where one may stand
        of_setting -= {"literal_error"} if "scenario" in of_setting else set()
    return set().union(*found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_of_their_types(kind, tmp_path):
    """Settings that do not go together are for `check`; each by itself is allowed."""
    for seed in range(5):
        dice, how = Dice(seed), {"always": ALWAYS, "one_of": EXCLUSIVE, "changed": 0.5}
        settings = Settings(dice, table(5, tmp_path), tmp_path, skipped=SKIPPED, **how)
        for name, cls in find(kind).items():
            if name != "flower":  # it takes an app
                assert mistypes(cls, settings.of(cls)) <= {"scenario"}, cls


def test_every_plugin_has_a_weight_that_exists():
    names = {name for kind in KINDS for name in find(kind)} | {"network"}
    assert set(weights()) <= names
    assert set(FETCHED) <= names


def test_numbers_stay_in_their_range():
    dice = Dice(1)
    assert all(0.5 <= dice.number(0.5, 0.500001) <= 0.500001 for _ in range(20))
    assert {dice.whole(2, 4) for _ in range(60)} == {2, 3, 4}
    assert all(-1 <= dice.number(-1, 1) <= 1 for _ in range(20))


def test_a_refusal_of_many_lines_or_words_is_noticed():
    assert list(wordy(ScenarioError("rounds", "found 0; it should be at least 1"))) == []
    assert list(wordy(ScenarioError("rounds", "ValidationError of pydantic")))
    assert list(wordy(RunFailed("one\ntwo")))


def test_a_refusal_may_quote_the_error_of_a_module():
    quoted = "'Net' cannot be made: TypeError: empty(): argument 'size' is a str (net.py:3)"
    assert list(wordy(ScenarioError("problem.model", quoted))) == []
    assert list(wordy(ScenarioError("problem.model", f"TypeError: {quoted}")))
    seeds = [ScenarioError(f"seeds.{n}", f"found {n}; give each seed once") for n in (1, 2)]
    assert len(set(map(reason_of, seeds))) == 1


def test_a_case_shrinks_to_what_its_finding_needs(tmp_path, monkeypatch):
    case = Case.drawn(5, tmp_path)

    def run_case(case: Case, folder: Path) -> Outcome:
        found = "rounds" in case.scenario and "name" in case.scenario.get("problem", {})
        return Outcome(case.seed, findings=[("found", "it")] if found else [])

    monkeypatch.setattr("tests.chaos.shrink.run_case", run_case)
    smaller = shrunk(case, "found")
    assert smaller.scenario == {
        "rounds": case.scenario["rounds"], "problem": {"name": case.scenario["problem"]["name"]}
    }  # fmt: skip
    assert smaller.faults == ()


def test_a_case_of_nodes_shrinks_to_the_changes_that_its_finding_needs(monkeypatch, capsys):
    with TemporaryDirectory() as folder:
        drawn = Case.drawn(5, Path(folder), nodes=True).changes
    kind = drawn[-1].kind
    assert len(drawn) > 1

    def run_case(case: Case, folder: Path) -> Outcome:
        found = any(change.kind == kind for change in case.changes)
        return Outcome(case.seed, findings=[("nodes", "other bytes")] if found else [])

    for module in ("case", "shrink"):
        monkeypatch.setattr(f"tests.chaos.{module}.run_case", run_case)
    assert main(["--seed", "5", "--nodes", "--shrink"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "# nodes: other bytes", "{}", "", "# faults: none", f"# changes of nodes: {drawn[-1]}",
        "# edit: none", "# machines at a URL: none", "# combination: none",
    ]  # fmt: skip
