"""Rankings against scipy, and the algorithms that have no part in them."""

import math

import numpy as np
import pytest
from scipy import stats

from rayfed.report.ranking import COSTS, Ranking, costs
from rayfed.report.read.results import Results
from rayfed.report.tables import summary, text_columns

# The last losses of five seeds; "centralised" is a baseline.
ENDS = {"a": [1.0, 1.2, 0.9, 1.1, 1.3], "b": [1.6, 1.5, 1.7, 1.4, 1.9],
        "c": [2.4, 1.1, 1.8, 1.0, 2.4], "centralised": [0.1] * 5}  # fmt: skip


@pytest.fixture
def study(tmp_path, run_writer, rows):
    """Return a function that writes runs that end at these losses, and reads them."""

    def write(ends, **info):
        for name, values in ends.items():
            for seed, end in enumerate(values):
                run_writer(tmp_path, name, seed, rows([8, end], name, seed), **info)
        return Results.read(tmp_path)

    return write


def test_final_values_are_ranked_by_means_and_compared_seed_by_seed(study):
    found = Ranking.of_finals(study(ENDS), "loss", ENDS)
    assert found.ranking == ("a", "b", "c")
    for name, values in ENDS.items():
        end = found.ends[name]
        assert (end.mean, end.sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    p = {name: stats.ttest_rel(ENDS[name], ENDS["a"]).pvalue for name in "bc"}
    assert p["b"] < p["c"]
    holm = {"b": 3 * p["b"], "c": max(3 * p["b"], 2 * p["c"])}  # of three pairs
    assert {c.other: c.p for c in found.verdict.comparisons} == pytest.approx(holm)
    assert holm["b"] < 0.05 < holm["c"]
    assert found.best is None
    two = Ranking.of_finals(study({}), "loss", ["a", "b", "centralised"])
    assert two.best == "a"


@pytest.mark.parametrize("status", ["running", "failed"])
def test_unfinished_and_failed_runs_take_no_part(study, run_writer, rows, tmp_path, status):
    study(ENDS | {"c": []})
    for seed in range(5):
        run_writer(tmp_path, "c", seed, rows([8, 0.2 + seed]), status=status)
    results = Results.read(tmp_path)
    found = Ranking.of_finals(results, "loss", results.names)
    assert (found.ranking, found.best) == (("a", "b"), "a")
    table = {c.title: c for c in text_columns(results, summary(results, target=2.0))}
    bold = dict(zip(table["algorithm"].texts, table["final loss"].best, strict=True))
    assert bold == {"centralised": False, "a": True, "b": False, "c": False}


def test_runs_that_may_still_reach_a_target_take_no_part(tmp_path, run_writer, rows):
    for seed in range(6):
        run_writer(tmp_path, "a", seed, rows([8, 2]))
        run_writer(tmp_path, "b", seed, rows([8, 7]))
        run_writer(tmp_path, "c", seed, rows([8, 7]), status="running")
        run_writer(tmp_path, "d", seed, rows([8, 7, 2]), status="running")
    results = Results.read(tmp_path)
    found = Ranking.of_costs(results, summary(results, target=2.0))["rounds_to_target"]
    assert found.ranking == ("a", "d", "b")
    assert found.ends["b"].values == dict.fromkeys(range(6), math.inf)
    p = stats.binomtest(6, 6).pvalue  # by signs, after "d"
    assert {c.other: c.p for c in found.verdict.comparisons}["b"] == pytest.approx(2 * p)


def test_an_algorithm_of_which_every_run_failed_has_no_rank_by_costs(tmp_path, run_writer, rows):
    for seed in range(3):
        run_writer(tmp_path, "a", seed, rows([8, 1]), status="failed")
        run_writer(tmp_path, "b", seed, rows([8, 7, 7, 1]))
        run_writer(tmp_path, "c", seed, rows([8, 7, 7, 7, 7, 7, 7, 7, 1]))
    results = Results.read(tmp_path)
    found = Ranking.of_costs(results, summary(results, target=2.0))["rounds_to_target"]
    assert (found.ranking, found.best) == (("b", "c"), "b")


def test_costs_by_seed(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 3, rows([8, np.nan, 3, 5, 3], energy_j=10.0))
    run_writer(tmp_path, "a", 5, rows([8, 7, 6, 5, 4.5]))
    found = costs(Results.read(tmp_path), "a", "loss", 4.0)
    assert found.index.tolist() == [3, 5]
    assert found.loc[3, [*COSTS]].tolist() == [2, 4, 1000, 200, 10, 30]
    assert found.loc[3, ["rounds_to_keep", "rounds_to_target_within"]].tolist() == [4, 2]
    assert found.loc[5].isna().all()


def test_costs_have_no_order_if_one_algorithm_starts_at_the_target(tmp_path, run_writer, rows):
    for seed in range(3):
        run_writer(tmp_path, "a", seed, rows([1, 0.5]))
        run_writer(tmp_path, "b", seed, rows([3, 0.7]))
    results = Results.read(tmp_path)
    found = Ranking.of_costs(results, summary(results, target=2.0))
    assert found["rounds_to_target"].verdict is None


def test_a_slow_baseline_does_not_blur_the_times_of_others(tmp_path, run_writer, rows):
    for seed in range(5):
        noise = 0.1 * seed
        times = {"a": 2.0 + noise, "b": 12.0 - noise, "centralised": 1000.0}
        for name, second in times.items():
            run_writer(tmp_path, name, seed, rows([8, 2], name, time_s=[0.0, second]))
    results = Results.read(tmp_path)
    frame = summary(results, target=2.0)
    found = Ranking.of_costs(results, frame)["time_to_target_s"]
    assert found.resolution == pytest.approx(11.8)  # the mean of b, of one round
    alone = frame[~frame["baseline"]]
    assert found.verdict == Ranking.of_costs(results, alone)["time_to_target_s"].verdict
