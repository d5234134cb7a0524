"""The name of a target, where nothing is drawn."""

import pytest

from rayfed.report.figures.facets import side_by_side
from rayfed.report.figures.style import canvas
from rayfed.report.paper.free import place_targets

FREE = [(0, 1), (10, 1)]  # a line along the upper end


def drawn(points, dots=(), target=0.5):
    """A figure of 200 x 200 pixels over x from 0 to 10 and y from 0 to 1, with a target."""
    figure = canvas(200)
    x, y = zip(*points, strict=True)
    figure.add_scatter(x=x, y=y, mode="lines", name="a", meta={"part": "mean", "name": "a"})
    figure.add_scatter(x=dots, y=[target] * len(dots), mode="markers", meta={"part": "crossing"})
    label = {"texttemplate": "target %{y0:.6~g}", "textposition": "start", "yanchor": "top"}
    figure.add_shape(type="line", xref="paper", x0=0, x1=1, y0=target, y1=target, label=label)
    figure.update_xaxes(range=[0, 10]).update_yaxes(range=[0, 1], type="linear")
    return sized(figure, 200, 200)


def sized(figure, width, height):
    margin = {"l": 0, "r": 0, "t": 0, "b": 0}
    return figure.update_layout(width=width, height=height, margin=margin)


def label_of(figure, place=0):
    return figure.layout.shapes[place].label


def placed(figure):
    place_targets(figure)
    label = label_of(figure)
    return label.textposition, label.yanchor


@pytest.mark.parametrize(
    ("points", "dots", "place"),
    [
        (FREE, [], ("start", "top")),  # it stays
        (FREE, [9], ("start", "top")),
        (FREE, [2], ("end", "top")),  # the name has 70 of the 200 pixels
        (FREE, [1, 9], ("middle", "top")),
        ([(0, 0.45), (10, 0.45)], [], ("start", "bottom")),  # below the line is another one
        ([(0, 0.45), (5, 0.45), (5, 0.55), (10, 0.55)], [], ("start", "bottom")),
        ([(0, 1), (4, 0.5), (10, 0.47)], [], ("start", "top")),
    ],
)
def test_a_name_lies_where_nothing_is_drawn(points, dots, place):
    assert placed(drawn(points, dots)) == place


def test_a_name_stays_within_the_axes():
    position, anchor = placed(drawn(FREE, target=0.05))
    assert (position, anchor) == ("start", "bottom")


def test_a_band_covers_what_lies_between_its_edges():
    figure = drawn(FREE)
    figure.add_scatter(x=[0, 4, 4, 0], y=[0.9, 0.9, 0.1, 0.1], mode="lines", fill="toself")
    assert placed(figure)[0] == "end"
    figure.data[-1].visible = False
    label_of(figure).textposition = "start"
    assert placed(figure)[0] == "start"


def test_a_scale_may_be_logarithmic():
    """0.01 lies at half of the height of a scale from 0.0001 to 1, and 0.008 just below it."""
    figure = drawn([(0, 0.008), (10, 0.008)], target=0.01)
    figure.update_yaxes(range=[-4, 0], type="log")
    assert placed(figure)[1] == "bottom"


def test_of_several_panels_one_with_little_room_has_the_value_alone():
    crowded = [*([k, 0.4 + 0.2 * (k % 2)] for k in range(2, 11)), (10, 0.6)]
    both = side_by_side({"(a)": drawn(FREE), "(b)": drawn(crowded)})
    place_targets(sized(both, 400, 400))
    texts = [shape.label.texttemplate for shape in both.layout.shapes]
    assert texts == ["target %{y0:.6~g}", "%{y0:.6~g}"]
    one = drawn(crowded)
    place_targets(one)
    assert label_of(one).texttemplate == "target %{y0:.6~g}"  # it says what it is


def test_other_shapes_stay():
    figure = sized(canvas(200).add_shape(type="rect", x0=0, x1=1, y0=0, y1=1), 200, 200)
    before = figure.to_json()
    place_targets(figure)
    assert figure.to_json() == before
