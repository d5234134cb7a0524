"""Algorithms by case, worked out by hand; ranks by the tables of Demšar (JMLR 7, 2006)."""

import math

import numpy as np
import pandas as pd
import pytest

from rayfed.report.pivot import Ranks, overview_table, pivot, ranks, standings
from rayfed.report.read.results import Results
from rayfed.report.tables import summary, text_columns

# "a" leads by 2 with both seeds at 1.0, "b" by 3 at 3.0; at 2.0 "a" leads with one seed alone.
ENDS = {
    "1.0": {"a": [0.9, 1.1], "b": [2.9, 3.1]},
    "2.0": {"a": [1.9, 2.1], "b": [2.3, 2.1]},
    "3.0": {"a": [3.9, 4.1], "b": [0.9, 1.1]},
}


@pytest.fixture
def results(tmp_path, case_writer):
    return Results.read(case_writer(tmp_path, ENDS))


def test_a_row_an_algorithm_and_a_column_a_case(results):
    names, *cases = pivot(results, "loss")
    assert (names.title, names.texts) == ("final loss", ("a", "b"))
    assert [case.title for case in cases] == ["alpha = 1", "alpha = 2", "alpha = 3"]
    assert cases[0].texts == ("1.00 ± 0.14", "3.00 ± 0.14")
    assert cases[2].values == pytest.approx((4.0, 1.0))


def test_the_best_is_bold_only_where_it_is_better(results):
    assert [case.best for case in pivot(results, "loss")[1:]] == [
        (True, False), (False, False), (False, True),
    ]  # fmt: skip
    assert [one.verdict.level for one in standings(results, "loss").values()] == [
        ("a",),
        ("a", "b"),
        ("b",),
    ]


def test_of_many_cases_each_is_a_row(tmp_path, case_writer):
    ends = {f"{k}.0": {"a": [1.0 + k] * 3, "b": [9.0 - k] * 3} for k in range(1, 8)}
    names, *algorithms = pivot(Results.read(case_writer(tmp_path, ends)), "loss")
    assert names.texts == tuple(f"alpha = {k}" for k in range(1, 8))
    assert [column.title for column in algorithms] == ["a", "b"]
    assert algorithms[0].best == (True, True, True, False, False, False, False)
    assert algorithms[1].best == (False, False, False, False, True, True, True)


def test_an_algorithm_that_a_case_lacks_and_one_that_goes_on(
    tmp_path, case_writer, run_writer, rows
):
    # The differences are 1 and 1.1: t is 21, beyond the 12.7 of one degree of freedom.
    ends = {"1.0": {"a": [1, 1.2], "b": [2, 2.3]}, "2.0": {"b": [2, 2.3], "c": [3, 3.4]}}
    folder = case_writer(tmp_path, ends)
    run_writer(folder, "c", 0, rows([8, 0.5]), folder="c-1.0-seed0", setting="alpha=1.0",
               status="running", scenario={})  # fmt: skip
    _, first, second = pivot(Results.read(folder), "loss")
    assert first.texts == ("1.10 ± 0.14", "2.15 ± 0.21", "0.5 so far")
    assert first.best == (True, False, False)
    assert second.texts == ("-", "2.15 ± 0.21", "3.20 ± 0.28")


def test_of_many_settings_of_an_algorithm_the_best_of_a_case_counts(tmp_path, run_writer, rows):
    """Five steps of two algorithms in two cases; in each case another step is the best."""
    text = "grid: {rounds: [1, 2], algorithms.*.lr: [1, 2, 3, 4, 5]}\n"
    (tmp_path / "scenario.yaml").write_text(f"{text}algorithms: [{{name: a}}, {{name: b}}]\n")
    for count in (1, 2):
        for lr in range(1, 6):
            for label, more in (("a", 1.0), ("b", 0.5)):
                end = more + abs(lr - 2 * count)
                run_writer(tmp_path, label, 0, rows([9, end]), folder=f"{label}{count}{lr}",
                           setting=f"rounds={count}, lr={lr}", scenario={})  # fmt: skip
    names, first, second = pivot(Results.read(tmp_path), "loss")
    assert names.texts == ("a", "b")
    assert first.texts == second.texts == ("1", "0.5")


def test_at_a_glance_deviations_give_way(results):
    assert list(overview_table(results)) == ["final loss", "alpha = 1", "alpha = 2", "alpha = 3"]
    assert overview_table(results, 40)["alpha = 1"].tolist() == ["1.00", "3.00"]


