"""Warnings of the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from rayfed.report.panels.base import Panel, Section
from rayfed.report.panels.phrases import joined, listed, quoted
from rayfed.report.read.results import RunRecord


def _names(runs: Sequence[RunRecord]) -> str:
    """Return runs for a sentence: algorithms, with the seeds of each."""
    seeds = defaultdict[str, list[str]](list)
    for run in runs:
        seeds[run.name].append(str(run.seed))
    of_each = {name: f"seed{'s' * (len(of) > 1)} {listed(of)}" for name, of in seeds.items()}
    return joined([f"{quoted(name)} ({of})" for name, of in of_each.items()])


class WarningsPanel(Panel):
    """The warnings, above the figures of the runs."""

    name: ClassVar[str] = "warnings"
    section = Section.RESULTS
    rank = 10

    @cached_property
    def warnings(self) -> list[tuple[str, str]]:
        """Warnings with the algorithms and seeds of their runs; each text once."""
        runs, warning = self.results.runs_found, defaultdict[str, list[RunRecord]](list)
        for run in runs:
            for text in dict.fromkeys(run.info.get("warnings") or []):
                warning[str(text).removeprefix(f"{run.label}: ")].append(run)
        return [
            ("all runs" if len(of) == len(runs) > 1 else _names(of), text)
            for text, of in warning.items()
        ]

    @property
    def applies(self) -> bool:
        """Whether any run warns."""
        return bool(self.warnings)

    @property
    def title(self) -> str:
        """Number of runs with warnings."""
        runs = self.results.runs_found
        warning = sum(bool(run.info.get("warnings")) for run in runs)
        return f"{warning} of {len(runs)} runs {'warns' if warning == 1 else 'warn'}"
