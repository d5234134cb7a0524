"""Endings of the runs: which failed, and why."""

from __future__ import annotations

from typing import ClassVar

from rayfed.core.errors import many
from rayfed.report.panels.base import Panel, Section
from rayfed.report.read.results import Results

_STATES = ("finished", "running", "interrupted", "failed")


def title(results: Results) -> str:
    """Return how many runs finished, run and failed."""
    states = [run.state for run in results.runs_found]
    counts = [f"{states.count(s)} {s}" for s in _STATES if s in states]
    return f"{many(len(states), 'run')}: {', '.join(counts)}"


class EndingsPanel(Panel):
    """The number of runs in each state, and the reasons of failures."""

    name: ClassVar[str] = "endings"
    section = Section.RUN
    rank = 0

    @property
    def title(self) -> str:
        """How many runs finished, run and failed."""
        return title(self.results)

    @property
    def failures(self) -> list[tuple[str, int, str, str]]:
        """Name, seed, reason and traceback of every run that failed; the latter may be empty."""
        return [
            (
                run.name,
                run.seed,
                str(run.info.get("reason") or "no reason is recorded"),
                str(run.info.get("trace") or ""),
            )
            for run in self.results.runs_found
            if run.status == "failed"
        ]
