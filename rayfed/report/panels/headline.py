"""The answer on top of the page, and whether runs failed."""

from __future__ import annotations

from typing import ClassVar

from rayfed.core.errors import many
from rayfed.report.panels.base import Panel, Section


class HeadlinePanel(Panel):
    """One sentence at the top of the page."""

    name: ClassVar[str] = "headline"
    section = Section.ANSWER
    rank = 0

    @property
    def answer(self) -> str:
        """The sentence."""
        if self.results.unlike:
            return "These folders solve different problems, so no algorithm is the best of all."
        return self.source.answer

    @property
    def failures(self) -> str:
        """How many runs failed, empty if none did."""
        runs = self.results.runs_found
        failed = sum(run.status == "failed" for run in runs)
        return f"{failed} of {many(len(runs), 'run')} failed" if failed else ""