def test_costs_are_to_the_target_of_the_case_and_the_best_is_that_of_the_case(results):
    """The worst run ends at 3.1, 2.3 and 4.1; each run is half way there after its first round."""
    frame = summary(results)
    assert frame.groupby("target").size().to_dict() == {2.3: 2, 3.1: 2, 4.1: 2}
    names, rounds, *_ = text_columns(results, frame)
    assert names.texts == tuple(f"{label} (alpha={x})" for x in ENDS for label in "ab")
    assert rounds.title == "rounds to the target"
    # At 1.0, 4.5 is not yet 3.1; at 3.0 "b" is at 4.5, too, and all need two rounds.
    assert set(rounds.texts) == {"2 ± 0"}
    loss = text_columns(results, frame)[-1]
    assert loss.best == (True, False, False, False, False, True)


# Table 5 a of the paper: q at 5 % for 2 to 10 algorithms.
DEMSAR = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}


@pytest.mark.parametrize("k", [3, 4, 7, 10])
def test_the_critical_difference_is_that_of_the_paper_s_table(k):
    rng = np.random.default_rng(k)
    found = Ranks.of(pd.DataFrame(rng.random((14, k))), higher=False)
    assert found.critical == pytest.approx(DEMSAR[k] * math.sqrt(k * (k + 1) / (6 * 14)), rel=5e-4)


def test_four_algorithms_on_fourteen_data_sets_need_a_difference_of_1_25():
    """The example of section 3.2.2 of the paper."""
    found = Ranks.of(pd.DataFrame(np.random.default_rng(0).random((14, 4))), higher=True)
    assert round(found.critical, 2) == 1.25


def test_ranks_share_ties_and_friedman_s_test_is_that_of_the_formula():
    """Six cases: "a" is first in all, "b" and "c" take turns, but tie in none.

    Mean ranks are 1, 2.5 and 2.5, so that chi2 = 12 * 6 / (3 * 4) * (1 + 6.25 + 6.25 - 3 * 16 / 4)
    = 9, and with two degrees of freedom p = exp(-9 / 2).
    """
    turns = pd.DataFrame({"b": [2, 3] * 3, "a": [1] * 6, "c": [3, 2] * 3})
    found = Ranks.of(turns, higher=False)
    assert list(found.means.items()) == [("a", 1.0), ("b", 2.5), ("c", 2.5)]
    assert found.p == pytest.approx(math.exp(-4.5))
    tied = Ranks.of(pd.DataFrame({"a": [1, 1], "b": [1, 2], "c": [0, 3]}), higher=False)
    assert tied.means == {"a": 1.75, "c": 2.0, "b": 2.25}


def test_groups_are_the_largest_that_are_level():
    found = Ranks({"a": 1.0, "b": 1.9, "c": 2.8, "d": 4.3}, cases=20, p=0.0, critical=1.0)
    assert found.groups == [("a", "b"), ("b", "c")]
    apart = Ranks({"a": 1.0, "b": 2.0, "c": 3.0}, cases=99, p=0.0, critical=0.5)
    assert apart.groups == []
    level = Ranks({"a": 1.9, "b": 2.0, "c": 2.1}, cases=9, p=1.0, critical=0.5)
    assert level.groups == [("a", "b", "c")]


def test_ranks_need_five_cases_and_three_algorithms(tmp_path, results, case_writer):
    assert ranks(results, "loss") is None
    ends = {f"{k}.0": {"a": [1.0], "b": [2.0], "c": [3.0]} for k in range(5)}
    found = ranks(Results.read(case_writer(tmp_path / "five", ends)), "loss")
    assert found is not None
    assert found.means == {"a": 1.0, "b": 2.0, "c": 3.0}
    two = {f"{k}.0": {"a": [1.0], "b": [2.0]} for k in range(5)}
    assert ranks(Results.read(case_writer(tmp_path / "two", two)), "loss") is None


@pytest.mark.parametrize(("cases", "count"), [(5, 3), (15, 4), (9, 7)])
def test_the_tests_of_ranks_are_those_of_scipy(cases, count):
    from scipy import stats

    drawn = np.random.default_rng(cases).integers(0, 5, (cases, count)).astype(float)  # with ties
    found = Ranks.of(pd.DataFrame(drawn, columns=[*"abcdefg"[:count]]), higher=False)
    assert found.p == pytest.approx(stats.friedmanchisquare(*drawn.T).pvalue, rel=1e-9)
    quantile = stats.studentized_range.ppf(0.95, count, np.inf)
    expected = quantile / np.sqrt(2) * np.sqrt(count * (count + 1) / (6 * cases))
    assert found.critical == pytest.approx(expected, rel=1e-9)
