"""Colours: distinct, readable on both backgrounds, one to one between them."""

import pytest

from rayfed.report.figures.palette import (
    DARK,
    LIGHT,
    OKABE_ITO,
    clear,
    line_styles,
    mix,
    to_dark,
)

CONTRAST = 4.5
NAMES = [f"algorithm {i}" for i in range(12)]


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb`` in 0..1 (W3C, WCAG 2.2, 1.4.3)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (W3C, WCAG 2.2, 1.4.3)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_follows_the_published_formula():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    # #777777 on white is the well-known near miss of 4.5:1.
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)
    assert luminance("#ff0000") == pytest.approx(0.2126)


def test_colours_are_mixed_no_further_than_it_takes():
    hues = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00")
    for hue, kept in zip(hues, OKABE_ITO, strict=True):
        for colour, ground, end in zip(kept, (LIGHT, DARK), ("#000000", "#ffffff"), strict=True):
            steps = [mix(hue, end, step / 100) for step in range(101)]
            ground = ground["background"]
            assert colour == next(c for c in steps if contrast(c, ground) >= CONTRAST)


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
