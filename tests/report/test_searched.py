"""A search on the page: importance by hand, trials in colour and grey, winners everywhere else."""

import math

import numpy as np
import pytest
import yaml

from rayfed.core.errors import ScenarioError
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles
from rayfed.report.gallery import figure
from rayfed.report.page.report import page
from rayfed.report.panels.search import coordinates, importance, trials
from rayfed.report.read.results import Results
from rayfed.report.searched import Searched, rank_share
from rayfed.study.scenario.distributions import Distribution

LR = Distribution("log", (1e-4, 1.0))


class TestRankShare:
    def test_two_choices_by_hand(self):
        """Ranks 1 to 4 have variance 5/4, each half 1/4: 1 - (1/5) (3/2)."""
        held = Distribution("choice", ("a", "b"))
        scores = np.array([10.0, 20.0, 30.0, 40.0])
        assert rank_share(["a", "a", "b", "b"], held, scores) == pytest.approx(0.7)
        assert rank_share(["a", "b", "b", "a"], held, scores) == 0.0
        assert rank_share(["a", "a", "a", "a"], held, scores) == 0.0
        assert rank_share(["a", "b", "a", "b"], held, np.ones(4)) == 0.0

    def test_the_middle_of_a_range_is_seen_where_no_correlation_is(self):
        places = (np.arange(40) + 0.5) / 40
        scores = np.round(np.abs(places - 0.5), 6)
        share = rank_share([LR.at(u) for u in places], LR, scores)
        # places come in pairs, which share the ranks 1.5, 3.5, ...: variance 4 (20^2 - 1) / 12;
        # a quarter has ten that follow each other: 4 (10^2 - 1) / 12
        assert share == pytest.approx(1 - (33 / 133) * 39 / 36)

    def test_failures_are_last_however_many(self):
        held = Distribution("choice", ("a", "b"))
        few = rank_share(["a", "a", "b", "b"], held, np.array([1.0, 2.0, math.inf, math.inf]))
        assert few == pytest.approx(1 - (0.125 / 1.125) * 1.5)  # ranks 1, 2, 3.5, 3.5

    def test_a_key_that_does_not_matter_explains_nothing_on_average(self):
        rng = np.random.default_rng(0)
        held = Distribution("choice", (1, 2, 3))
        raw = []
        for _ in range(300):
            values, scores = rng.integers(1, 4, 24), rng.random(24)
            raw.append(rank_share(values.tolist(), held, scores))
        assert np.median(raw) == 0.0
        assert np.mean(raw) < 0.06  # only negative estimates are cut off


@pytest.fixture
def folder(tmp_path, run_writer, rows):
    """Write a search of two algorithms, 12 trials of one and the one of the other."""
    text = {
        "name": "hand-made",
        "algorithms": [{"name": "fedavg"}, {"name": "fedexp"}],
        "search": {
            "algorithms.0.local.lr": {"log": [1e-4, 1]},
            "algorithms.0.how": {"choice": ["a", "b"]},
        },
    }
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(text))
    for number in range(1, 13):
        lr, how = LR.at((number - 0.5) / 12), "ab"[number % 2]
        for seed in (0, 1):
            end = 0.1 + 0.1 * abs(number - 8) + 0.001 * seed  # the eighth is best
            made = rows([2.0, 1.0, end], "fedavg", seed)
            if number == 12:
                made = rows([2.0, 500.0, 1e6], "fedavg", seed)
            made["validation_loss"] = made["loss"]
            values = {"algorithms.0.local.lr": lr, "algorithms.0.how": how}
            run_writer(
                tmp_path, "fedavg", seed, made, setting=f"trial {number}, lr={lr}, how={how}",
                folder=f"fedavg-trial-{number}-seed{seed}",
                trial={"number": number, "values": values},
                settings={"name": "fedavg", "local": {"lr": lr}, "how": how},
                status="failed" if number == 1 and seed else "finished",
                stopped_by="pruned" if number == 2 else "rounds",
            )  # fmt: skip
    for seed in (0, 1):
        made = rows([2.0, 1.0, 0.5], "fedexp", seed)
        made["validation_loss"] = made["loss"]
        run_writer(
            tmp_path, "fedexp", seed, made, trial={"number": 1, "values": {}},
            settings={"name": "fedexp"}, setting="",
        )  # fmt: skip
    return tmp_path


