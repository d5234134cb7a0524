"""What a walk's mixing costs, in words and as a figure of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayfed.report.figures.style import study_inks
from rayfed.report.page import markup
from rayfed.report.page.words import goal_text, listed, named
from rayfed.report.read import units
from rayfed.report.read.mixing import Mixing, Power
from rayfed.report.read.results import Results


def title(found: Mixing) -> str:
    """Return how many times the rounds a walk needs that takes twice as long to mix."""
    goal = goal_text(found.column, found.goal)
    if len(found.powers) > 1:
        each = [
            f"{_times(power)} as many with {named(series)} (power {_told(power)})"
            for series, power in found.powers.items()
        ]
        said = f"For a walk that takes twice as long to mix the rounds to {goal} are {listed(each)}"
        return said + _missed(found)
    (power,) = found.powers.values()
    if power.low <= 0 <= power.high:
        said = f"Whether a walk that mixes more slowly needs more rounds to {goal} is not clear"
    else:
        said = f"A walk that takes twice as long to mix needs {_times(power)} the rounds to {goal}"
        said += ", all else alike"
    return f"{said}: they go with 1/(1 - λ₂) to the power {_told(power)}{_missed(found)}"


def _times(power: Power) -> str:
    return f"{units.number(2**power.value, 2)} times"


def _told(power: Power) -> str:
    """Return a power and its interval, to hundredths."""
    value, low, high = (units.number(round(v, 2)) for v in (power.value, power.low, power.high))
    return f"{value}, between {low} and {high}"


def _missed(found: Mixing) -> str:
    missed = int((~found.points["reached"]).sum())
    return f"; {missed} of {len(found.points)} points did not reach it" if missed else ""


def section(results: Results, data: Mapping[str, Any]) -> str:
    """Return the figure with its words as HTML, empty where nothing tells what mixing costs.

    Parameters
    ----------
    results : Results
        A result folder.
    data : mapping
        What `payload.payload` returned.
    """
    made = data["mixing"]
    if made is None:
        return ""
    how = (
        f"A dot a point of the sweep, across it the {markup.term('relaxation time')} of its walk. "
        "Lines are least squares in logarithms, each through points that differ in their walk "
        "alone; the power is given with its 95 % confidence interval."
    )
    if made["missed"]:
        how += " Open triangles had not got there when they ended; no line counts them."
    look = study_inks(results)
    places = {name: place for place, name in enumerate(look)}
    key = [(places[name], look[name], series) for series, name in made["firsts"]]
    above = markup.lines(key) if len(key) > 1 else ""
    return markup.figure("mixing", made["title"], how, above, made["figure"])
