"""Colours: one per algorithm, grey for baselines, in a light and a dark variant.

The hues are those of Okabe and Ito (2008), "Color Universal Design", which people with any common
colour vision tell apart. They were made for filled areas; as thin lines and as text most are too
pale on white, so each is mixed with black (on white) or white (on near-black) in steps of 1 % until
its contrast is at least 4.5:1 (W3C, WCAG 2.2, 1.4.3). A dash pattern is the second channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Without sky blue, which the needed contrast on white turns into a second blue, and without yellow
# and black, which it turns into brown and into the grey of the baselines.
# These are #0072b2, #d55e00, #009e73, #cc79a7 and #e69f00, on white and on near-black.
OKABE_ITO = (
    ("#0072b2", "#2486bd"), ("#c25600", "#d55e00"), ("#008662", "#009e73"),
    ("#a36186", "#cc79a7"), ("#9c6c00", "#e69f00"),
)  # fmt: skip
DASHES = ("solid", "8px,3px", "2px,3px", "8px,3px,2px,3px", "14px,4px", "5px,2px")
BASELINE_DASHES = ("3px,3px", "1px,4px")

LIGHT = {
    "ink": "#1b1d1f",
    "muted": "#5c6166",
    "grid": "#e8eaec",
    "background": "#ffffff",
    "waiting": "#d4d7da",
    "late": "#eea21a",
    "dropped": "#d62f2f",
    "strip": "#b9bec3",
    "shade": "#f4f1ea",
}
DARK = {
    "ink": "#e9ebed",
    "muted": "#a3a9af",
    "grid": "#2b2f33",
    "background": "#121416",
    "waiting": "#42484d",
    "late": "#ffbe55",
    "dropped": "#ff6b6b",
    "strip": "#5a6167",
    "shade": "#24221c",
}


def mix(colour: str, other: str, amount: float) -> str:
    """Return a colour between two; `amount` is the share of the second, 0 to 1."""
    pairs = ((int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * amount):02x}" for a, b in pairs)


@dataclass(frozen=True)
class LineStyle:
    """Style of one algorithm everywhere on the page.

    Parameters
    ----------
    light, dark : str
        Its colour on white and on near-black, ``#rrggbb``.
    dash : str
        Its dash pattern, as Plotly and SVG write it.
    """

    light: str
    dark: str
    dash: str


def line_styles(names: Iterable[str], baselines: Iterable[str] = ()) -> dict[str, LineStyle]:
    """Give every algorithm its colour and dash, and every baseline a grey."""
    grey, plain = set(baselines), 0
    chosen: dict[str, LineStyle] = {}
    for name in names:
        if name in grey:
            step = len(grey & chosen.keys())
            light, dark = mix("#63686d", "#4c5156", step % 2), mix("#9aa0a6", "#b4babf", step % 2)
            chosen[name] = LineStyle(light, dark, BASELINE_DASHES[step % len(BASELINE_DASHES)])
            continue
        cycle, hue = divmod(plain, len(OKABE_ITO))
        # A second use of a hue is told apart by its dash, and by one step in each byte so that
        # light and dark stay one to one.
        light, dark = _step(OKABE_ITO[hue][0], -cycle), _step(OKABE_ITO[hue][1], cycle)
        chosen[name] = LineStyle(light, dark, DASHES[(hue + cycle) % len(DASHES)])
        plain += 1
    return chosen


def _step(colour: str, amount: int) -> str:
    parts = (int(colour[i : i + 2], 16) + amount for i in (1, 3, 5))
    return "#" + "".join(f"{min(255, max(0, part)):02x}" for part in parts)


def to_dark(chosen: Mapping[str, LineStyle]) -> dict[str, str]:
    """Return the dark counterpart of every light colour of the page."""
    solid = {LIGHT[role]: DARK[role] for role in LIGHT}
    solid |= {style.light: style.dark for style in chosen.values()}
    return solid | {clear(light): clear(dark) for light, dark in solid.items()}


def clear(colour: str) -> str:
    """Return an invisible colour, the start of a transparent scale."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0)"
