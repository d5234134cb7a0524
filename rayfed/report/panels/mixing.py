"""What slow mixing of a walk costs: rounds to a goal against relaxation time."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import plotly.graph_objects as go

from rayfed.report.figures import mixing as mixing_figure
from rayfed.report.figures.palette import LineStyle
from rayfed.report.panels.base import FigurePanel, Section
from rayfed.report.panels.phrases import goal, joined, quoted
from rayfed.report.read import mixing, units
from rayfed.report.read.mixing import Mixing, Power


class MixingPanel(FigurePanel):
    """A dot for each walk that was tried, and the power law through them."""

    name: ClassVar[str] = "mixing"
    section = Section.SETTINGS
    rank = 10

    @cached_property
    def mixing(self) -> Mixing | None:
        """The walks with their rounds; None where nothing tells what mixing costs."""
        return mixing.find(self.results)

    @property
    def applies(self) -> bool:
        """Whether walks differ, all else alike, in runs that end at one goal."""
        return self.mixing is not None

    def title(self) -> str:
        """Return how many times the rounds a walk needs that takes twice as long to mix."""
        assert self.mixing is not None
        return title(self.mixing)

    def figure(self) -> go.Figure:
        """Return `figures.mixing`."""
        assert self.mixing is not None
        return mixing_figure(self.results, self.mixing.column.name)

    @property
    def missed(self) -> bool:
        """Whether any point did not reach the goal."""
        assert self.mixing is not None
        return not bool(self.mixing.points["reached"].all())

    @property
    def key(self) -> list[tuple[int, LineStyle, str]]:
        """The key of the lines, empty where there is one."""
        assert self.mixing is not None
        firsts = self.mixing.points.drop_duplicates("series")
        pairs = list(zip(firsts["series"], firsts["name"], strict=True))
        source = self.source
        key = [(source.colour_place(name), source.styles[name], series) for series, name in pairs]
        return key if len(key) > 1 else []


def title(walks: Mixing) -> str:
    """Return how many times the rounds a walk needs that takes twice as long to mix."""
    aim = goal(walks.column, walks.goal)
    if len(walks.powers) > 1:
        clauses = [
            f"{_factor(power)} as many with {quoted(series)} (power {_interval(power)})"
            for series, power in walks.powers.items()
        ]
        text = f"For a walk that takes twice as long to mix the rounds to {aim} are "
        return text + joined(clauses) + _missed(walks)
    (power,) = walks.powers.values()
    if power.low <= 0 <= power.high:
        text = f"Whether a walk that mixes more slowly needs more rounds to {aim} is not clear"
    else:
        text = f"A walk that takes twice as long to mix needs {_factor(power)} the rounds to {aim}"
        text += ", all else alike"
    return f"{text}: they go with 1/(1 - λ₂) to the power {_interval(power)}{_missed(walks)}"


def _factor(power: Power) -> str:
    return f"{units.number(2**power.value, 2)} times"


def _interval(power: Power) -> str:
    """Return a power and its interval, to hundredths."""
    value, low, high = (units.number(round(v, 2)) for v in (power.value, power.low, power.high))
    return f"{value}, between {low} and {high}"


def _missed(walks: Mixing) -> str:
    missed = int((~walks.points["reached"]).sum())
    return f"; {missed} of {len(walks.points)} points did not reach it" if missed else ""
