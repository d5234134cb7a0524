"""A figure of the page, laid out at the widths of a paper."""

from itertools import pairwise

import plotly.graph_objects as go
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.report.figures.clients import WORDS
from rayfed.report.figures.facets import side_by_side
from rayfed.report.figures.labels import GAP
from rayfed.report.figures.style import canvas
from rayfed.report.gallery import figure
from rayfed.report.paper.sheets import Font, laid_out
from rayfed.report.read.results import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory, study_writer):
    return Results.read(study_writer(tmp_path_factory.mktemp("s"), seeds=2, rounds=30))


@pytest.mark.parametrize(("size", "points"), [("column", 237.6), ("full", 504.0)])
@pytest.mark.parametrize(("font", "letters"), [(Font(), 8), (Font.parse("Times:10.5"), 10.5)])
def test_sizes_are_exact_and_letters_have_the_points_of_the_font(
    results, size, points, font, letters
):
    sheet = laid_out(figure(results, "convergence", {}), size, font)
    assert sheet.width_pt == pytest.approx(points)
    assert sheet.figure.layout.height * sheet.scale * 0.75 == pytest.approx(sheet.height_pt)
    assert sheet.figure.layout.font.size * sheet.scale * 0.75 == pytest.approx(letters)
    assert sheet.figure.layout.font.family == font.family


@pytest.mark.parametrize("text", ["", ":", "Times:", "Times:x", "a; b", ":3", "Times:100"])
def test_a_font_is_a_family_with_its_points(text):
    assert Font.parse("Times New Roman").pt == 8
    assert Font.parse("Times New Roman:9").family.startswith("Times New Roman, ")
    assert Font.parse(":9").family == Font().family
    with pytest.raises(ScenarioError, match=r"^font: ('.*' is no font; write|\d+ points; give)"):
        Font.parse(text)


def test_the_figure_of_the_page_stays_as_it_was(results):
    drawn = figure(results, "convergence", {})
    before = drawn.to_json()
    sheet = laid_out(drawn, "column").figure
    assert drawn.to_json() == before
    assert [list(trace.y) for trace in sheet.data] == [list(trace.y) for trace in drawn.data]


def test_names_at_the_ends_of_lines_stay_where_there_is_room(results):
    sheet = laid_out(figure(results, "convergence", {}), "full").figure
    names = {a.name: a for a in sheet.layout.annotations}
    assert set(names) == set(results.names)
    assert not sheet.layout.showlegend
    low, high = sheet.layout.yaxis.range
    room = sheet.layout.height - sheet.layout.margin.t - sheet.layout.margin.b
    at = sorted((a.y - low) / (high - low) * room + a.yshift for a in names.values())
    assert min(b - a for a, b in pairwise(at)) >= GAP - 1e-6
    assert at[0] >= -1e-6
    assert at[-1] <= room + 1e-6


def test_they_become_a_legend_where_there_is_none(results):
    sheet = laid_out(figure(results, "convergence", {}), "column").figure
    assert not [a for a in sheet.layout.annotations if a.name]
    shown = [trace.name for trace in sheet.data if trace.showlegend]
    assert shown == list(results.names)
    assert sheet.layout.margin.r == 16


def test_names_that_are_cut_alike_have_an_entry_each(tmp_path, run_writer, rows):
    names = [f"FedAvg, local steps {k} and momentum 0.9" for k in (3, 4)]
    for k, name in enumerate(names):
        run_writer(tmp_path, name, 0, rows([8, 4 - k], name))
    results = Results.read(tmp_path)
    one = figure(results, "convergence", {})
    both = side_by_side({"(a)": one, "(b)": one})
    for drawn in (both, laid_out(both, "column").figure, laid_out(one, "column").figure):
        shown = [trace for trace in drawn.data if trace.showlegend]
        assert [trace.meta["name"] for trace in shown] == names
        assert shown[0].name == shown[1].name  # else this test shows nothing


def test_what_the_page_explains_beside_a_figure_is_in_its_legend(results):
    sheet = laid_out(figure(results, "timeline", {"name": "fedavg", "seed": 0}), "full").figure
    bars = [trace for trace in sheet.data if trace.name and any(trace.x)]
    assert [trace.name for trace in sheet.data if trace.showlegend] == [t.name for t in bars]
    assert len(bars) > 1


@pytest.mark.parametrize("kind", ["timeline", "utilisation", "utilisation_of_clients"])
def test_a_legend_takes_less_of_a_column_than_the_bars(results, kind):
    layout = laid_out(figure(results, kind, {}), "column").figure.layout
    legend = layout.margin.t - 12
    assert 0 < legend < 0.6 * (layout.height - layout.margin.t - layout.margin.b)


def test_a_legend_of_several_rows_has_columns_over_the_width_of_the_plot():
    drawn = canvas(300)
    for place, name in enumerate(WORDS.values()):
        drawn.add_bar(x=[20], y=[place], orientation="h", name=name)
    layout = laid_out(drawn, "column").figure.layout
    room = layout.width - layout.margin.l - layout.margin.r
    assert room / 3 - 40 < layout.legend.entrywidth < room / 3  # three in a row
    assert layout.margin.t == 12 + 2 * 19


def test_rows_keep_their_height_and_plots_do_not():
    rows, plot = canvas(400), canvas(400)
    rows.add_bar(x=[1, 2], y=[0, 1], orientation="h")
    plot.add_scatter(x=[1, 2], y=[0, 1])
    assert laid_out(rows, "column").figure.layout.height == pytest.approx(400, abs=10)
    assert laid_out(plot, "column").figure.layout.height < 300


def test_texts_of_other_sizes_get_the_one_size():
    drawn = canvas(300)
    drawn.add_scatter(x=[1], y=[1], text=["a"], textfont={"size": 10})
    drawn.add_annotation(text="b", font={"size": 20})
    sheet = go.Figure(laid_out(drawn, "full").figure)
    assert (sheet.data[0].textfont.size, sheet.layout.annotations[0].font.size) == (13, 13)