@pytest.fixture
def results(folder):
    return Results.read(folder)


def test_the_best_trials_go_by_their_labels(results):
    found = Searched.of(results)
    assert found.labels == ("fedavg", "fedexp")
    assert found.winners.names == ("fedavg", "fedexp")
    assert [run.info["trial"]["number"] for run in found.winners.runs_found] == [8, 8, 1, 1]
    assert len(found.others("fedavg")) == 11
    assert len(found.others("fedexp")) == 0
    (winner, _) = found.best.winners
    assert (winner.tried, winner.failed) == (12, 1)
    assert not found.chosen("fedavg").pruned


def test_the_best_trial_is_in_colour_and_the_rest_thin_and_grey(results):
    styles = algorithm_styles(Searched.of(results).winners)
    for drawn in (trials(results), coordinates(results)):
        parts = {"mean": [], "best": [], "rest": [], "label": []}
        for trace in drawn.data:
            parts[trace.meta["part"]].append(trace)
        chosen = [*parts["mean"], *parts["best"]]
        assert {t.line.color for t in chosen} <= {style.light for style in styles.values()}
        assert {t.line.color for t in parts["rest"]} == {LIGHT["strip"]}
        assert max(t.line.width for t in parts["rest"]) < min(t.line.width for t in chosen)


def test_a_trial_that_went_wrong_sets_no_scale(results):
    low, high = trials(results).layout.yaxis.range
    assert 10**high < 5 or high < 5
    assert low < high


def test_a_line_crosses_the_axes_at_what_the_trial_chose(results):
    drawn = coordinates(results)
    best = next(t for t in drawn.data if t.meta["part"] == "best")
    assert best.x == pytest.approx([0, 0.5, 1])
    assert best.y[:2] == pytest.approx([7.5 / 12, 0.25], abs=1e-3)  # "a" is the first of two
    assert best.y[2] == 1.0  # the best is at the top
    written = {trace.text[0] for trace in drawn.data if trace.meta["part"] == "label"}
    assert {"fedavg", "lr", "how", "1e-4", "1", "a", "b", "validation loss"} <= written
    failed = [t for t in drawn.data if "failed" in str(t.hovertemplate)]
    assert [t.y[2] for t in failed] == [0.0]
    assert any("pruned" in str(t.hovertemplate) for t in drawn.data)


def test_the_key_that_matters_has_the_longer_bar(results):
    (bar,) = importance(results).data
    assert bar.y == ("lr", "how")
    assert bar.x[0] > 0.5 > bar.x[1]


def test_the_page_shows_the_winners_and_what_the_search_found(results):
    text = page(results)
    assert "What did the search find?" in text
    assert "The best validation loss is 0.1" in text
    assert "fedavg in 12 trials" in text
    assert 'id="coordinates-title"' in text
    assert 'id="importance-title"' in text
    assert 'id="sweep-title"' not in text
    names = [name for name in ("fedavg (trial 3", "trial 11") if name in text]
    assert not names


def test_figures_of_a_search_are_had_by_name_and_refused_elsewhere(
    results, tmp_path, run_writer, rows
):
    assert len(figure(results, "trials", {}).data) == 4
    run_writer(tmp_path / "plain", "fedavg", 0, rows([2.0, 1.0]))
    plain = Results.read(tmp_path / "plain")
    assert Searched.of(plain) is None
    for kind in ("trials", "coordinates", "importance"):
        with pytest.raises(ScenarioError, match="holds no search; rayfed sweep makes one"):
            figure(plain, kind, {})
