"""Participation of single algorithms: their keys over the study's, one by one."""

import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.engine.settings import Participation
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.settings import SettingsPanel
from rayfed.report.read.results import Results
from rayfed.selection import All, PowerOfD, UniformSelection
from rayfed.study import Study, expand

SLOW = {"name": "constant", "mean_s": 3}


def study(*algorithms, **changes):
    """Return a scenario of four clients whose steps take one second, and three seconds for one."""
    return {
        "rounds": 2,
        "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
        "clients": {"count": 4, "groups": [{"ids": [3], "delay": SLOW}]},
        "participation": {"cohort": 3, "retries": 1, "timeout_s": 50},
        "algorithms": list(algorithms),
        "executor": "serial",
    } | changes  # fmt: skip


def fedavg(label="fedavg", **keys):
    return {"name": "fedavg", "label": label, "local": {"steps": 2}, **keys}


def wrong(*algorithms, **changes):
    """Return the one line that a scenario ends in."""
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(study(*algorithms, **changes)))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_keys_of_an_algorithm_replace_the_studys_one_by_one():
    own = {
        "deadline_s": 5,
        "retries": 0,
        "timeout_s": None,
        "select": {"name": "power-of-d", "d": 4},
    }
    made = Study.parse(study(fedavg(participation=own), fedavg("other")))
    assert made.participation_of(0) == Participation(cohort=3, deadline_s=5.0, select=PowerOfD(d=4))
    assert made.participation_of(1) == Participation(cohort=3, retries=1, timeout_s=50.0)


def test_a_selection_of_all_takes_no_cohort_from_the_study():
    made = Study.parse(study(fedavg(participation={"select": "all"})))
    assert made.participation_of(0).select == All()
    assert made.participation_of(0).cohort is None


def test_rounds_with_a_deadline_beside_an_asynchronous_method(tmp_path):
    """Two steps take 2 s, and 6 s for client 3, which a deadline of 4 s leaves behind."""
    waits = fedavg("waits", participation={"select": "all"})
    ends = fedavg("ends", participation={"select": "all", "deadline_s": 4})
    fedbuff = {
        "name": "fedbuff",
        "buffer": 1,
        "local": {"steps": 2},
        "participation": {"select": "all"},
    }
    result = rayfed.run(study(waits, ends, fedbuff), out=tmp_path / "out", page=False)
    assert set(result.outcome.values()) == {"finished"}
    last = result.rounds.groupby("label").last()
    assert last.time_s.to_dict() == {"waits": 12.0, "ends": 8.0, "fedbuff": 2.0}
    assert last.late.to_dict() == {"waits": 0, "ends": 1, "fedbuff": 0}


def test_what_an_algorithm_says_by_itself_is_what_the_study_says(tmp_path):
    own = study(fedavg(participation={"cohort": 2, "over_select": 1.5, "deadline_s": 4}))
    whole = study(
        fedavg(), participation=own["participation"] | own["algorithms"][0]["participation"]
    )
    first, second = (
        rayfed.run(raw, out=tmp_path / name, page=False) for name, raw in (("a", own), ("b", whole))
    )
    assert first.rounds.equals(second.rounds)
    assert first.events.equals(second.events)


@pytest.mark.parametrize(
    ("own", "line"),
    [
        ({"deadline": 5}, "participation.deadline: unknown key 'deadline'; did you mean"),
        ({"deadline_s": -5}, "participation.deadline_s: found -5; it should be greater than 0"),
        ({"select": "unifrom"}, "participation.select: unknown selection 'unifrom'"),
        ({"select": {"name": "power-of-d", "e": 3}}, "participation.select.e: unknown key 'e'"),
        (3, "participation: found 3; give a mapping of cohort, select,"),
        ({"cohort": 5}, "participation.cohort: found 5, but there are 4 clients"),
        ({"minimum": 5}, "participation.minimum: found 5, but there are 4 clients"),
        ({"select": "all", "cohort": 2}, "participation.cohort: found 2, but select takes all"),
        ({"select": "walk"}, "participation.select: 'walk' needs a graph of clients, but"),
        ({"correct": "known", "timeout_s": 9}, "participation.correct: correct: known needs"),
    ],
)  # fmt: skip
def test_mistakes_are_told_where_they_stand(own, line):
    assert wrong(fedavg("a"), fedavg("b", participation=own)).startswith(f"algorithms.1.{line}")


def test_what_the_study_says_is_told_there():
    fedbuff = {"name": "fedbuff", "participation": {"cohort": 2}}
    rounds = {"cohort": 3, "deadline_s": 5}
    assert wrong(fedbuff, participation=rounds).startswith(
        "participation.deadline_s: deadline_s: 5"
    )
    ends = {**fedbuff, "participation": {"deadline_s": 5}}
    assert wrong(ends).startswith("algorithms.0.participation.deadline_s: deadline_s: 5")
    free = {**fedbuff, "participation": {"deadline_s": None}}
    assert api.prepare(api.read(study(free, participation=rounds))).runs


def test_grids_reach_it():
    grid = {"algorithms.*.participation.deadline_s": [4, 8]}
    made = dict(expand(study(fedavg(participation={"cohort": 2}), grid=grid)))
    assert [one.participation_of(0).deadline_s for one in made.values()] == [4, 8]
    assert {one.participation_of(0).cohort for one in made.values()} == {2}
    own = dict(expand(study(fedavg(grid={"participation.cohort": [1, 2]}))))
    assert {name: one.participation_of(0).cohort for name, one in own.items()} == {
        "cohort=1": 1, "cohort=2": 2,
    }  # fmt: skip
    shared = dict(
        expand(study(fedavg(participation={"retries": 0}), grid={"participation.cohort": [1, 2]}))
    )
    assert [one.participation_of(0).cohort for one in shared.values()] == [1, 2]


def test_it_is_written_back_and_shown(tmp_path):
    raw = study(fedavg(participation={"deadline_s": 4, "select": "uniform"}), fedavg("other"))
    made = Study.parse(raw)
    assert Study.parse(made.to_dict()) == made
    assert made.algorithms[0].participation == {"deadline_s": 4.0, "select": UniformSelection()}
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    settings = dict(SettingsPanel(PageSource.of(Results.read(result.folder))).settings)
    assert "participation.deadline_s=4.0" in settings["fedavg"]
    assert "participation" not in settings["other"]


def test_the_schema_knows_its_keys(validator):
    def mistakes(own):
        raw = study(fedavg(participation=own), name="own")
        return [error.json_path for error in validator.iter_errors(raw)]

    assert mistakes({"deadline_s": 5, "select": {"name": "power-of-d", "d": 3}}) == []
    assert mistakes({"deadline": 5})
    assert mistakes({"deadline_s": -1})
