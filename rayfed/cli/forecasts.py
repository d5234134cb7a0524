"""What `check` says of a plan before any round is run: what it takes, who takes part, how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from rayfed.cli.tables import on_nodes
from rayfed.core.errors import listed, many
from rayfed.core.machine import in_words
from rayfed.engine.run import ENDLESS
from rayfed.runs.forecast import WHY_EMPTY, Forecast, duration, forecast, probe
from rayfed.study.forecast.channel import server_sees, traffic
from rayfed.study.forecast.privacy import spent


def costs(plan: Any, cost: Any, nodes: Sequence[int]) -> list[str]:
    """Return what a plan takes of machines, of disks, and of the simulated network."""
    there, per = cost.processes, "in all" if cost.rounds_known else "a round of each run"
    return [
        f"{many(there.actors, 'client actor')}{on_nodes(nodes, there.combiners)}, "
        f"{many(there.runners, 'driver actor')}"
        f"{', which host clients, too' * plan.executor.hosting_driver}; about "
        f"{in_words(cost.memory)} of memory (data {in_words(cost.data)}, client state "
        f"{in_words(cost.state)}, copies of models {in_words(cost.copies)}, processes "
        f"{in_words(there.memory)})",
        f"disk: results about {in_words(cost.results)}, checkpoints up to "
        f"{in_words(cost.checkpoints)}, scratch files {in_words(cost.scratch)}",
        f"simulated traffic if a round asks once: {in_words(cost.down)} down, "
        f"{in_words(cost.up)} up {per}",
    ]


def expected(plan: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield lines about the first rounds of every algorithm, and warnings of those.

    Yields
    ------
    line : str
    warnings : list of str
        That rounds stay empty, or ask few clients.
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
        warnings = [f"the first {first.few_asked} ({who})"] * bool(first.few_asked)
        if first.empty:
            empty = f"{first.empty} of the first {first.rounds} rounds ({who}) stay empty"
            warnings = [f"{empty}: {WHY_EMPTY}", *warnings]
        yield line, warnings


def said_of_data(plan: Any) -> list[str]:
    """Return what readers should beware of in data and models; the same line once.

    It is what data say of themselves, such as that they are a subset, and what was found in them.
    """
    notes = ([run.record.get("data_note"), *run.record["beware"]] for run in plan.runs)
    return list(dict.fromkeys(filter(None, chain.from_iterable(notes))))


def aims(plan: Any) -> list[str]:
    """Return who aims at another point than the minimum of F, and at which."""
    found: dict[str, dict[str, None]] = {}
    for run in plan.runs:
        if run.record["aim"]:
            found.setdefault(run.record["aim"], {})[run.label] = None
    return [f"{listed(list(labels), 60)}: {text}" for text, labels in found.items()]


def coded(plan: Any) -> list[str]:
    """Return what clients send where that is coded, what privacy they spend, what servers see."""
    runs = [run for run in _one_each(plan) if not run.training.algorithm.centralised]
    labels_by: dict[str, list[str]] = {}
    for run in runs:
        labels_by.setdefault(server_sees(run), []).append(run.label)
    sees = [f"the server gets {text} ({listed(labels, 60)})" for text, labels in labels_by.items()]
    return [*filter(None, map(traffic, runs)), *filter(None, map(spent, runs)), *sees]


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
