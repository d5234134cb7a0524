"""Settings that differ between the folders of a comparison."""

from __future__ import annotations

from typing import ClassVar

from rayfed.report.panels.base import Panel, Section


class ComparedPanel(Panel):
    """A row for each setting that differs, a column for each folder."""

    name: ClassVar[str] = "compared"
    section = Section.DIFFERENCES
    rank = 0

    @property
    def applies(self) -> bool:
        """Whether these are the runs of several folders."""
        return self.results.compared is not None

    @property
    def title(self) -> str:
        """Number of differing settings."""
        count = len(self.rows)
        if not count:
            return "The folders have the same settings and differ only in their seeds"
        return f"{count} setting{' differs' if count == 1 else 's differ'} between the folders"

    @property
    def heads(self) -> list[str]:
        """Headings of the columns."""
        return ["setting", *(self.results.compared.folders if self.results.compared else ())]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Each key with its value in each folder."""
        table = self.results.compared.table if self.results.compared else {}
        return [(key, *values) for key, values in table.items()]
