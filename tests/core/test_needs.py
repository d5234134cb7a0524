"""Parts that do not go together are found and named by one function."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from rayfed.algorithms import Algorithm
from rayfed.algorithms.base import OLD_FLAGS
from rayfed.channel import Memory
from rayfed.core import needs
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import FRESH, MEAN, TERMS, Part, clashes, where
from rayfed.core.plugins import find
from rayfed.measures import Measure


def part(place, shown, needed=(), removed=(), instead=""):
    return Part(place, shown, frozenset(needed), frozenset(removed), instead)


def test_a_setting_is_to_blame_and_not_the_algorithm():
    algorithm = part("", "'a'", [FRESH])
    late = part("participation.late", "late: stale", removed=[FRESH], instead="use drop")
    expected = f"'a' needs {FRESH.needed}, but late: stale {FRESH.removed}; use drop"
    assert list(clashes([algorithm, late])) == [("participation.late", expected)]


def test_of_two_settings_the_one_with_the_need_is_to_blame():
    rule = part("aggregate", "'median'", [MEAN])
    other = part("uplink", "'ef21'", removed=[MEAN])
    ((place, text),) = clashes([other, rule])
    assert place == "aggregate"
    assert text.endswith("; leave one of them out")


def test_a_part_does_not_clash_with_itself_and_without_a_remover_nothing_does():
    assert not list(clashes([part("a", "a", [MEAN], [MEAN])]))
    assert not list(clashes([part("a", "a", [MEAN, FRESH]), part("b", "b")]))


def test_terms_whose_condition_holds():
    assert where({MEAN: [1], FRESH: ()}) == {MEAN}


def test_terms_are_named_as_their_constants():
    assert all(getattr(needs, name.upper()) is term for name, term in TERMS.items())


def test_algorithms_declare_known_terms():
    for cls in find("algorithms").values():
        assert cls.needs <= set(TERMS.values())
        assert cls.gives <= needs.GIVEN


@pytest.mark.parametrize("flag", OLD_FLAGS)
def test_a_flag_of_an_earlier_release_is_refused_with_its_declaration(flag):
    with pytest.raises(ScenarioError) as error:
        type("Old", (Algorithm,), {flag: True})
    assert f"'{flag}'" in str(error.value)
    assert OLD_FLAGS[flag] in str(error.value)


def test_a_setting_with_the_name_of_a_flag_that_is_no_flag_is_taken():
    @dataclass(frozen=True, kw_only=True)
    class Mine(Algorithm):
        name: ClassVar[str] = "mine"
        personal: float = 0.5

    assert Mine().personal == 0.5


@pytest.mark.parametrize(
    ("base", "old", "new"),
    [
        (Algorithm, "beside", "evaluation_state"),
        (Memory, "whole_first", "exact_first"),
        (Measure, "kept", "saved"),
    ],
)
def test_hooks_under_their_old_names_are_refused(base, old, new):
    assert hasattr(base, new)
    with pytest.raises(ScenarioError, match=f"Mine: defines '{old}'; rename it to '{new}'"):
        type("Mine", (base,), {old: lambda self: None})
