"""Differences between the folders of a page that shows several."""

from __future__ import annotations

from typing import ClassVar

from rayfed.report.panels.base import Panel, Section
from rayfed.report.read.compared import Compared


class ComparedPanel(Panel):
    """A row for every setting that differs, a column for every folder."""

    name: ClassVar[str] = "compared"
    section = Section.DIFFERENCES
    rank = 0

    @property
    def applies(self) -> bool:
        """Whether these are the runs of several folders."""
        return self.results.compared is not None

    @property
    def compared(self) -> Compared:
        """What differs."""
        assert self.results.compared is not None
        return self.results.compared

    @property
    def title(self) -> str:
        """How many settings differ."""
        count = len(self.compared.table)
        if not count:
            return "The folders differ in no setting, only in their seeds"
        return f"{count} setting{' differs' if count == 1 else 's differ'} between the folders"

    @property
    def heads(self) -> tuple[str, ...]:
        """The titles of the columns."""
        return ("setting", *self.compared.folders)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Each key with its value in each folder."""
        return [(key, *values) for key, values in self.compared.table.items()]
