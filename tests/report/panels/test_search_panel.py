"""A search on the page: important keys, trials in colour and grey, winners everywhere else."""

import sys

import pytest
import yaml

from rayfed.core.distribution import Distribution
from rayfed.core.errors import ScenarioError
from rayfed.report.best import Searched
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles
from rayfed.report.gallery import figure
from rayfed.report.page.report import page
from rayfed.report.panels.search import coordinates, importance, trials
from rayfed.report.read.results import Results

LR = Distribution("log", (1e-4, 1.0))


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
    figure = importance(results)
    (bar,) = figure.data
    assert (bar.y, figure.layout.yaxis.ticktext) == ((0, 1), ("lr", "how"))
    assert figure.layout.yaxis.range == (1.5, -0.5)  # the first at the top
    assert bar.x[0] > 0.5 > bar.x[1]


def test_keys_that_end_alike_have_names_and_rows_of_their_own(tmp_path, run_writer, rows):
    keys = ["algorithms.0.local.lr", "algorithms.0.server.lr"]
    space = {key: {"log": [1e-4, 1]} for key in keys}
    scenario = {"name": "odd", "algorithms": [{"name": "fedavg"}], "search": space}
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    for number in range(12):
        chosen = [LR.at((number + 0.5) / 12), LR.at((5 * number % 12 + 0.5) / 12)]
        run_writer(
            tmp_path, "ours <i>", 0, rows([2.0, 1.0 + number]), setting=f"trial {number}",
            folder=f"trial-{number}-seed0",
            trial={"number": number, "values": dict(zip(keys, chosen, strict=True))},
            settings={"name": "fedavg", "number": number},
        )  # fmt: skip
    results = Results.read(tmp_path)
    shown = importance(results)
    assert {*shown.layout.yaxis.ticktext} == {"local.lr", "server.lr"}
    assert shown.data[0].y == (0, 1)
    lines = coordinates(results).data
    written = [trace.text[0] for trace in lines if trace.meta["part"] == "label"]
    assert {"local.lr", "server.lr", "ours &lt;i>"} <= {*written}
    best = next(trace for trace in lines if trace.meta["part"] == "best")
    assert best.hovertemplate.startswith("ours &lt;i>, local.lr 0.0001")


def test_shares_are_of_all_keys_whatever_failures_are_worse_by(results):
    shares = Searched.of(results).importance("fedavg")
    assert sum(shares.values()) == pytest.approx(1)
    assert Searched.of(results).importance("fedexp") == {}  # nothing was searched


def test_without_optuna_there_is_no_importance(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert Searched.of(results).importance("fedavg") == {}
    text = page(results)
    assert 'id="coordinates-title"' in text
    assert 'id="importance-title"' not in text


def test_the_page_shows_the_winners_and_what_the_search_found(results):
    text = page(results)
    assert "What did the search find?" in text
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
