"""Figures by name: what is drawn where options are left out, and what a wrong name is told."""

import inspect
import sys

import plotly.graph_objects as go
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.report.gallery import figure, kinds
from rayfed.report.panels.base import find
from rayfed.report.panels.timeline import TimelinePanel
from rayfed.report.panels.walk import WalkPanel
from rayfed.report.read.results import Results


@pytest.fixture
def results(tmp_path, run_writer, rows):
    """Two algorithms and a baseline."""
    for label in ("centralised", "fedavg", "fedexp"):
        for seed in (3, 5):
            run_writer(tmp_path, label, seed, rows([8, 4, 2], test_loss=[9, 5, 3]))
    return Results.read(tmp_path)


@pytest.fixture
def swept(tmp_path, run_writer, rows):
    """Four step sizes."""
    (tmp_path / "scenario.yaml").write_text("name: s\ngrid: {local.lr: [1, 2, 3, 4]}\n")
    for lr in (1, 2, 3, 4):
        about = {"setting": f"lr={lr}", "folder": f"fedavg-{lr}"}
        about["settings"] = {"name": "fedavg", "local": {"lr": lr}}
        run_writer(tmp_path, "fedavg", 0, rows([8, 8 - lr]), **about)
    return Results.read(tmp_path)


def means(drawn):
    return {t.name: t.y.tolist() for t in drawn.data if t.meta and t.meta["part"] == "mean"}


def test_every_figure_of_the_package_has_a_name():
    named = kinds()
    for module in {sys.modules[panel.__module__] for panel in find()}:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            parameters = [*inspect.signature(function).parameters]
            of_sweep = parameters[1:2] == ["sweep"]  # which `sweep` finds
            if (
                function.__module__ == module.__name__
                and inspect.signature(function).return_annotation == "go.Figure"
                and parameters[0] == "results"
                and not (name.startswith("_") or of_sweep)
            ):
                assert named[name] is function
    expected = {"convergence", "fairness", "timeline", "participation", "personal", "walk"}
    assert expected <= named.keys()


def test_convergence_on_any_clock(results):
    drawn = figure(results, "convergence", {"x": "bytes_up", "y": "test_loss"})
    assert isinstance(drawn, go.Figure)
    assert means(drawn) == {name: [9, 5, 3] for name in ("centralised", "fedavg", "fedexp")}
    assert drawn.layout.xaxis.title.text == "bytes uploaded (B)"


def test_a_sweep_by_lines(swept):
    drawn = figure(swept, "sweep", {"column": "loss"})
    assert means(drawn) == {"fedavg": [7, 6, 5, 4]}


def test_what_shows_one_run_shows_the_first_rival(results, monkeypatch):
    def timeline(results, name, seed):
        return name, seed

    monkeypatch.setattr(TimelinePanel, "draws", (timeline,))
    assert figure(results, "timeline", {}) == ("fedavg", 3)
    assert figure(results, "timeline", {"seed": 5}) == ("fedavg", 5)
    assert figure(results, "timeline", {"name": "centralised"}) == ("centralised", 3)


def test_it_is_the_first_run_that_has_what_is_shown(results, monkeypatch):
    def walk(results, name, seed, round=None):
        if (name, seed) != ("fedexp", 5):
            raise ValueError(f"{name}, {seed} did not walk")
        return name, seed, round

    monkeypatch.setattr(WalkPanel, "draws", (walk,))
    assert figure(results, "walk", {"round": 2}) == ("fedexp", 5, 2)
    with pytest.raises(ScenarioError, match=r"^no run has the data of 'walk'; fedavg, 3 did not"):
        figure(results, "walk", {"name": "fedavg"})
    with pytest.raises(ScenarioError, match=r"^fedavg, 3 did not walk$"):
        figure(results, "walk", {"name": "fedavg", "seed": 3})


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        ("convergense", {}, "unknown figure 'convergense'; did you mean 'convergence'?"),
        ("convergence", {"xx": 1}, "unknown option of convergence 'xx'; did you mean 'x'?"),
        ("convergence", {"y": "losss"}, "unknown column 'losss'; did you mean 'loss'?"),
        ("convergence", {"x": "time"}, "unknown x 'time'; did you mean 'time_s'?"),
        ("timeline", {"name": "fedav"}, "unknown algorithm 'fedav'; did you mean 'fedavg'?"),
        ("timeline", {"seed": 7}, "unknown seed '7'; known: 3, 5"),
        ("sweep", {}, "this study swept neither one number nor two; see `summary`"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_nearest(results, kind, options, told):
    with pytest.raises(ScenarioError) as error:
        figure(results, kind, options)
    assert str(error.value) == told


def test_a_series_that_was_not_swept(swept):
    with pytest.raises(ScenarioError, match="unknown series 'fedav'; did you mean"):
        figure(swept, "sweep", {"series": "fedav"})


@pytest.fixture
def cases(tmp_path, case_writer):
    """Two algorithms in two cases, of which the second is better."""
    ends = {"0.1": {"fedavg": [4, 5], "fedexp": [3, 2]}, "1": {"fedavg": [1], "fedexp": [0.5]}}
    return Results.read(case_writer(tmp_path, ends))


def test_a_figure_of_an_unnamed_case_has_its_name_as_the_title(cases):
    drawn, named = figure(cases, "finals", {}), figure(cases, "finals", {"case": "alpha = 0.1"})
    assert drawn.layout.title.text == "alpha = 0.1"
    assert named.layout.title.text is None
    assert drawn.layout.height - named.layout.height == 24
    assert drawn.layout.margin.t - named.layout.margin.t == 24
    (dots,) = (t for t in drawn.data if t.meta["name"] == "fedavg" and t.meta["part"] == "seeds")
    assert list(dots.x) == [4, 5]
