"""Forecasts of `check` before any round is run: who takes part, and how long rounds take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rayfed.core.errors import listed
from rayfed.engine.run import ENDLESS
from rayfed.runs.forecast import WHY_EMPTY, Forecast, duration, forecast, probe
from rayfed.study.forecast.channel import said
from rayfed.study.forecast.privacy import spent


def expected(plan: Any) -> Iterator[tuple[str, str]]:
    """Yield lines about the first rounds of every algorithm, and warnings of empty ones.

    Yields
    ------
    line, warning : str
        Empty where there is none.
    """
    found: dict[Forecast, list[str]] = {}
    for run in _one_each(plan):
        known = forecast(run)
        if known is not None:
            found.setdefault(known, []).append(run.label)
    for first, labels in found.items():
        who = listed(labels, 60)
        line = (
            f"first {first.rounds} rounds ({who}): {first.participants:.3g} replies used and "
            f"{first.time_s:.3g} s simulated each"
        )
        warning = ""
        if first.empty:
            warning = (
                f"{first.empty} of the first {first.rounds} rounds ({who}) stay empty: {WHY_EMPTY}"
            )
        yield line, warning


def said_of_data(plan: Any) -> list[str]:
    """Return what data say of themselves, such as that they are a subset; the same line once."""
    notes = (run.record.get("data_note") for run in plan.runs)
    return list(dict.fromkeys(filter(None, notes)))


def aims(plan: Any) -> list[str]:
    """Return who aims at another point than the minimum of F, and at which."""
    found: dict[str, dict[str, None]] = {}
    for run in plan.runs:
        if run.record["aim"]:
            found.setdefault(run.record["aim"], {})[run.label] = None
    return [f"{listed(list(labels), 60)}: {text}" for text, labels in found.items()]


def coded(plan: Any) -> list[str]:
    """Return what clients upload and download, where that is coded, and what privacy is spent."""
    runs = list(_one_each(plan))
    return [*filter(None, map(said, runs)), *filter(None, map(spent, runs))]


def timed(plan: Any) -> str:
    """Return how long the runs will compute, by a round of each algorithm run here."""
    total, parts = 0.0, []
    for run in _one_each(plan):
        start_s, round_s = probe(run, plan.tables)
        parts.append(f"{run.label} {duration(round_s)}")
        runs = [each for each in plan.runs if each.label == run.label]
        total += sum(start_s + each.ending.rounds * round_s for each in runs)
    line = f"a round here takes: {listed(parts)}"
    if any(run.ending.rounds >= ENDLESS for run in plan.runs):
        return f"{line}; how many there will be is not known"
    return f"{line}; all runs one after the other about {duration(total)}, without records"


def _one_each(plan: Any) -> Iterator[Any]:
    """Yield the first run of every algorithm."""
    seen: set[str] = set()
    for run in plan.runs:
        if run.label not in seen:
            yield run
        seen.add(run.label)
