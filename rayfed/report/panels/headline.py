"""The answer on top of the page, and what runs warn of, such as steps beyond what theory covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from rayfed.core.errors import many
from rayfed.report.panels.base import Panel, Section
from rayfed.report.panels.phrases import joined, listed, quoted
from rayfed.report.read.results import Results, RunRecord

MOST_SHOWN = 5  # warnings beyond these are folded away


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


def warnings(results: Results) -> Iterator[tuple[str, str]]:
    """Yield who warns, as algorithms with their seeds, and of what; the same warning once."""
    warning: dict[str, list[RunRecord]] = {}
    for run in results.runs_found:
        for text in dict.fromkeys(run.info.get("warnings") or []):
            warning.setdefault(str(text).removeprefix(f"{run.label}: "), []).append(run)
    for text, runs in warning.items():
        yield ("all runs" if len(runs) == len(results.runs_found) > 1 else _who(runs)), text


def _who(runs: Sequence[RunRecord]) -> str:
    """Return runs as a sentence names them: by algorithm, with the seeds of each."""
    seeds: dict[str, list[str]] = {}
    for run in runs:
        seeds.setdefault(run.name, []).append(str(run.seed))
    return joined(
        [
            f"{quoted(name)} (seed{'s' if len(mine) > 1 else ''} {listed(mine)})"
            for name, mine in seeds.items()
        ]
    )


class WarningsPanel(Panel):
    """The warnings, where the runs are seen first."""

    name: ClassVar[str] = "warnings"
    section = Section.RESULTS
    rank = 10

    @cached_property
    def warnings(self) -> list[tuple[str, str]]:
        """Who warns, and of what."""
        return list(warnings(self.results))

    @property
    def applies(self) -> bool:
        """Whether any run warns."""
        return bool(self.warnings)

    @property
    def title(self) -> str:
        """How many runs warn."""
        runs = self.results.runs_found
        warning = sum(bool(run.info.get("warnings")) for run in runs)
        return f"{warning} of {len(runs)} runs {'warns' if warning == 1 else 'warn'}"

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The first of them."""
        return self.warnings[:MOST_SHOWN]

    @property
    def folded(self) -> list[tuple[str, str]]:
        """The others."""
        return self.warnings[MOST_SHOWN:]
