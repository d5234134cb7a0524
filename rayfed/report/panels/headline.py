"""The headline of the page: the answer, and the runs that reach the target."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import pandas as pd

from rayfed.report.html import keep_units
from rayfed.report.panels.answers import headline, of_target
from rayfed.report.panels.base import Panel, Section
from rayfed.report.ranking import COSTS
from rayfed.report.read.curves import clocks, default_target
from rayfed.report.tables import outcomes


class HeadlinePanel(Panel):
    """One sentence at the top of the page."""

    name: ClassVar[str] = "headline"
    section = Section.ANSWER
    rank = 0

    @property
    def answer(self) -> str:
        """The sentence."""
        if self.results.unlike:
            return (
                "These folders differ in data or circumstances, so no algorithm is the best of all."
            )
        return self.source.answer

    @property
    def target(self) -> str:
        """The number of runs that reach the target, empty without a target."""
        return "" if self.results.unlike else of_target(self.results, self.source.summary)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """For each column with a target ``answers`` by clock, and the ``targets``.

        Where a study has cases, an answer is one for all clocks.
        """
        shown = {} if self.results.unlike else self._frames
        return {
            "answers": {y: self._answers(frame) for y, frame in shown.items()},
            "targets": {y: of_target(self.results, frame) for y, frame in shown.items()},
        }

    @property
    def _frames(self) -> dict[str, pd.DataFrame]:
        """The `tables.outcomes` of each column that can be won."""
        source, results = self.source, self.results
        won = [y for y in source.drawn if y != source.y and results.column(y).better is not None]
        if results.cases:
            return {y: source.summary.assign(target_column=y) for y in [source.y, *won]}
        goals = {y: default_target(results, y) for y in won}
        known = {y: outcomes(results, y, goal) for y, goal in goals.items() if goal is not None}
        return {source.y: source.summary} | known

    def _answers(self, frame: pd.DataFrame) -> dict[str, str]:
        if self.results.cases:
            return {"all": keep_units(headline(self.results, frame))}
        known = [x for x in COSTS.values() if x in clocks(self.results)]
        return {x: keep_units(headline(self.results, frame, x)) for x in known}
