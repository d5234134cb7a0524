"""States of the runs, and reasons of failures."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from rayfed.core.errors import many
from rayfed.report.panels.base import Panel, Section

_STATES = ("finished", "running", "stopped", "interrupted", "failed")


class EndingsPanel(Panel):
    """The number of runs in each state, and the reasons of failures."""

    name: ClassVar[str] = "endings"
    section = Section.RUN
    rank = 0

    @property
    def title(self) -> str:
        """Number of runs in each state."""
        counts = Counter(run.state for run in self.results.runs_found)
        texts = [f"{counts[state]} {state}" for state in _STATES if counts[state]]
        return f"{many(counts.total(), 'run')}: {', '.join(texts)}"
