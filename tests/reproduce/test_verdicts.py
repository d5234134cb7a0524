"""Every kind of check on tables made by hand, once where it holds and once where it does not."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rayfed.engine.loop import NOT_FINITE
from rayfed.report.read.results import RunRecord
from rayfed.reproduce.claims import Check, Claim, Claims
from rayfed.reproduce.verdicts import judge

NAN = math.nan


def rows(loss, accuracy=None):
    """Rounds 0, 1, 2, ... of one run."""
    table = pd.DataFrame({"round": range(len(loss)), "loss": loss})
    table["bytes_up"], table["bytes_down"], table["time_s"] = 8, 4, 0.25 * table["round"]
    return table if accuracy is None else table.assign(accuracy=accuracy)


def run(label, seed, rounds, why=None, setting="", folder=Path()):
    """A run that ended, or failed for a reason."""
    about = {"label": label, "setting": setting, "seed": seed, "reason": why}
    status = "finished" if why is None else "failed"
    return RunRecord.of_rounds(folder, {**about, "status": status}, label, rounds)


RECORDED = {
    "main": [
        run("slow", 0, rows([8.0, NAN, 6.0, NAN, 4.0], [0.1, NAN, 0.5, NAN, 0.6])),
        run("slow", 1, rows([8.0, NAN, 4.0, NAN, 2.0], [0.1, NAN, 0.7, NAN, 0.8])),
        run("fast", 0, rows([8.0, 4.0, 2.0, 1.0, 0.5])),
        run("fast", 1, rows([8.0, 2.0, 1.0, 0.5, 0.25])),
        run("wild", 0, rows([8.0, NAN]), f"round 1: the loss {NOT_FINITE}; likely ..."),
        run("lost", 0, rows([8.0]), "the disk is full"),
    ],
    "grid": [
        run("a", 0, rows([3.0, 2.0]), setting="lr=1"),
        run("a", 0, rows([3.0, 1.0]), setting="lr=2"),
    ],
}


def verdict(check, **more):
    raw = {"says": "x", "where": "y", "check": check, **more}
    parts = {name: {"about": "z"} for name in RECORDED}
    claims = Claims.model_validate({"source": "s", "parts": parts, "claims": [raw]})
    return judge(claims, claims.claims[0], RECORDED)


def value(column="loss", of="fast", at="last", **more):
    return {"column": column, "of": of, "at": at, **more}


def fold(kind, **more):
    return {"column": "loss", "of": "fast", "reduce": kind, **more}


def to(target, of, column="loss", **more):
    return {"rounds_to": {column: target}, "of": of, **more}


VALUES = [
    (value(), [0.375]),  # mean of 0.5 and 0.25
    (value(seed=1), [0.25]),
    (value(at=0), [8]),
    (value(at=[0, 1, 2]), [8, 3, 1.5]),
    (value(of="slow"), [3]),
    ({"time_to": {"loss": 1.0}, "of": "fast", "seed": 0}, [0.75]),
    ({"time_to": {"accuracy": 0.5}, "of": "slow", "seed": 0}, [0.5]),
    ({"bytes_to": {"loss": 1.0}, "of": "fast", "seed": 0}, [48]),  # rounds 0 to 3
    (fold("mean", seed=0), [3.1]),  # (8 + 4 + 2 + 1 + 0.5) / 5
    (fold("mean", seed=0, over=[1, 3]), [7 / 3]),
    (fold("min"), [0.375]),
    (fold("max", over=[2, 4]), [1.5]),
    (fold("sum", column="bytes_up", seed=0, over=[1, 4]), [32]),
    (fold("sd", seed=0, over=[1, 2]), [math.sqrt(2)]),
    (fold("mean", of="slow", seed=0), [6]),  # over 8, 6, 4: the evaluated rounds
    (to(1.0, "fast", seed=0), [3]),
    (to(1.0, "fast"), [2.5]),  # rounds 3 and 2
    (to(5.0, "slow", seed=0), [4]),
    (to(0.65, "slow", "accuracy", seed=1), [2]),
    (to(1.0, "slow"), [math.inf]),
    ({"ratio": [value(of="slow"), value()]}, [8]),
    ({"ratio": [to(4.0, "slow", seed=0), to(4.0, "fast", seed=0)]}, [4]),
    ({"difference": [value(at=[0, 2], of="slow"), value(at=[0, 2])]}, [0, 3.5]),
    (value(of="a", part="grid", setting="lr=2"), [1]),
]


@pytest.mark.parametrize(("given", "numbers"), VALUES, ids=str)
def test_values_are_read(given, numbers):
    found = verdict({"value": given, "above": -1})
    assert found.values == pytest.approx(numbers)


HOLDS = [
    {"value": value(), "equals": 0.375},
    {"value": value(), "equals": 0.37, "within": 0.02},
    {"value": value(), "equals": 0.37, "absolute": 0.006},
    {"value": value(), "equals": 4.0, "factor": 11},
    {"value": value(at=[1, 2]), "equals": [3, 1.5]},
    {"value": value(at=[1, 2]), "equals": 2.2, "absolute": 0.8},
    {"value": value(), "below": 0.4},
    {"value": value(), "above": 0.3},
    {"value": value(at=[1, 2]), "between": [1.5, 3]},
    {"descending": [value(of="slow"), value()]},
    {"descending": [value(at=[0, 1, 2])]},
    {"ascending": [value(), value(of="slow"), value(at=0)]},
    {"descending": [value(of="slow"), value()], "by": 8},
    {"ascending": [to(4.0, "fast"), to(1.0, "slow")]},  # never is later than any round
    {"diverges": [{"of": "wild"}]},
]
FAILS = [
    {"value": value(), "equals": 0.376},
    {"value": value(), "equals": 0.37, "within": 0.01},
    {"value": value(), "equals": 0.37, "absolute": 0.004},
    {"value": value(), "equals": 4.0, "factor": 10},
    {"value": value(), "equals": 0.03, "factor": 10},
    {"value": value(at=[1, 2]), "equals": [3, 1.6]},
    {"value": value(at=[1, 2]), "equals": 2.2, "absolute": 0.75},
    {"value": value(), "below": 0.375},
    {"value": value(), "above": 0.375},
    {"value": value(at=[1, 2]), "between": [1.5, 2.9]},
    {"value": to(1.0, "slow"), "equals": 4, "factor": 100},
    {"descending": [value(), value(of="slow")]},
    {"descending": [value(at=[0, 2, 1])]},
    {"ascending": [value(), value()]},
    {"descending": [value(of="slow"), value()], "by": 8.1},
    {"ascending": [to(4.0, "fast"), to(1.0, "slow")], "by": 1.1},  # never is no number
    {"value": fold("sd", seed=0, over=[1, 1]), "above": -1.0},  # of one value there is none
    {"diverges": [{"of": "wild"}, {"of": "fast"}]},
    {"diverges": [{"of": "lost"}]},
]


@pytest.mark.parametrize("check", HOLDS, ids=str)
def test_checks_that_hold(check):
    assert verdict(check).holds is True


A, B, C = ({"column": "loss", "of": name, "at": "last"} for name in "abc")


@pytest.mark.parametrize(
    ("check", "pairs"),
    [
        ({"descending": [A, B]}, [(A, B)]),
        ({"ascending": [C, B, A]}, [(A, B), (B, C)]),
        ({"descending": [A, B], "by": 1.1, "apart": 0.1}, [(A, B)]),
        ({"value": {"difference": [A, B]}, "above": 0.1}, [(A, B)]),
        ({"value": {"difference": [B, A]}, "below": 0}, [(A, B)]),
        ({"value": {"difference": [A, B]}, "between": [0.1, 9]}, [(A, B)]),
        ({"value": {"difference": [A, B]}, "between": [0, 9]}, []),  # equal runs do, too
        ({"value": {"difference": [A, B]}, "above": -1}, []),
        ({"value": A, "above": 0}, []),
    ],
    ids=str,
)
@pytest.mark.parametrize("seeds", [1, 3, 4, 6])
def test_orders_of_runs_are_decided_by_paired_differences(check, pairs, seeds):
    """By scipy: the 95 % interval of every pair excludes zero."""
    ends = {"a": [3.0, 2.5, 3.3, 2.8, 3.1, 2.7], "b": [2.2, 1.9, 1.7, 2.4, 2.0, 2.2],
            "c": [0.9, 1.8, 1.1, 0.7, 1.0, 1.6]}  # fmt: skip
    runs = [run(name, s, rows([8.0, ends[name][s]])) for name in "abc" for s in range(seeds)]
    raw = {"says": "x", "where": "y", "check": check}
    parts = {"main": {"about": "z"}}
    claims = Claims.model_validate({"source": "s", "parts": parts, "claims": [raw]})
    found = judge(claims, claims.claims[0], {"main": runs})
    scale = np.log if "by" in check else np.array  # as its interval is printed
    tests = [
        stats.ttest_rel(*(scale(ends[one["of"]][:seeds]) for one in pair)).pvalue for pair in pairs
    ] if seeds > 1 else [1.0] * len(pairs)  # fmt: skip
    decided = all(p <= 0.05 for p in tests)
    assert (found.holds, found.expected) == (True, True)
    assert found.status == ("holds" if decided else "undecided")
    assert bool(found.remark) is not decided


def test_what_is_undecided_says_about_how_many_seeds_would_do():
    runs = [run(name, s, rows([8.0, end])) for name, ends in (("a", [1.0, 2.0, 3.0]),
            ("b", [1.5, 4.0, 3.2])) for s, end in enumerate(ends)]  # fmt: skip
    raw = {"says": "x", "where": "y", "check": {"ascending": [A, B]}}
    parts = {"main": {"about": "z"}}
    claims = Claims.model_validate({"source": "s", "parts": parts, "claims": [raw]})
    found = judge(claims, claims.claims[0], {"main": runs})
    d = np.array([0.5, 2.0, 0.2])
    needed = next(n for n in range(2, 99)
                  if stats.t.ppf(0.975, n - 1) * d.std(ddof=1) / n**0.5 < d.mean())  # fmt: skip
    text = f"better with every seed over 3 seeds (about {needed} seeds would separate them)"
    assert (found.status, found.remark) == ("undecided", text)


def judged(check, **ends):
    """Return the verdict on a check of runs with these losses at the end, by seed."""
    runs = [run(name, s, rows([8.0, end])) for name, of in ends.items() for s, end in enumerate(of)]
    raw = {"says": "x", "where": "y", "check": check}
    claims = Claims.model_validate(
        {"source": "s", "parts": {"main": {"about": "z"}}, "claims": [raw]}
    )
    return judge(claims, claims.claims[0], {"main": runs})


def ordered(check, **ends):
    """Return the result of a check of runs with these losses at the end, by seed."""
    found = judged(check, **ends)
    assert found.as_plain()["measured"] == found.result
    return found.result


def test_a_claimed_factor_is_decided_as_its_interval_reads():
    """Ratios of 4, 3 and 10 exclude 1; differences of 3, 20 and 900 do not exclude 0."""
    a, b = [4.0, 30.0, 1000.0], [1.0, 10.0, 100.0]
    assert stats.ttest_rel(a, b).pvalue > 0.05 > stats.ttest_rel(np.log(a), np.log(b)).pvalue
    assert judged({"descending": [A, B], "by": 2}, a=a, b=b).status == "holds"
    assert judged({"descending": [A, B], "apart": 2}, a=a, b=b).status == "undecided"


@pytest.mark.parametrize("size", [1e-200, 1.01, 1e200])
def test_ratios_within_a_hundredth_are_equivalent_whatever_the_size(size):
    near, far = {"by": 1.0001, "descending": [A, B]}, [size * k for k in (1.2, 0.9, 1.1)]
    a, b = [size * k for k in (1.002, 0.999, 1.001)], [size] * 3
    assert judged(near, a=a, b=b).remark == "equivalent over 3 seeds"
    assert judged(near, a=far, b=b).remark.startswith("undecided")


@pytest.mark.parametrize(
    ("check", "ends", "excluded"),
    [  # means of 3 and 3.3 with standard errors near 0.06
        ({"descending": [A, B]}, {"a": [3.0, 3.1, 2.9], "b": [3.3, 3.4, 3.2]}, True),
        ({"descending": [A, B]}, {"a": [3.0, 3.1, 2.9], "b": [3.3, 2.4, 3.7]}, False),
        ({"ascending": [A, B], "apart": 0.5}, {"a": [3.0, 3.1, 2.9], "b": [3.3, 3.4, 3.1]}, True),
        ({"ascending": [A, B], "by": 2}, {"a": [3.0, 3.1, 2.9], "b": [3.3, 3.4, 3.1]}, True),
        ({"ascending": [A, B], "by": 2}, {"a": [3.0, 3.1, 2.9], "b": [3.3, 9.0, 3.1]}, False),
        ({"value": A, "below": 2.7}, {"a": [3.0, 3.1, 2.9]}, True),
        ({"value": A, "below": 2.8}, {"a": [3.0, 3.1, 2.9]}, False),  # 2.75 to 3.25
        ({"value": A, "above": 3.3}, {"a": [3.0, 3.1, 2.9]}, True),
        ({"value": A, "between": [3.2, 4]}, {"a": [3.0, 3.1, 2.9]}, False),
        ({"value": A, "equals": 4, "factor": 1.2}, {"a": [3.0, 3.1, 2.9]}, True),
        ({"value": A, "equals": 4, "absolute": 0.8}, {"a": [3.0, 3.1, 2.9]}, False),
        ({"value": A, "above": 3.3}, {"a": [3.0]}, False),  # one seed excludes nothing
        ({"value": A, "above": 3.3}, {"a": [3.0, 3.0]}, True),  # all alike
        ({"value": A, "above": 2}, {"a": [3.0, 3.1, 2.9]}, False),  # it holds
        ({"value": to(1.0, "a"), "below": 9}, {"a": [3.0, 3.1]}, True),  # never, with any seed
        ({"value": to(3.0, "a"), "below": 9}, {"a": [3.0, 3.1]}, False),  # with one
    ],
)  # fmt: skip
def test_claims_are_excluded_by_intervals(check, ends, excluded):
    assert judged(check, **ends).excluded is excluded


def test_over_zero_there_is_no_ratio():
    found = judged({"value": {"ratio": [A, B]}, "above": 1}, a=[3.0, 2.0], b=[0.0, 0.0])
    assert (found.status, found.measured) == ("fails", "2.5 over 0 is no number")


def test_seeds_that_are_alike_have_no_interval():
    alike = {"a": [3.0, 3.0], "b": [2.0, 2.0]}
    assert "interval" not in ordered({"descending": [A, B]}, **alike)
    assert judged({"descending": [A, B]}, **alike).status == "holds"


def interval(high, low):
    """Return the mean of paired differences and its interval, by scipy."""
    low_end, high_end = stats.ttest_rel(high, low).confidence_interval(0.95)
    return np.array([np.mean(np.subtract(high, low)), low_end, high_end])


def test_orders_of_runs_have_intervals_of_paired_differences_or_ratios():
    a, b, c = [3.0, 2.5, 3.3], [2.2, 1.9, 1.7], [0.9, 1.8, 1.1]
    of_ab, of_bc = ("{:.3g} ({:.3g} to {:.3g})".format(*interval(*of)) for of in ((a, b), (b, c)))
    text = ordered({"descending": [A, B], "apart": 0.1}, a=a, b=b)
    assert text.endswith(f"(claimed: 0.1 apart); difference and 95 % interval: {of_ab}")
    text = ordered({"ascending": [C, B, A]}, a=a, b=b, c=c)
    assert text.endswith(f"; differences and 95 % intervals: {of_bc}, {of_ab}")
    text = ordered({"descending": [A, B, C]}, a=a, b=b, c=c)
    assert text.endswith(f"; differences and 95 % intervals: {of_ab}, {of_bc}")
    ratio = "{:.3g} ({:.3g} to {:.3g})".format(*np.exp(interval(np.log(a), np.log(b))))
    text = ordered({"descending": [A, B], "by": 1.1}, a=a, b=b)
    assert text.endswith(f"(claimed: 1.1 times); ratio and 95 % interval: {ratio}")


@pytest.mark.parametrize(
    ("check", "ends"),
    [
        ({"descending": [A, B]}, {"a": [3.0], "b": [2.0]}),  # one seed
        ({"descending": [A, B], "by": 2}, {"a": [3.0, 2.0], "b": [0.0, 1.0]}),
        ({"descending": [to(1.0, "a"), to(1.0, "b")]}, {"a": [1.0, 3.0], "b": [1.0, 1.0]}),
        ({"descending": [A | {"at": 0}, A]}, {"a": [3.0, 2.0]}),  # the same runs
        ({"value": {"ratio": [A, B]}, "above": 1}, {"a": [3.0, 2.0], "b": [1.0, 1.5]}),
    ],
)
def test_no_interval_without_two_finite_differences_of_runs(check, ends):
    assert "interval" not in ordered(check, **ends)


def test_a_claim_that_names_its_seeds_has_one_number():
    check = {"value": {"difference": [value(seed=0), value(seed=1)]}, "above": 1}
    found = verdict(check)
    assert (list(found.each), found.seeds, found.excluded) == ([0], "seeds 0, 1", False)


def test_orders_of_rounds_and_of_single_draws():
    assert verdict({"descending": [value(at=[0, 1, 2])]}).status == "holds"  # of the same runs
    drawn = [value(of="slow", seed=0), value(seed=1)]
    assert verdict({"descending": drawn}).remark == "undecided with one seed"


@pytest.mark.parametrize("check", FAILS, ids=str)
def test_checks_that_fail(check):
    assert verdict(check).status == "fails"


def test_every_form_of_check_is_tried():
    forms = {Check.model_validate(check).form for check in HOLDS}
    assert forms == {Check.model_validate(check).form for check in FAILS}
    assert len(forms) == 7


@pytest.mark.parametrize(
    ("check", "why"),
    [
        ({"value": value(of="lost"), "below": 9}, "lost, seed 0 failed: the disk is full"),
        ({"value": value(of="slow", at=1), "below": 9}, "slow, seed 0 has no value of loss at"),
        ({"value": value("skew"), "below": 9}, "fast, seed 0 has no column skew"),
        ({"value": value(seed=3), "below": 9}, "nothing is recorded of fast"),
        (
            {"value": {"ratio": [to(1.0, "slow"), to(1.0, "fast")]}, "above": 1},
            "never and 2.5 give no number",
        ),
        (
            {"value": {"ratio": [value(at=[1, 2]), value()]}, "above": 0},
            "2 and 1 values cannot be compared",
        ),
        (
            {"value": fold("mean", of="slow", over=[1, 1]), "below": 9},
            "slow, seed 0 has no value of loss from round 1 to 1",
        ),
        (
            {"value": value(of="a", part="grid", setting="lr=3"), "below": 9},
            "nothing is recorded of a",
        ),
    ],
)
def test_what_cannot_be_measured_does_not_hold_and_says_why(check, why):
    found = verdict(check)
    assert found.status == "fails"
    assert found.measured.startswith(why)


@pytest.mark.parametrize(
    ("check", "measured"),
    [
        ({"value": value(at=[1, 2]), "equals": [3, 1]}, "3, 1.5 (claimed: 3, 1)"),
        ({"value": value(), "below": 0.4}, "0.375 (claimed: below 0.4)"),
        ({"value": value(), "above": 0.4}, "0.375 (claimed: above 0.4)"),
        ({"value": value(), "between": [0.3, 0.4]}, "0.375 (claimed: 0.3 to 0.4)"),
        ({"descending": [value(of="slow"), value()]}, "3, 0.375"),
        ({"descending": [value(of="slow"), value()], "by": 2}, "3, 0.375 (claimed: 2 times)"),
    ],
)
def test_what_was_measured_stands_beside_what_was_claimed(check, measured):
    assert verdict(check).measured == measured


MARKED = {"because": "other data", "check": {"value": value(at=[1, 2]), "above": 5}}  # 3, 1.5


@pytest.mark.parametrize(
    ("mark", "stands"),
    [
        ({"equals": [3, 1.5], "within": 1e-9}, True),
        ({"equals": [3.1, 1.6], "absolute": 0.1}, True),
        ({"equals": [3.1, 1.6], "absolute": 0.09}, False),
        ({"equals": [3.3, 1.65], "within": 0.1}, True),
        ({"equals": [3.3, 1.7], "within": 0.1}, False),  # 1.5 is 0.2 away, 0.17 are allowed
        ({"equals": [6, 0.75], "factor": 2}, True),
        ({"equals": [6.1, 0.75], "factor": 2}, False),
        ({"equals": 3, "within": 0.5}, False),  # one number for two
        ({"equals": [3, "never"], "within": 0.1}, False),
        ({"equals": "diverges"}, False),
    ],
)
def test_a_mark_that_drifts_fails(mark, stands):
    found = verdict(**MARKED, measured=mark)
    assert found.status == ("not reproduced" if stands else "fails")
    assert found.expected is stands
    assert ("drifted" in found.remark) is not stands
    assert "other data" in found.remark


def test_a_reason_has_the_numbers_that_were_measured():
    said = {"because": "{1:.2f} after {0}", "measured": {"equals": [3.3, 1.65], "within": 0.1}}
    found = verdict(MARKED["check"], **said)
    assert (found.remark, found.as_plain()["because"]) == ("1.50 after 3.0",) * 2
    assert found.claim.reason() == "1.65 after 3.3"  # where nothing was measured


def test_a_mark_of_a_claim_that_holds_fails():
    check = {"value": value(at=[1, 2]), "below": 5}
    found = verdict(check, because="other data", measured={"equals": [3, 1.5], "within": 0.1})
    assert (found.status, found.expected) == ("fails", False)
    assert found.remark == "holds now; take its mark away (other data)"


def test_marks_of_what_is_never_reached_and_of_what_diverges():
    never = {"value": to(1.0, "slow"), "below": 9}
    marked = verdict(never, because="slow", measured={"equals": "never", "absolute": 1})
    assert marked.status == "not reproduced"
    assert verdict(never, because="x", measured={"equals": 4, "factor": 9}).status == "fails"
    wild = {"value": value(of="wild"), "below": 9}
    assert verdict(wild, because="x", measured={"equals": "diverges"}).status == "not reproduced"
    lost = {"value": value(of="lost"), "below": 9}
    assert verdict(lost, because="x", measured={"equals": "diverges"}).status == "fails"


@pytest.mark.parametrize(
    ("check", "seeds"),
    [
        ({"value": value(), "below": 0.4}, "2 seeds, holds in 1"),  # 0.5 and 0.25, mean 0.375
        ({"value": value(), "below": 0.6}, "2 seeds"),
        ({"value": value(), "below": 0.1}, "2 seeds"),
        ({"value": value(at=0), "equals": 8}, "2 seeds, all alike"),
        ({"value": value(seed=1), "below": 0.6}, "seed 1"),
        ({"value": {"difference": [value(seed=1), value(seed=0)]}, "below": 1}, "seeds 0, 1"),
        ({"descending": [value(), value(of="a", part="grid", setting="lr=2")]}, "one seed"),
        ({"diverges": [{"of": "wild"}]}, "one seed"),
        ({"value": value(of="nobody"), "below": 1}, ""),
    ],
)
def test_seeds_are_judged_one_by_one_too(check, seeds):
    assert verdict(check).seeds == seeds


def test_the_numbers_of_each_seed_are_told():
    each = verdict({"descending": [value(of="slow"), value()], "by": 8}).each
    assert each == {0: (True, (4.0, 0.5)), 1: (True, (2.0, 0.25))}


def test_it_is_told_in_plain_values():
    plain = verdict({"value": to(1.0, "slow"), "above": 4}).as_plain()
    assert plain["values"] == ["never"]
    assert plain["check"] == {"value": {"of": "slow", "rounds_to": {"loss": 1.0}}, "above": 4.0}
    assert (plain["measured"], plain["holds"]) == ("never (claimed: above 4)", True)
    assert plain["status"] == "holds"
    assert isinstance(Claim.model_validate({**RAW_CLAIM, "check": plain["check"]}), Claim)


RAW_CLAIM = {"says": "x", "where": "y"}


def test_parameters_are_those_of_the_final_model_and_a_mean_over_seeds(tmp_path):
    runs = []
    for seed, x in enumerate(([1.0, 2.0, 3.0], [3.0, 2.0, 5.0])):
        folder = tmp_path / str(seed)
        folder.mkdir()
        np.savez(folder / "model.npz", x=x)
        runs.append(run("fast", seed, rows([8.0, 4.0]), folder=folder))
    recorded = {"main": runs}

    def judged(check):
        raw = {"says": "x", "where": "y", "check": check}
        parts = {"main": {"about": "z"}}
        claims = Claims.model_validate({"source": "s", "parts": parts, "claims": [raw]})
        return judge(claims, claims.claims[0], recorded)

    found = {"parameters": [2, 0], "of": "fast"}
    assert judged({"value": found, "equals": [4, 2]}).holds
    assert judged({"value": found, "equals": [4, 3]}).measured == "4, 2 (claimed: 4, 3)"
    other = judged({"value": {"parameters": [3], "of": "fast"}, "above": 0})
    assert other.holds is False
    assert other.measured == "fast, seed 0 has 3 parameters, counted from 0"


@pytest.mark.parametrize(
    ("margin", "holds"),
    [
        ({"apart": 1.0}, True),
        ({"apart": 1.01}, False),
        ({"by": 1.3, "apart": 1.0}, True),
        ({"by": 1.4, "apart": 1.0}, False),
    ],
)
def test_an_order_may_have_a_margin_in_units_of_the_column(margin, holds):
    pair = [value(of="slow", at=4), value(of="slow", at=2, seed=1)]
    judged = verdict({"ascending": pair, **margin})
    assert judged.values == (3.0, 4.0)  # the first is a mean over two seeds
    assert judged.holds is holds
    assert f"{margin['apart']:g} apart" in judged.measured
