"""What was measured, as a table, and which targets hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from benchmarks.measure import Measured
from benchmarks.workloads import Target, Workload

_NUMBERS = (
    "ms a round", "bare ms", "updates/s", "ratio", "2 bare", "2 actors", "beside ms",
    "start-up s", "memory GB",
)  # fmt: skip
_WORDS = {
    "ratio": "{:.2f} times the bare loop (at least {:g})",
    "of_pair": "{:.2f} times two bare loops at once (at least {:g})",
    "of_actors": "{:.2f} times two plain Ray actors (at least {:g})",
    "overhead_ms": "{:.2f} ms beside computing (at most {:g})",
    "carrying": "{:.2f} times a bare exchange beside computing (at most {:g})",
    "growth": "{:.2f} times the smallest population's round (at most {:g})",
    "memory_gb": "{:.2f} GB (at most {:g})",
}


def empty() -> Table:
    """Return the table without rows."""
    table = Table(title="rayfed against a bare NumPy loop over clients")
    for column in ("workload", "clients", "processes"):
        table.add_column(column)
    for column in _NUMBERS:
        table.add_column(column, justify="right")
    return table


def add(table: Table, workload: Workload, cases: Sequence[Measured]) -> None:
    """Add a row for each case."""
    for case in cases:
        table.add_row(
            workload.name,
            f"{case.clients:,}",
            str(workload.processes or "serial"),
            f"{1e3 * case.round_s:.2f}",
            f"{1e3 * case.bare_s:.2f}",
            f"{case.updates / case.round_s:,.0f}",
            f"{case.ratio:.2f}",
            "" if math.isnan(case.pair) else f"{case.pair:.2f}",
            "" if math.isnan(case.of_actors) else f"{case.ratio / case.of_actors:.2f}",
            "" if math.isnan(case.overhead_ms) else f"{case.overhead_ms:.2f}",
            f"{case.start_s:.1f}",
            f"{case.memory_gb:.2f}",
        )


def verdict(workload: Workload, target: Target, cases: Sequence[Measured]) -> tuple[bool, str]:
    """Return whether a target holds, and a line that says so."""
    value = cases[target.case].value(target.column)
    holds = target.holds(value)
    said = _WORDS[target.column].format(value, target.bound)
    return holds, f"{workload.name}: {said}: {'holds' if holds else 'does not hold'}"
