"""Scenarios of older result folders."""

import pytest

from rayfed.core.older import renewed
from rayfed.datasets import Tabular
from rayfed.study import plain

SHORT = {"fairness": False, "skew": False, "skew_draws": 100, "distance": False, "appeal": None}


def test_keys_that_asked_for_nothing_are_left_out():
    given = {"rounds": 3, "evaluate": {"every": 2, **SHORT}, "participation": {"cohort": 4}}
    assert renewed(given) == given | {"evaluate": {"every": 2}}


def test_measures_keep_the_order_of_their_columns():
    asked = {"appeal": 5, "skew": True, "fairness": True, "measures": [{"name": "path"}]}
    assert renewed({"evaluate": SHORT | asked})["evaluate"]["measures"] == [
        {"name": "fairness"},
        {"name": "skew", "draws": 100},
        {"name": "appeal", "steps": 5},
        {"name": "path"},
    ]


@pytest.mark.parametrize(
    ("algorithm", "now"),
    [
        ({"select": None, "participation": {}}, {"participation": {}}),
        ({"select": "all"}, {"participation": {"select": "all"}}),
        (
            {"select": {"name": "walk"}, "participation": {"too_few": "skip"}},
            {"participation": {"if_fewer": "skip", "select": {"name": "walk"}}},
        ),
        ({"local": {"lr": 0.1, "lr_decay": 1.0}}, {"local": {"lr": 0.1}}),
        (
            {"local": {"lr": 0.1, "lr_decay": 0.9}},
            {"local": {"lr": {"name": "exponential", "start": 0.1, "factor": 0.9}}},
        ),
    ],
)
def test_algorithms(algorithm, now):
    assert renewed({"algorithms": [algorithm]}) == {"algorithms": [now]}


@pytest.mark.parametrize(
    ("settings", "path"),
    [({"seed": None, "missing": "refuse", "columns": []}, True), ({"seed": 0}, False)],
)
def test_a_table_without_settings_is_its_path(settings, path):
    table = {"name": "table", "path": "/data/rows.csv", **settings}
    now = "/data/rows.csv" if path else table
    assert renewed({"problem": {"dataset": table, "l2": 1}}) == {
        "problem": {"dataset": now, "l2": 1}
    }


def test_its_settings_have_the_defaults_of_today():
    table = plain(Tabular(path="/data/rows.csv"))
    assert renewed({"problem": {"dataset": table}})["problem"]["dataset"] == "/data/rows.csv"


def test_a_decay_that_groups_share_is_left_to_be_refused():
    """Their own rates decayed, too."""
    groups = [{"count": 1, "local": {"lr": 0.5}}]
    given = {"algorithms": [{"local": {"lr": 0.1, "lr_decay": 0.9}}], "clients": {"groups": groups}}
    assert renewed(given) == given
    given["algorithms"][0]["local"]["lr_decay"] = 1.0
    assert renewed(given)["algorithms"] == [{"local": {"lr": 0.1}}]


def test_what_is_damaged_stays():
    damaged = {"evaluate": 3, "participation": None, "algorithms": ["fedavg", {"local": []}]}
    assert renewed(damaged) == damaged
