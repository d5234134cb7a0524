"""Marks: named parts, and hovers that end."""

from rayfed.report.figures import marks
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import canvas


def test_a_mark_is_a_part_of_its_figure_and_of_an_algorithm():
    figure = canvas(200)
    marks.lines(figure, "mean", [0, 1], [2, 3], {"width": 1}, "%{y}", of="fedavg")
    marks.dots(figure, "end", [1], [3], {"size": 9})
    line, dot = figure.data
    assert line.meta == {"name": "fedavg", "part": "mean"}
    assert (line.hovertemplate, line.hoverinfo) == ("%{y}<extra></extra>", None)
    assert dot.meta == {"part": "end"}
    assert (dot.hovertemplate, dot.hoverinfo, dot.cliponaxis) == (None, "skip", False)


def test_what_is_given_wins_over_the_house_style():
    figure = canvas(200)
    marks.dots(figure, "dots", [1], [3], {}, cliponaxis=None, hovertemplate="%{x}", mode="text")
    (dot,) = figure.data
    assert (dot.cliponaxis, dot.hovertemplate, dot.mode) == (None, "%{x}", "text")


def test_bars_have_no_frame_and_a_pattern_where_one_is_named():
    figure = canvas(200)
    marks.bars(figure, "used", [1], [0], "#0072b2", "used")
    marks.bars(figure, "late", [1], [0], "#0072b2", "late", "/")
    plain, patterned = figure.data
    assert (plain.marker.line.width, plain.marker.pattern.shape) == (0, None)
    assert (patterned.marker.pattern.shape, patterned.marker.pattern.fgcolor) == (
        "/",
        LIGHT["background"],
    )
    marks.bars(figure, "late", [1, 2], [0, 1], ["#0072b2", "#c25600"], "late", "/")
    pattern = figure.data[2].marker.pattern
    # Plotly warns where the ground is a list.
    assert (pattern.fillmode, pattern.bgcolor) == ("overlay", "#0072b2")
