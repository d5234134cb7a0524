"""Dotted keys change one place and leave the rest, and what they were given, alone."""

import copy
from collections.abc import Mapping

import pytest

from rayfed.core.dotted import (
    apply_overrides,
    combinations,
    flat,
    matches,
    put,
    resolved,
    setting_name,
)
from rayfed.core.errors import ScenarioError
from rayfed.population import Exponential

RAW = {"a": {"b": 1, "c": [{"d": 1}, {"d": 2, "e": 3}]}, "f": "name"}


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("a.b=2", {"a": {"b": 2, "c": RAW["a"]["c"]}, "f": "name"}),
        ("a.c.1.d=x", {"a": {"b": 1, "c": [{"d": 1}, {"d": "x", "e": 3}]}, "f": "name"}),
        ("a.c.*.d=0", {"a": {"b": 1, "c": [{"d": 0}, {"d": 0, "e": 3}]}, "f": "name"}),
        ("a.c=[]", {"a": {"b": 1, "c": []}, "f": "name"}),
        ("f.g=1", {"a": RAW["a"], "f": {"name": "name", "g": 1}}),
        ("n.m=1", {**RAW, "n": {"m": 1}}),
        ("f=a=b", {"a": RAW["a"], "f": "a=b"}),
        ("f=", {"a": RAW["a"], "f": None}),
        ("f={x: 1.5}", {"a": RAW["a"], "f": {"x": 1.5}}),
    ],
)
def test_one_place_changes(override, changed):
    before = copy.deepcopy(RAW)
    assert apply_overrides(RAW, [override]) == changed
    assert before == RAW


LISTED = {"algorithms": ["fedavg", {"name": "fedavg", "label": "my own"}, Exponential(mean_s=1)]}


@pytest.mark.parametrize(
    ("key", "index"),
    [("fedavg", 0), ("my own", 1), ("exponential", 2), ("1", 1)],
)
def test_an_entry_of_a_list_goes_by_its_label_or_name(key, index):
    assert resolved(LISTED, f"algorithms.{key}.x.y") == f"algorithms.{index}.x.y"
    changed = put(LISTED, f"algorithms.{key}", "new")["algorithms"]
    assert [k for k, entry in enumerate(changed) if entry == "new"] == [index]


def test_a_name_that_two_entries_have_is_no_address():
    raw = {"algorithms": [{"name": "a", "label": "x"}, {"name": "a", "label": "y"}]}
    line = "algorithms.a.lr: found 'a' where a list is; give an index or [*]; known: x, y"
    with pytest.raises(ScenarioError, match=line):
        put(raw, "algorithms.a.lr", 1)


def test_a_key_of_thousands_of_parts_is_refused():
    with pytest.raises(ScenarioError, match=r"the key has 2,001 parts; no place is so deep") as e:
        apply_overrides(RAW, ["a." * 2000 + "b=1"])
    assert len(str(e.value)) < 200


def test_later_overrides_see_earlier_ones():
    assert apply_overrides({}, ["d=constant", "d.mean_s=2"]) == {
        "d": {"name": "constant", "mean_s": 2}
    }


def test_overrides_may_be_a_mapping_or_pairs_too():
    changed = {"a": {"b": 2, "c": RAW["a"]["c"]}, "f": "x=1"}
    assert apply_overrides(RAW, {"a.b": 2, "f": "x=1"}) == changed
    assert apply_overrides(RAW, [("a.b", 2), ("f", "x=1")]) == changed


def test_a_value_of_a_plugin_is_opened():
    changed = put({"delay": Exponential(mean_s=3.0)}, "delay.mean_s", 4.0)
    assert changed == {"delay": {"name": Exponential, "correlation": 0.0, "mean_s": 4.0}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("a.b", "--set a.b: found no key=value"),
        ("=3", "--set =3: found no key=value"),
        ("a.b=[1", "--set a.b=[1: the value is not valid YAML"),
        ("a.b=!!python/name:os.system x", "the value is not valid YAML"),
        ("a.c.2.d=1", "a.c.2.d: found index 2 in a list of 2; count from 0"),
        ("a.c.x.d=1", "a.c.x.d: found 'x' where a list is; give an index or *"),
    ],
)
def test_places_that_cannot_be(override, message):
    with pytest.raises(ScenarioError) as error:
        apply_overrides(RAW, [override])
    assert message in str(error.value)


def test_combinations_vary_the_last_key_first():
    assert list(combinations({"a": [1, 2], "b": "xy"})) == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"},
    ]  # fmt: skip
    assert list(combinations({})) == [{}]


def test_names_of_settings_are_short_but_differ():
    assert setting_name({"a.lr": 1, "b.cohort": 2}) == "lr=1, cohort=2"
    assert setting_name({"a.lr": 1, "b.lr": 2}) == "a.lr=1, b.lr=2"
    assert setting_name({"x.delay": {"name": "uniform", "mean_s": 2}}) == "delay=uniform mean_s=2"
    assert setting_name({}) == ""


@pytest.mark.parametrize(
    ("key", "place", "same"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", True),
        ("a.b.c", "a.b", True),
        ("a.*.c", "a.3.c", True),
        ("a.b", "a.c", False),
        ("a.1", "a.2", False),
    ],
)
def test_matching_places(key, place, same):
    assert matches(key, place) is same


def test_lists_of_plain_values_stay_whole_and_lists_of_lists_where_that_is_asked():
    nested = {"a": {"b": [{"c": 1}, 2]}, "links": [[0, 1], [1, 2]], "empty": {}, "hidden": (3, 4)}
    plain = {"a.b.0.c": 1, "a.b.1": 2, "links": [[0, 1], [1, 2]], "hidden": (3, 4)}
    assert flat(nested) == plain
    apart = {"a.b.0.c": 1, "a.b.1": 2, "links.0": [0, 1], "links.1": [1, 2], "hidden": (3, 4)}
    assert flat(nested, (Mapping, list)) == apart
