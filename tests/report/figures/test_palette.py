"""Colours: distinct, readable on both backgrounds, one to one between them."""

import plotly.graph_objects as go
import pytest

from rayfed.report.figures.palette import (
    CONTRAST,
    DARK,
    LIGHT,
    clear,
    contrast,
    dark,
    line_styles,
    luminance,
    mix,
    to_dark,
)

NAMES = [f"algorithm {i}" for i in range(12)]


def test_contrast_follows_the_published_formula():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    # #777777 on white is the well-known near miss of 4.5:1.
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)
    assert luminance("#ff0000") == pytest.approx(0.2126)


def test_mix_goes_from_one_colour_to_the_other():
    assert mix("#000000", "#ffffff", 0.0) == "#000000"
    assert mix("#000000", "#c86400", 0.5) == "#643200"


def test_every_colour_of_a_line_reads_on_its_background():
    for style in line_styles(
        [*NAMES, "centralised", "local-only"], ["centralised", "local-only"]
    ).values():
        assert contrast(style.light, LIGHT["background"]) >= CONTRAST - 0.05
        assert contrast(style.dark, DARK["background"]) >= CONTRAST - 0.05


@pytest.mark.parametrize("role", ["ink", "muted"])
def test_text_reads_on_its_background(role):
    assert contrast(LIGHT[role], LIGHT["background"]) >= CONTRAST
    assert contrast(DARK[role], DARK["background"]) >= CONTRAST


def test_twelve_algorithms_never_share_both_colour_and_dash():
    styles = line_styles(NAMES)
    assert len({(style.light, style.dash) for style in styles.values()}) == len(NAMES)
    assert len({(name, style.dash) for name, style in styles.items()}) == len(NAMES)


def test_light_and_dark_are_one_to_one():
    table = to_dark(line_styles([*NAMES, "b"], ["b"]))
    solid = {light: dark for light, dark in table.items() if light.startswith("#")}
    assert len(solid) == len(LIGHT) + len(NAMES) + 1
    assert {clear(light): clear(dark) for light, dark in solid.items()} == {
        light: dark for light, dark in table.items() if light not in solid
    }


def test_a_clear_colour_keeps_its_hue():
    assert clear("#0072b2") == "rgba(0,114,178,0)"


def test_baselines_are_grey_and_take_no_colour_from_the_others():
    with_baseline = line_styles(["b", "x"], ["b"])
    red, green, blue = (int(with_baseline["b"].light[i : i + 2], 16) for i in (1, 3, 5))
    assert max(red, green, blue) - min(red, green, blue) < 16
    assert with_baseline["x"] == line_styles(["x"])["x"]


def test_a_dark_figure_has_the_dark_colours():
    styles = line_styles(["x"])
    figure = go.Figure(layout={"paper_bgcolor": LIGHT["background"]})
    figure.add_scatter(x=[0], y=[1], line={"color": styles["x"].light})
    night = dark(figure, styles)
    assert night.layout.paper_bgcolor == DARK["background"]
    assert night.data[0].line.color == styles["x"].dark
    assert list(night.data[0].y) == [1]
