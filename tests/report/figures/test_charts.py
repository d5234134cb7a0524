"""Charts shared by panels: bars with parts, lines and steps, dots, and equal ones."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.figures import charts, marks
from rayfed.report.figures.style import canvas
from rayfed.report.read.results import Results


def test_each_part_of_a_bar_has_its_fill_its_pattern_and_its_hover():
    figure = charts.rows(["a", "b<c"], 30)
    assert list(figure.layout.yaxis.ticktext) == ["a", "b&lt;c"]
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    lengths = pd.DataFrame({"late": [1.0, 2.0], "used": [3.0, 4.0]})
    about = lengths.map(lambda value: f"{value:.0f} s")
    fills = {"used": ["#0072b2", "#c25600"], "late": "#eea21a"}
    names = {"used": "used", "late": "too late"}
    charts.parts(figure, [0, 1], lengths, fills, "{part}: %{customdata}", names, about)
    used, late = figure.data
    assert (list(used.x), list(used.customdata)) == ([3, 4], ["3 s", "4 s"])
    assert (used.marker.pattern.shape, late.marker.pattern.shape) == (None, "/")
    assert late.hovertemplate.startswith("too late: %{customdata}")


def test_steps_rise_from_the_least_value_and_the_axis_leaves_out_the_ends(
    tmp_path, run_writer, rows
):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    values = {"fedavg": np.append(np.arange(999.0), 1e6)}
    figure = charts.steps(Results.read(tmp_path), values, False, "%{y}", "time (s)", "rounds")
    (line,) = figure.data
    assert (line.x[0], line.y[0], line.y[-1]) == (0, 0, 100)
    assert figure.layout.xaxis.range[1] < 2000
    assert figure.layout.yaxis.title.text == "share of rounds (%)"


def test_dots_have_the_columns_of_their_hover_in_short():
    table = pd.DataFrame({"x": [0.1], "y": [2], "name": ["a"], "share": [1 / 3], "loss": [np.nan]})
    figure = canvas(200)
    charts.dots(figure, "clients", table, {}, "%{customdata[0]}", ["name", "share", "loss"])
    assert [list(about) for about in figure.data[0].customdata] == [["a", 0.33333, None]]


def drawn(other, axis="linear", kind=marks.lines):
    """Return a figure of two algorithms."""
    figure = canvas(200).update_yaxes(type=axis)
    kind(figure, "mean", [0, 2, 4], [1, 5, 10], {}, of="a")
    kind(figure, "mean", [0, 2, 4], other, {}, of="b")
    return figure


ALIKE, APART = [["a", "b"]], [["a"], ["b"]]


@pytest.mark.parametrize("kind", [marks.lines, marks.dots])
@pytest.mark.parametrize(("off", "groups"), [(0.0, ALIKE), (0.04, ALIKE), (0.06, APART)])
def test_lines_are_alike_to_within_half_a_percent_of_their_extent(kind, off, groups):
    assert charts.alike(drawn([1, 5, 10 - off], kind=kind)) == groups


def test_on_a_log_axis_factors_count():
    assert charts.alike(drawn([0.98, 5, 10], "log")) == APART
    assert charts.alike(drawn([0.98, 5, 10])) == ALIKE


def test_of_several_lines_those_on_each_other_are_a_group():
    figure = drawn([1, 6, 10])
    marks.lines(figure, "mean", [0, 2, 4], [1, 6, 10], {}, of="c")
    assert charts.alike(figure) == [["a"], ["b", "c"]]


def test_lines_without_points_are_not_compared():
    assert charts.alike(drawn([np.nan] * 3)) == [["a"]]
    own = canvas(200).add_bar(x=[1, 1], y=["a", "b"])  # a user's
    assert charts.alike(own.add_scatter(y=[1, 2], meta={"name": "a"})) == []


def test_dots_in_rows_are_compared_row_by_row(tmp_path, run_writer, rows):
    for label in ("a", "b"):
        run_writer(tmp_path, label, 0, rows([2, 1], label))
    results = Results.read(tmp_path)
    for other, groups in (([1.0, 2.0], ALIKE), ([2.0, 1.0], APART)):
        values = pd.DataFrame({"a": [1.0, 2.0], "b": other}, index=["body", "head"])
        assert charts.alike(charts.dotted_rows(results, values, "%{x}")) == groups


@pytest.mark.parametrize(("late", "groups"), [(1.0, ALIKE), (1.04, ALIKE), (1.06, APART)])
def test_bars_are_alike_where_all_their_parts_are(late, groups):
    figure = charts.rows(["a", "b"], 30).update_xaxes(range=[0, 10])
    lengths = pd.DataFrame({"used": [3.0, 3.0], "late": [1.0, late]})
    fills = {"used": "#0072b2", "late": "#eea21a"}
    charts.parts(figure, np.array([0.2, 1.2]), lengths, fills, "{part}")
    assert charts.alike(figure) == groups


def test_bars_are_alike_where_their_texts_are():
    figure = charts.rows(["a", "b"], 30).update_xaxes(range=[0, 10])
    lengths = pd.DataFrame({"used": [3.0, 3.0]})
    charts.parts(figure, np.array([0, 1]), lengths, {"used": "#0072b2"}, "{part}")
    figure.add_scatter(x=[3, 3], y=[0, 1], text=["3 s", "3 s"], mode="text")
    assert charts.alike(figure) == ALIKE
    figure.data[-1].text = ("3 s", "3 s, 1 late")
    assert charts.alike(figure) == APART


def test_lines_of_several_subplots_are_compared_in_each():
    figure = canvas(200).update_layout(xaxis2={}, yaxis2={})
    for name, second in (("a", [0.0, 1.0]), ("b", [1.0, 0.0])):
        figure.add_scatter(x=[0, 1], y=[0, 1000], meta={"name": name})
        figure.add_scatter(x=[0, 1], y=second, meta={"name": name}, xaxis="x2", yaxis="y2")
    assert charts.alike(figure) == APART
    figure.data[-1].y = (0.0, 1.0)
    assert charts.alike(figure) == ALIKE
