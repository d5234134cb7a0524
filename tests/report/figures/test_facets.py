"""Figures of cases side by side: axes in rows, labels above them."""

import pytest

from rayfed.report.figures import marks
from rayfed.report.figures.facets import arrange, is_panel, side_by_side
from rayfed.report.figures.style import canvas
from rayfed.report.paper.sheets import laid_out


def drawn(low, high):
    figure = canvas(300)
    marks.lines(figure, "mean", [0, 1], [low, high], {"color": "#000"}, of="a", name="a")
    figure.add_shape(type="line", y0=low, y1=low, x0=0, x1=1, xref="paper")
    return figure.update_yaxes(range=[low, high], type="linear").update_xaxes(range=[0, high])


@pytest.fixture
def figure():
    return side_by_side({f"case {k}": drawn(k, k + 2) for k in range(4)})


def test_four_cases_are_three_and_one(figure):
    lefts = [figure.layout[f"xaxis{k}"].domain[0] for k in ("", 2, 3, 4)]
    tops = [figure.layout[f"yaxis{k}"].domain[1] for k in ("", 2, 3, 4)]
    assert lefts[0] == lefts[3] < lefts[1] < lefts[2]
    assert tops[0] == tops[1] == tops[2] > tops[3]
    assert [label.text for label in figure.layout.annotations] == [f"case {k}" for k in range(4)]
    assert [label.y for label in figure.layout.annotations] == tops


@pytest.mark.parametrize("titles", [("loss", "loss", "loss"), ("loss", "loss", "accuracy")])
def test_axes_of_a_row_are_equally_wide_and_equally_far_apart(titles):
    figures = {str(k): drawn(1, 2).update_yaxes(title_text=t) for k, t in enumerate(titles)}
    layout = side_by_side(figures).layout
    (a, b), (c, d), (e, f) = (layout[f"xaxis{k}"].domain for k in ("", 2, 3))
    assert b - a == pytest.approx(d - c) == pytest.approx(f - e)
    assert c - b == pytest.approx(e - d)
    assert (a, f) == (0, pytest.approx(1))


def test_axes_have_the_range_around_all_and_shapes_their_own(figure):
    assert figure.layout.yaxis3.range == (0, 5)
    assert figure.layout.xaxis.range == (0, 5)
    assert [(shape.xref, shape.yref) for shape in figure.layout.shapes][1] == ("x2 domain", "y2")
    assert [trace.showlegend for trace in figure.data] == [True, False, False, False]


def test_other_scales_are_not_joined():
    mixed = side_by_side(
        {"x": drawn(1, 2), "y": drawn(1, 9).update_yaxes(type="log", range=[0, 1])}
    )
    assert mixed.layout.yaxis.range == (1, 2)


def test_axes_with_other_titles_have_ranges_and_tick_labels_of_their_own():
    figures = {"(a)": drawn(1, 2), "(b)": drawn(1, 9), "(c)": drawn(0, 50)}
    for title, figure in zip(("loss", "loss", "accuracy"), figures.values(), strict=True):
        figure.update_yaxes(title_text=title)
    layout = side_by_side(figures).layout
    assert [layout[f"yaxis{k}"].range for k in ("", 2, 3)] == [(1, 9), (1, 9), (0, 50)]
    assert layout.xaxis3.range == (0, 50)  # of all, with no title
    assert [layout[f"yaxis{k}"].title.text for k in ("", 2, 3)] == ["loss", "loss", "accuracy"]
    assert all(layout[f"yaxis{k}"].showticklabels for k in ("", 2, 3))


def test_labels_at_line_ends_become_one_legend_and_other_texts_stay():
    one = drawn(1, 2).add_annotation(x=1, y=2, text="note").add_annotation(
        text="a", name="a", xref="paper", x=1, xshift=6, y=2
    )  # fmt: skip
    both = side_by_side({"(a)": one, "(b)": drawn(1, 2)})
    notes = {note.text: (note.xref, note.yref) for note in both.layout.annotations}
    assert notes == {"note": ("x", "y"), "(a)": ("paper", "paper"), "(b)": ("paper", "paper")}
    assert [trace.name for trace in both.data if trace.showlegend] == ["a"]


def test_a_panel_has_one_pair_of_axes_and_no_colour_scale():
    assert is_panel(drawn(0, 1))
    assert not is_panel(drawn(0, 1).update_layout(yaxis2={"range": [0, 1]}))
    assert not is_panel(canvas(200).add_heatmap(z=[[1]]))


def test_a_column_of_a_paper_has_one_below_the_other(figure):
    sheet = laid_out(figure, "column").figure
    assert len({sheet.layout[f"xaxis{k}"].domain for k in ("", 2, 3, 4)}) == 1
    tops = [sheet.layout[f"yaxis{k}"].domain[1] for k in ("", 2, 3, 4)]
    assert tops == sorted(tops, reverse=True)
    assert sheet.layout.height > laid_out(figure, "full").figure.layout.height


def test_a_figure_without_cases_is_left_alone():
    alone = drawn(0, 1)
    assert arrange(alone, 1).layout.xaxis.domain is None
