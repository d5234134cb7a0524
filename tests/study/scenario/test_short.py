"""Scenarios without the keys that are as by default."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.study import Study
from rayfed.study.scenario.short import shortened

GIVEN = {
    "name": "short",
    "seeds": [1, 2],
    "rounds": 5,
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 6, "groups": [{"name": "slow", "count": 2, "delay": {"mean_s": 3.0}}]},
    "participation": {"cohort": 3, "select": {"name": "power-of-d", "d": 4}},
    "uplink": [{"name": "top-k", "share": 0.5}],
    "algorithms": [
        {"name": "fedavg", "local": {"steps": 3, "lr": 0.2}, "uplink": None},
        {"name": "fedavg", "label": "coded", "local": {"epochs": 2, "batch": 8}},
    ],
}


def test_what_was_given_is_left_of_a_resolved_scenario():
    study = Study.parse(GIVEN)
    made = shortened(study.to_dict())
    assert made == GIVEN
    assert Study.parse(made).to_dict() == study.to_dict()


def test_channels_that_are_those_of_the_study_are_left_out():
    resolved = Study.parse(GIVEN | {"uplink": []}).to_dict()
    for algorithm in resolved["algorithms"]:  # as in the settings of a run
        algorithm |= {"uplink": None, "downlink": None, "aggregate": None, "privacy": None}
    assert [sorted(each) for each in shortened(resolved)["algorithms"]] == [
        ["local", "name"], ["label", "local", "name"]
    ]  # fmt: skip


def test_a_wrong_scenario_is_refused():
    with pytest.raises(ScenarioError, match="rounds: found -1"):
        shortened(GIVEN | {"rounds": -1})
