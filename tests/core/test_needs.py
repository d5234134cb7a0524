"""Parts that do not go together are found and named by one function."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from rayfed.algorithms import Algorithm
from rayfed.algorithms.base import OLD_FLAGS
from rayfed.channel import Memory
from rayfed.channel.faults import Collusion
from rayfed.channel.mixers import Mixer
from rayfed.core import needs
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import (
    BLIND,
    CHANCES,
    COINS,
    FRESH,
    GRAPHS,
    MEAN,
    NOTHING,
    ONE_MORE,
    ROUNDS,
    TERMS,
    WALK,
    Part,
    clashes,
    where,
)
from rayfed.core.plugins import find
from rayfed.measures import Measure
from rayfed.problems import Problem
from rayfed.problems import base as problems
from rayfed.selection import Selection
from rayfed.selection import base as selections

OLD = {Algorithm: OLD_FLAGS, Problem: problems.OLD_FLAGS, Selection: selections.OLD_FLAGS}


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


def test_no_constant_is_assigned_twice():
    """The first of two terms of one name would be lost."""
    tree = ast.parse(Path(needs.__file__).read_text())
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    names = [target.id for target in targets]
    assert len(names) == len(set(names)) >= len(TERMS)


def test_terms_are_named_as_their_constants():
    assert all(getattr(needs, name) is term for name, term in TERMS.items())
    assert len(set(TERMS.values())) == len(TERMS)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("algorithms", needs.GIVEN),
        ("problems", needs.BY_PROBLEMS),
        ("datasets", needs.BY_DATA),
        ("solvers", needs.BY_SOLVERS),
    ],
)
def test_plug_ins_give_known_terms(kind, given):
    for cls in find(kind).values():
        assert cls.gives <= given
        assert getattr(cls, "needs", NOTHING) <= set(TERMS.values())


@pytest.mark.parametrize(
    ("base", "flag", "declaration"),
    [
        *((base, *flag) for base, old in OLD.items() for flag in old.items()),
        (Mixer, "sees_vectors", "needs = frozenset({ROUNDS, FRESH})"),
        (Collusion, "sees_vectors", "needs = Collusion.needs | {VECTORS}"),
    ],
)
def test_a_flag_of_an_earlier_release_is_refused_with_its_declaration(base, flag, declaration):
    with pytest.raises(ScenarioError) as error:
        type("Old", (base,), {flag: True})
    assert f"'{flag}'" in str(error.value)
    assert declaration in str(error.value)


def test_needs_of_measures_in_words_are_refused():
    with pytest.raises(ScenarioError, match=r"Old: declares needs = \['cohort'\].*`uses`"):
        type("Old", (Measure,), {"needs": frozenset({"cohort"})})


def test_needs_that_follow_from_attributes_are_added_to_those_declared():
    class Polls(Selection):
        needs: ClassVar = frozenset({GRAPHS})
        asks: ClassVar[bool] = True

    assert {GRAPHS, ROUNDS} <= Polls.needs
    assert {CHANCES, ONE_MORE, BLIND} <= Polls.removes
    assert Selection.needs == Selection.removes == NOTHING


def test_a_selection_and_a_measure_without_declarations_need_nothing():
    plain = type("Plain", (Selection,), {})
    assert plain.needs == type("Plain", (Measure,), {}).needs == NOTHING
    assert plain.removes == {WALK, COINS}


def test_a_remedy_of_a_term_comes_before_those_of_parts():
    walk = part("select", "'walk'", [GRAPHS], instead="own")
    topology = part("topology", "topology", removed=[GRAPHS], instead="other")
    ((_, text),) = clashes([walk, topology])
    assert text.endswith(f"; {GRAPHS.remedy}")


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
