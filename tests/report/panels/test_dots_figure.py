"""Drift by layer, accuracy by class, time by step: dots, and what is said of them."""

import json

import numpy as np
import pytest

from rayfed.problems.picture import Picture
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.layers import LayersPanel, layers
from rayfed.report.panels.predictions import ClassesPanel, classes
from rayfed.report.panels.profile import ProfilePanel, profile
from rayfed.report.read.curves import y_columns
from rayfed.report.read.results import Results
from rayfed.runs.files.store import publish_npz

NAN = float("nan")


@pytest.fixture
def drifting(tmp_path, run_writer, rows):
    """FedAvg under two seeds and FedExP under one; the last row was not evaluated."""
    for label, seed, body, head in (
        ("fedavg", 0, 0.1, 0.3), ("fedavg", 1, 0.2, 0.5), ("fedexp", 0, 0.05, 0.1),
    ):  # fmt: skip
        drift = {
            "layer_drift.body": [0.9, body, NAN, NAN],
            "layer_drift.head": [0.9, head, NAN, NAN],
        }
        run_writer(tmp_path, label, seed, rows([8, 4, 3, 2], **drift))
    return Results.read(tmp_path)


def rows_of(figure):
    return list(figure.layout.yaxis.ticktext)


def dots(figure):
    names = rows_of(figure)
    return {
        t.name: dict(zip([names[y] for y in t.y], np.round(t.x, 12), strict=True))
        for t in figure.data
    }


def test_layers_have_the_last_drift_of_each_algorithm(drifting):
    expected = {"fedavg": {"body": 0.15, "head": 0.4}, "fedexp": {"body": 0.05, "head": 0.1}}
    figure = layers(drifting)
    assert dots(figure) == expected
    assert rows_of(figure) == ["body", "head"]


def test_drifts_are_no_choices_of_the_convergence_figure(drifting):
    assert not [column for column in y_columns(drifting) if "drift" in column]


def test_without_drift_there_is_no_panel(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    results = Results.read(tmp_path)
    assert not LayersPanel(PageSource(results)).applies
    assert not ClassesPanel(PageSource(results)).applies
    with pytest.raises(ValueError, match=r"give evaluate\.measures: \[layers\]"):
        layers(results)


@pytest.fixture
def classified(tmp_path, run_writer, rows):
    """Two algorithms on six rows of three classes, of which c has none."""
    y = np.array([0, 0, 0, 0, 1, 1, 3])
    for label, predicted in (("fedavg", [0, 0, 0, 1, 1, 0, 3]), ("fedexp", [0, 0, 0, 0, 1, 1, 1])):
        run_writer(tmp_path, label, 0, rows([2, 1]), classes=["a", "b", "c", "d"])
        picture = Picture.of_classes(y, np.array(predicted))
        publish_npz(tmp_path / f"{label}-seed0" / "fit.npz", picture.arrays())
    return Results.read(tmp_path)


def test_classes_are_in_order_of_how_hard_they_are(classified):
    figure = classes(classified)
    assert dots(figure) == {
        "fedavg": {"a": 0.75, "b": 0.5, "d": 1.0},
        "fedexp": {"a": 1.0, "b": 1.0, "d": 0.0},
    }
    assert rows_of(figure) == ["d", "b", "a"]


@pytest.fixture
def profiled(tmp_path, run_writer, rows):
    """FedAvg under two seeds, the second in actors, and FedExP without a profile."""
    for seed, more in enumerate(({}, {"computing_mean_actor": 0.3})):
        seconds = {"clock": 0.1, "computing": 0.4 + 0.4 * seed, "records": 0.1}
        run = run_writer(tmp_path, "fedavg", seed, rows([2, 1]))
        held = {"rounds": 100, "seconds": seconds} | more
        (run / "profile.json").write_text(json.dumps(held))
    run = run_writer(tmp_path, "fedexp", 0, rows([2, 1]))
    (run / "profile.json").write_text('{"rounds": ')
    return Results.read(tmp_path)


def test_steps_have_milliseconds_of_a_round(profiled):
    expected = {"clock": 1.0, "computing": 6.0, "mean actor": 3.0, "records": 1.0}
    figure = profile(profiled)
    assert dots(figure) == {"fedavg": expected}
    assert rows_of(figure) == list(expected)
    panel = ProfilePanel(PageSource(profiled))
    assert panel.applies


def test_without_a_profile_there_is_no_panel(drifting):
    assert not ProfilePanel(PageSource(drifting)).applies
    with pytest.raises(ValueError, match="run the study with --profile"):
        profile(drifting)


def test_an_algorithm_without_a_layer_leaves_the_scale_logarithmic(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([2, 1], **{"layer_drift.body": [NAN, 0.01]}))
    run_writer(tmp_path, "b", 0, rows([2, 1], **{"layer_drift.head": [NAN, 0.5]}))
    axis = layers(Results.read(tmp_path)).layout.xaxis
    assert (axis.type, axis.range[1] > np.log10(0.5)) == ("log", True)


@pytest.mark.parametrize(("middle", "alike"), [("attention", False), ("attention" * 5, True)])
def test_rows_with_long_names_stay_apart(tmp_path, run_writer, rows, middle, alike):
    names = [f"encoder.{middle}.{k}.{middle}.weight" for k in (3, 4)]
    drift = {f"layer_drift.{name}": [NAN, 0.1 * k] for k, name in enumerate(names, 1)}
    run_writer(tmp_path, "fedavg", 0, rows([2, 1], **drift))
    figure = layers(Results.read(tmp_path))
    (trace,) = figure.data
    first, second = rows_of(figure)
    assert (first == second, first == names[0]) == (alike, not alike)
    assert dict(zip(trace.y, trace.x, strict=True)) == {0: 0.1, 1: 0.2}
    assert list(figure.layout.yaxis.range) == [1.5, -0.5]  # the first row is at the top


def test_layers_keep_the_order_of_the_model_where_an_algorithm_lacks_one(
    tmp_path, run_writer, rows
):
    for label, names in (("a", ("stem", "body", "head")), ("b", ("stem", "head"))):
        drift = {f"layer_drift.{name}": [NAN, 0.1] for name in names}
        run_writer(tmp_path, label, 0, rows([2, 1], **drift))
    assert rows_of(layers(Results.read(tmp_path))) == ["stem", "body", "head"]
