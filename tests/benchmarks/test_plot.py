"""The figure of the ratios: one bar for each number that was measured, to scale."""

import math
from xml.etree import ElementTree

from benchmarks.measure import Measured
from benchmarks.plot import svg
from benchmarks.workloads import Size, large, w1, w3

SVG = "{http://www.w3.org/2000/svg}"


def case(ratio, pair=math.nan, of_actors=math.nan):
    return Measured(100, 10, 1, 1, 1, 1, 1, 1, ratio, 1, 1, pair, of_actors)


def test_bars_are_to_scale_and_what_was_not_measured_has_none():
    some = [(w1(Size()), [case(8.0)]), (w3(Size()), [case(2.0, pair=1.0, of_actors=4.0)])]
    figure = ElementTree.fromstring(svg([*some, (large(Size()), [case(math.nan)])]))
    bars = {
        (bar.get("class"), bar.findtext(f"{SVG}title")): float(bar.get("width"))
        for bar in figure.iter(f"{SVG}rect")
        if bar.find(f"{SVG}title") is not None
    }
    # the axis begins at 0.5: 8.0 is four doublings away, 2.0 two, 1.0 one; two actors do 2 / 4
    one = bars["bare", "1.00"]
    assert math.isclose(bars["ours", "8.00"], 4 * one, abs_tol=0.2)
    assert math.isclose(bars["ours", "2.00"], 2 * one, abs_tol=0.2)
    assert bars["actors", "0.50"] == 1.0
    assert len(bars) == 4
    names = [text.text for text in figure.iter(f"{SVG}text")]
    assert {"W1, 1 process", "W3, 2 processes"} <= set(names)
