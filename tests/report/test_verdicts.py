"""Verdicts: paired differences against scipy, and how often they are wrong in simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from rayfed.report.verdicts import verdict

NEVER = math.inf


def of(**values):
    return {name: dict(enumerate(found)) for name, found in values.items()}


def words(found):
    return {c.other: c.word for c in found.comparisons}


def test_an_interval_that_excludes_zero_is_better_whatever_the_spread_of_the_loser():
    """Every seed separates them, and the sum of two deviations would hide it."""
    a, b = [0.683, 0.678, 0.661, 0.672], [0.949, 1.440, 0.904, 1.2]
    found = verdict(of(scaffold=a, fedexp=b))
    assert (found.best, words(found)) == ("scaffold", {"fedexp": "better"})
    test = stats.ttest_rel(b, a)
    interval = test.confidence_interval(0.95)
    (c,) = found.comparisons
    assert (c.difference, c.low, c.high, c.p) == pytest.approx(
        (np.mean(np.subtract(b, a)), *interval, test.pvalue)
    )


def test_too_few_seeds_for_the_interval_are_told_from_no_difference():
    found = verdict(of(scaffold=[0.683, 0.678, 0.661], fedexp=[0.949, 1.840, 0.804]))
    (c,) = found.comparisons
    assert (c.word, c.seeds) == ("better with every seed", 3)
    d = np.array([0.266, 1.162, 0.143])
    enough = [
        n for n in range(2, 50) if stats.t.ppf(0.975, n - 1) * d.std(ddof=1) / n**0.5 < d.mean()
    ]
    assert c.needed == enough[0] == 7
    assert words(verdict(of(a=[1.0, 2.0], b=[1.5, 1.8]))) == {"b": "undecided"}
    assert words(verdict(of(a=[1.0], b=[9.0]))) == {"b": "undecided"}


def test_among_many_algorithms_more_seeds_are_suggested():
    """The number holds for the corrected p-value, so it is more than the seeds that are too few."""
    a, b, c = [0.10, 0.12, 0.11], [0.20, 0.221, 0.21], [0.14, 0.22, 0.18]
    found = {one.other: one for one in verdict(of(a=a, b=b, c=c)).comparisons}
    for rank, name in enumerate(sorted(found, key=lambda n: found[n].p)):
        d = np.subtract({"b": b, "c": c}[name], a)
        enough = [
            n
            for n in range(2, 50)
            if stats.t.ppf(1 - 0.025 / (3 - rank), n - 1) * d.std(ddof=1) / n**0.5 < d.mean()
        ]
        one = found[name]
        assert one.needed == (None if one.word == "better" else enough[0])
        assert one.word == "better" or one.needed > 3
    assert {one.word for one in found.values()} == {"better", "better with every seed"}


def test_equal_runs_are_equivalent_and_rounding_is_no_difference():
    same = [0.5, 0.7, 0.6]
    near = [value * (1 + 1e-12) for value in same]
    within = [value + step for value, step in zip(same, (1e-3, -1e-3, 1e-4), strict=True)]
    found = verdict(of(a=same, b=near, c=within))
    assert words(found) == {"b": "equivalent", "c": "equivalent"}


def test_higher_values_are_better_where_they_are():
    found = verdict(of(a=[0.9, 0.8, 0.7], b=[0.95, 0.85, 0.76]), higher=True)
    assert (found.best, words(found)) == ("b", {"a": "better"})


def test_targets_that_were_never_reached_go_by_signs():
    some = verdict(of(a=[10, 20, 30], b=[NEVER, 50, 60]))
    assert (some.best, words(some)) == ("a", {"b": "better with every seed"})
    many = verdict(of(a=list(range(10, 17)), b=[NEVER] * 3 + list(range(50, 54))))
    assert words(many) == {"b": "better"}  # 2 / 2^7 < 0.05
    split = verdict(of(a=[10, NEVER, 30], b=[NEVER, 50, 60]))
    assert words(split)[split.comparisons[0].other] == "undecided"
    assert verdict(of(a=[NEVER, NEVER], b=[NEVER])) is None
    assert verdict({}) is None


def test_most_seeds_can_decide_where_some_never_reached_the_target():
    """Seeds in which neither did have no sign, and p is that of a fair coin."""
    found = verdict(of(a=[*range(10, 29), NEVER], b=[NEVER] * 20))
    (c,) = found.comparisons
    assert (found.best, c.word, c.p) == ("a", "better", 2 / 2**19)
    most = verdict(of(a=[10] * 9 + [30], b=[NEVER] * 9 + [20]))
    (c,) = most.comparisons
    assert (c.word, c.p) == ("better", pytest.approx(stats.binomtest(9, 10).pvalue))
    rows = of(a=[10] * 9 + [30], b=[NEVER] * 9 + [20])
    assert words(verdict(rows, resolution=30.0)) == {"b": "better"}  # 9 of 9: 10 is within 12.2
    few = of(a=[10, 20, 30, NEVER], b=[50, 60, 70, NEVER])
    assert words(verdict(few)) == {"b": "undecided"}


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_seed_in_which_nobody_reached_the_target_makes_nobody_equivalent(names):
    values = of(a=[*range(100, 109), NEVER], b=[*range(10, 28, 2), NEVER])
    found = verdict({name: values[name] for name in names})
    assert (found.best, words(found)) == ("b", {"a": "better"})
    apart = verdict(of(a=[100, 110, NEVER], b=[10, 900, NEVER]))
    assert set(words(apart).values()) == {"undecided"}
    same = verdict(of(a=[10, NEVER, 30], b=[10, NEVER, 30]))
    assert words(same) == {"b": "equivalent"}


def test_a_missing_seed_is_no_missed_target():
    a, b = {0: 10, 1: 11, 2: 12, 3: 13}, {0: 8, 1: 9, 2: 10, 3: 11, 4: 60}
    assert verdict({"a": a, "b": b}).best == "a"  # 11.5 and 19.6
    assert verdict({"a": a | {4: NEVER}, "b": b}).best == "b"


def test_no_number_of_seeds_helps_who_is_behind():
    (c,) = verdict({"a": {0: 2.0, 1: 2.1, 2: 0.1}, "b": {0: 1.9, 1: 1.8, 3: 9.0}}).comparisons
    assert (c.word, c.ahead, c.needed) == ("undecided", False, None)
    (c,) = verdict({"a": {0: 1.0, 1: 1.1}, "b": {0: 1.3, 1: 1.2}}).comparisons
    assert (c.ahead, c.needed) == (True, 5)


def test_a_difference_within_the_resolution_has_no_sign():
    values = of(a=[100.0, 101.0, 102.0], b=[101.0, 103.0, 102.4])
    assert words(verdict(values)) == {"b": "better with every seed"}
    assert words(verdict(values, resolution=10.0)) == {"b": "undecided"}  # of 10 / sqrt(6) = 4.1


def test_seeds_that_only_one_has_are_left_out():
    found = verdict({"a": {0: 1.0, 1: 1.1, 2: math.nan, 3: 1.2}, "b": {1: 2.1, 3: 2.2, 7: 0.0}})
    (c,) = found.comparisons
    assert c.seeds == 2


def rates(count, seeds, gap, studies, rng):
    """How often the first of equal algorithms, or one that leads by a gap, is called better."""
    false = true = 0
    for _ in range(studies):
        shared = rng.normal(size=seeds)
        values = rng.normal(size=(count, seeds)) / math.sqrt(2) + shared
        values[0] -= gap
        found = verdict(of(**{str(k): row for k, row in enumerate(values)}))
        better = [c for c in found.comparisons if c.word == "better"]
        false += bool(better)
        true += found.best == "0" and len(better) == count - 1
    return false / studies, true / studies


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
def test_equal_algorithms_are_seldom_called_different(count, seeds):
    """5 % at most; of 400 studies 35 or fewer with a probability of 0.999."""
    false, _ = rates(count, seeds, 0.0, 400, np.random.default_rng(seeds))
    assert false <= 35 / 400


def test_more_seeds_find_more():
    rng = np.random.default_rng(0)
    power = [rates(2, seeds, 1.0, 200, rng)[1] for seeds in (3, 5, 10, 20)]
    assert power == sorted(power)
    assert power[0] < 0.5 < 0.8 < power[2]
