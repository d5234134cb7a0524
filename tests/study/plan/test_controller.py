"""Changes of settings during a run: refusals, and values that change nothing."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.channel import Krum
from rayfed.core.errors import ScenarioError
from rayfed.runs.resume import decisive
from rayfed.study import Study, expand
from rayfed.study.plan.controller import changed, replayed
from rayfed.testing.toy import toy_scenario


def planned(**more):
    """Return the study of a toy scenario, and its runs."""
    study = Study.parse(toy_scenario() | {"algorithms": ["fedavg"], **more})
    return study, api.prepare(study).runs


TOP = {"name": "top-k", "share": 0.5, "memory": "ef21"}
SECURE = [{"name": "clip", "norm": 1.0}, {"name": "secure-sum", "range": 1.0, "bits": 20}]
EQUAL = {"name": "fedavg", "weights": "uniform"}
COHORT = {"clients": {"count": 6}, "participation": {"cohort": 2}}
REFUSED = [
    ({}, {"codec": "top-k"}, r"change\(codec\): unknown setting 'codec'; known: aggregate, cohort"),
    ({}, {"cohort": "four"}, r"change\(cohort\): found 'four'; give a number"),
    ({}, {"cohort": True}, r"change\(cohort\): found True; give a number"),
    ({}, {"cohort": 7}, "participation.cohort: found 7, but there are 6 clients"),
    ({}, {"cohort": 0}, "participation.cohort: found 0"),
    ({}, {"deadline_s": -1.0}, "participation.deadline_s: found -1"),
    ({}, {"aggregate": "mediam"}, r"algorithms\.0\.aggregate: unknown aggregator 'mediam'"),
    ({}, {"aggregate": {"name": "krum", "f": -1}}, r"algorithms\.0\.aggregate\.f: found -1"),
    ({}, {"aggregate": "os:system"}, r"change\(aggregate\): found os:system, code of your own"),
    ({}, {"aggregate": {"name": "median", "before": {"name": "a:B"}}}, "code of your own"),
    ({}, {"uplink": ["os:system"]}, r"change\(uplink\): found .*os:system.*, code of your own"),
    ({}, {"uplink": [TOP]}, "has stages with memories"),
    ({"uplink": [TOP]}, {"uplink": ["sign"]}, "has stages with memories"),
    ({"uplink": [TOP]}, {"uplink": None}, "has stages with memories"),
    ({"algorithms": [EQUAL]}, {"uplink": SECURE}, "has secure sums"),
    ({"algorithms": [EQUAL], "uplink": SECURE}, {"uplink": []}, "has secure sums"),
    ({"algorithms": ["fedvarp"]}, {"aggregate": "median"}, r"algorithms\.0\.aggregate: "),
    ({"algorithms": ["fedbuff"]}, {"aggregate": "median"}, "has no rounds"),
    (
        {"participation": {"cohort": 2, "deadline_s": 2, "late": "stale"}},
        {"uplink": ["sign"]},
        "has late uploads of the stages before",
    ),
    ({}, {"lr": 0}, "local.lr: found 0"),
    ({}, {"lr": None}, "local.lr: found nothing"),
    ({"algorithms": ["gradient-descent"]}, {"lr": 0.2}, "takes no local steps"),
    ({"algorithms": ["proxskip"], "participation": {}}, {"lr": 0.2}, r"algorithms\.0\.local: "),
    ({"algorithms": ["proxskip"], "participation": {}}, {"cohort": 3}, "needs all clients in ev"),
    ({"algorithms": ["centralised"], "participation": {}}, {"cohort": 2}, "has no cohorts"),
    ({"algorithms": ["fedbuff"]}, {"cohort": 3}, "has no rounds"),
    ({"algorithms": ["fedbuff"]}, {"deadline_s": 3.0}, "has no rounds"),
    ({"algorithms": ["fedbuff"]}, {"lr": 0.2}, "has no rounds"),
    (
        {"algorithms": ["d-psgd"], "participation": {}, "topology": "ring"},
        {"cohort": 3},
        "has no cohorts",
    ),
    (
        {"uplink": [{"name": "clip", "norm": 1.0}], "privacy": {"noise": 1.0, "delta": 1e-5},
         "algorithms": [{"name": "fedavg", "weights": "uniform"}],
         "participation": {"cohort": 2, "select": "poisson"}},
        {"cohort": 3},
        "has noise for one cohort",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("more", "values", "message"), REFUSED)
def test_refusals(more, values, message):
    if "privacy" in more:
        pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    study, (run, *_) = planned(**{**COHORT, **more})
    with pytest.raises(ScenarioError, match=message) as refused:
        changed(study, run, 3, values)
    assert "\n" not in str(refused.value)


def test_a_value_that_holds_already_is_no_change():
    study, (run, *_) = planned(**COHORT, algorithms=[EQUAL])
    assert changed(study, run, 3, {"cohort": np.int64(2), "deadline_s": None}) == (run, [])
    made, noted = changed(study, run, 3, {"cohort": 4, "deadline_s": None})
    assert (made.participation.cohort, [entry["key"] for entry in noted]) == (
        4, ["participation.cohort"],
    )  # fmt: skip
    assert changed(study, made, 5, {"cohort": 4}) == (made, [])
    robust, noted = changed(study, made, 6, {"aggregate": {"name": "krum", "f": 1}})
    assert (robust.participation.cohort, robust.channel.since) == (4, 6)
    assert [(entry["from"], entry["to"]["name"]) for entry in noted] == [(None, "krum")]
    assert changed(study, robust, 7, {"aggregate": Krum(f=1), "uplink": []}) == (robust, [])


def test_a_record_is_replayed_as_it_was_made():
    study, (run, *_) = planned(**COHORT, algorithms=[EQUAL])
    rule = {"aggregate": {"name": "median", "before": {"name": "buckets", "size": 2}}}
    first, noted = changed(study, run, 2, {"cohort": 4, "deadline_s": 5.0, "lr": 0.3, **rule})
    second, more = changed(
        study, first, 4, {"lr": 0.2, "uplink": [{"name": "rand-k", "share": 0.5}]}
    )
    noted, more = json.loads(json.dumps([noted, more]))
    held = {**run.record, "changes": [*noted, *more]}
    (again,) = replayed(study, [replace(run, record=held)])
    assert [after for after, _ in again.later] == [2, 4]
    for (_, made), live in zip(again.later, (first, second), strict=True):
        assert made.participation == live.participation
        assert made.channel == live.channel
        assert made.training.solvers == live.training.solvers
    rates = [again.later[-1][1].training.algorithm.local.rate(r) for r in (2, 3, 4, 5)]
    assert rates == [run.training.algorithm.local.rate(1), 0.3, 0.3, 0.2]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"to": 70}, "changed after round 2: .* there are 6 clients"),
        ({"key": "participation.select"}, "unknown setting 'participation.select'"),
        ({"key": "local.lr", "to": {"name": "os:system"}}, "give a number"),
        ({"key": "uplink", "to": [{"name": "os:system"}]}, "code of your own"),
    ],
)
def test_a_damaged_record_is_refused(entry, message):
    study, (run, *_) = planned(**COHORT)
    _, (noted,) = changed(study, run, 2, {"cohort": 4})
    held = {**run.record, "changes": [{**noted, **entry}]}
    with pytest.raises(ScenarioError, match=message):
        replayed(study, [replace(run, record=held)])


def test_groups_with_a_rate_of_their_own_retain_it():
    groups = [{"count": 2, "local": {"lr": 0.7}}, {"count": 2, "local": {"steps": 2}}]
    study, (run, *_) = planned(clients={"count": 6, "groups": groups})
    ((_, study),) = expand(study)
    made, _ = changed(study, run, 3, {"lr": 0.25})
    assert [solver.rate(4) for solver in made.training.solvers] == [0.25, 0.7, 0.25]
    assert [solver.rate(3) for solver in made.training.solvers] == [
        solver.rate(3) for solver in run.training.solvers
    ]


RULES = [
    {"column": "loss", "below": 1.5, "rounds": 2, "set": {"aggregate": "median", "cohort": 4}},
    {"column": "participants", "above": 3, "rounds": 3, "set": {"lr": 0.02, "uplink": ["sign"]}},
]


def scenario(**more):
    """Return a scenario of two algorithms that differ in their rules alone."""
    fixed = {**EQUAL, "label": "fixed"}
    slow = {"count": 6, "delay": {"name": "lognormal", "mean_s": 1.0}}
    return toy_scenario(
        fixed, {**EQUAL, "control": RULES},
        rounds=14, evaluate={"every": 2}, clients=slow, participation={"cohort": 2},
        executor="serial", **more,
    )  # fmt: skip


def loop(out):
    """Run the fixed algorithm in a loop that does what the rules say."""
    counts = [0, 0]
    given = scenario() | {"algorithms": [EQUAL]}
    for row in rayfed.iterate(given, out=out, page=False):
        for k, rule in enumerate(RULES):
            value = row[rule["column"]]
            if not np.isnan(value):
                met = value < 1.5 if k == 0 else value > 3
                counts[k] = counts[k] + 1 if met else 0
            if counts[k] >= rule["rounds"]:
                row.change(**rule["set"])


def changes_of(folder):
    noted = json.loads((folder / "fedavg-seed0" / "run.json").read_text())["changes"]
    return [[entry[key] for key in ("round", "key", "from", "to")] for entry in noted]


def test_rules_do_what_a_loop_does(tmp_path):
    made = rayfed.run(scenario(), out=tmp_path / "rules", page=False)
    loop(tmp_path / "loop")
    plain = rayfed.load(tmp_path / "loop").rounds
    rounds = made.rounds[made.rounds["label"] == "fedavg"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rounds.drop(columns="changes"), plain, check_exact=True)
    assert changes_of(tmp_path / "rules") == changes_of(tmp_path / "loop")
    when = {key: round for round, key, *_ in changes_of(tmp_path / "rules")}
    assert len(when) == 4
    assert 0 < when["aggregate"] == when["participation.cohort"] < when["local.lr"] < 14
    expected = [sum(round < r for round in when.values()) for r in range(15)]
    assert rounds["changes"].tolist() == expected
    fixed = made.rounds[made.rounds["label"] == "fixed"]
    assert fixed["changes"].isna().all()
    assert fixed["participants"].iloc[1:].eq(2).all()


@pytest.mark.guard
@pytest.mark.parametrize("leave", [1, 4, 6, 9, 12])
def test_a_controlled_run_is_resumed_to_the_same_bytes(tmp_path, assert_same, leave):
    """It is left before, at and after changes; the newest checkpoint is damaged the second time."""
    given = scenario(checkpoint={"every_s": 0})
    given["algorithms"] = given["algorithms"][1:]
    rayfed.run(given, out=tmp_path / "whole", page=False)
    for place in ("left", "damaged"):
        for row in rayfed.iterate(given, out=tmp_path / place, page=False):
            if row["round"] == leave:
                break
    (tmp_path / f"damaged/fedavg-seed0/checkpoint/server-{leave}.npz").write_bytes(b"")
    for place in ("left", "damaged"):
        rayfed.resume(tmp_path / place, page=False)
        assert_same(tmp_path / "whole", tmp_path / place)
        assert changes_of(tmp_path / place) == changes_of(tmp_path / "whole")


def test_a_loop_and_rules_change_one_run(tmp_path, assert_same):
    given = scenario()
    given["algorithms"] = given["algorithms"][1:]
    for place, leave in (("whole", None), ("left", 7)):
        for row in rayfed.iterate(given, out=tmp_path / place, page=False):
            if row["round"] in (2, 7):
                row.change(cohort=5)
                row.change(cohort=3, deadline_s=float(row["round"]))
            if row["round"] == leave:
                break
    rayfed.resume(tmp_path / "left", page=False)
    assert_same(tmp_path / "whole", tmp_path / "left")
    assert changes_of(tmp_path / "whole") == changes_of(tmp_path / "left")


def test_a_rule_that_was_taken_away_and_put_back_begins_anew_in_a_resume_too(tmp_path, assert_same):
    rule = {"name": "centred-clipping", "radius": 0.05}
    given = scenario() | {"rounds": 6, "algorithms": [{**EQUAL, "aggregate": rule}]}
    for place, leave in (("whole", None), ("left", 4)):
        for row in rayfed.iterate(given, out=tmp_path / place, page=False):
            if row["round"] == 3:
                row.change(aggregate=None)
                row.change(aggregate=rule)
            if row["round"] == leave:
                break
    rayfed.resume(tmp_path / "left", page=False)
    assert_same(tmp_path / "whole", tmp_path / "left")


@pytest.mark.parametrize(("before", "count"), [(1, 2), (2, 1)])
def test_a_resume_with_another_number_of_rules_counts_from_zero(tmp_path, before, count):
    rule = {"column": "loss", "above": -1.0, "rounds": 3, "set": {"deadline_s": 50.0}}
    given = scenario() | {"rounds": 8, "evaluate": {"every": 1}}
    given["algorithms"] = [{**EQUAL, "control": before * [rule]}]
    for row in rayfed.iterate(given, out=tmp_path / "left", page=False):
        if row["round"] == 2:
            break
    path = tmp_path / "left" / "scenario.yaml"
    held = yaml.safe_load(path.read_text())
    held["algorithms"][0]["control"] = [
        {**rule, "set": {"deadline_s": 60.0 + k}} for k in range(count)
    ]
    path.write_text(yaml.safe_dump(held))
    rayfed.resume(tmp_path / "left", page=False, accept_changes=True)
    found = [
        (at, to)
        for at, key, _, to in changes_of(tmp_path / "left")
        if not key.startswith("algorithms")
    ]
    assert found == [(5, 59.0 + count)]  # after rows 3, 4 and 5


RULE = {"column": "loss", "above": 1.0, "set": {"cohort": 3}}
MANY = [RULE | {"set": {"cohort": k, "lr": 0.1 * k}} for k in range(1, 9)]
BAD_RULES = [
    ([RULE | {"column": "los"}], r"algorithms\.0\.control\.0\.column: unknown column 'los'"),
    ([RULE | {"column": "label"}], "unknown column 'label'"),
    (
        [RULE | {"column": "accuracy"}],
        r"control\.0\.column: 'least-squares' predicts no classes here, so there is no accuracy",
    ),
    ([RULE | {"below": 0.5}], r"algorithms\.0\.control\.0: give one of above and below"),
    ([RULE | {"set": {}}], r"control\.0\.set"),
    ([RULE | {"rounds": 0}], r"control\.0\.rounds: found 0"),
    ([RULE | {"set": {"cohort": 7}}], r"algorithms\.0\.control: .*participation\.cohort: found 7"),
    ([RULE | {"set": {"codec": "sign"}}], r"control: change\(codec\): unknown setting 'codec'"),
    ([RULE | {"set": {"uplink": ["os:system"]}}], "code of your own"),
    (MANY, "found 81 combinations of settings, 64 are the most"),
]


@pytest.mark.parametrize(("rules", "message"), BAD_RULES)
def test_rules_that_cannot_be_are_refused_before_the_run(rules, message):
    with pytest.raises(ScenarioError, match=message) as refused:
        planned(**COHORT, algorithms=[{**EQUAL, "control": rules}])
    assert "\n" not in str(refused.value)


def test_rules_of_a_private_run_follow_no_data_of_clients():
    private = {
        "uplink": [{"name": "clip", "norm": 1.0}], "privacy": {"noise": 1.0, "delta": 1e-5},
        "participation": {"cohort": 2, "select": "poisson"},
    }  # fmt: skip
    rule = {"column": "round", "above": 3, "set": {"lr": 0.01}}
    _, (run,) = planned(**private, algorithms=[EQUAL | {"control": [rule]}])
    assert run.control is not None
    with pytest.raises(
        ScenarioError, match=r"control\.0\.column: found 'loss', which has no noise"
    ):
        planned(**private, algorithms=[EQUAL | {"control": [rule | {"column": "loss"}]}])


def test_a_sweep_has_no_rules():
    search = {"search": {"algorithms.0.local.lr": {"log": [0.01, 1.0]}}}
    with pytest.raises(ScenarioError, match=r"algorithms\.0\.control: found a search as well"):
        planned(**COHORT, **search, algorithms=[{**EQUAL, "control": [RULE]}])


def test_every_combination_is_checked(monkeypatch):
    """One that is refused where both rules have fired is refused, though either goes alone."""

    def refusing(study, run, after, values, *by):
        if values.keys() == {"cohort", "lr"}:
            raise ScenarioError("", "not together")
        return changed(study, run, after, values, *by)

    monkeypatch.setattr("rayfed.study.plan.controller.changed", refusing)
    rules = [RULE, RULE | {"set": {"lr": 0.2}}]
    planned(**COHORT, algorithms=[{**EQUAL, "control": rules[:1]}])
    with pytest.raises(ScenarioError, match="not together"):
        planned(**COHORT, algorithms=[{**EQUAL, "control": rules}])


def test_without_rules_the_identity_of_runs_stays():
    _, (run, *_) = planned(**COHORT)
    assert "control" in run.record["scenario"]["algorithms"][0]
    assert not any("control" in key for key in decisive(run.record["scenario"], run.label))
