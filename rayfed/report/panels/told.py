"""Panels of text and tables: headline, warnings, claims, differences, endings, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from rayfed.core.dotted import flat
from rayfed.core.errors import many
from rayfed.core.files import read_json, reading
from rayfed.report.html import keep_units
from rayfed.report.panels.answers import headline, of_target
from rayfed.report.panels.base import Panel, Section
from rayfed.report.panels.phrases import joined, listed, quoted
from rayfed.report.ranking import COSTS
from rayfed.report.read import units
from rayfed.report.read.curves import clocks, default_target
from rayfed.report.read.differences import Compared
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.tables import summary


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
        """The `tables.summary` of each column that can be won."""
        source, results = self.source, self.results
        won = [y for y in source.columns if y != source.y and results.column(y).better is not None]
        if results.cases:
            return {y: source.summary.assign(target_column=y) for y in [source.y, *won]}
        goals = {y: default_target(results, y) for y in won}
        known = {y: summary(results, y, goal) for y, goal in goals.items() if goal is not None}
        return {source.y: source.summary} | known

    def _answers(self, frame: pd.DataFrame) -> dict[str, str]:
        if self.results.cases:
            return {"all": keep_units(headline(self.results, frame))}
        known = [x for x in COSTS.values() if x in clocks(self.results)]
        return {x: keep_units(headline(self.results, frame, x)) for x in known}


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
        """Warnings with the algorithms and seeds of their runs; each text once."""
        runs, warning = self.results.runs_found, dict[str, list[RunRecord]]()
        for run in runs:
            for text in dict.fromkeys(run.info.get("warnings") or []):
                warning.setdefault(str(text).removeprefix(f"{run.label}: "), []).append(run)
        return [
            ("all runs" if len(who) == len(runs) > 1 else _who(who), text)
            for text, who in warning.items()
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


CLAIMS = "claims.json"
_ANSWERS = {"holds": "yes", "fails": "no"}
_STATES = ("finished", "running", "stopped", "interrupted", "failed")


def claims_of(folder: Path) -> dict[str, Any] | None:
    """Return the content of ``claims.json`` of a result folder; None without one.

    Raises
    ------
    ScenarioError
        If it cannot be read.
    """
    path = folder / CLAIMS
    if not path.is_file():
        return None
    with reading(path, "verdicts", "was it edited?"):
        verdicts = read_json(path, results=True)
    return verdicts if isinstance(verdicts, dict) and verdicts.get("claims") else None


def claims_title(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of claims that hold.

    Examples
    --------
    >>> claims_title([{"status": "holds"}, {"status": "fails"}, {"status": "holds"}])
    '2 of 3 claims of the source hold; failing: 1'
    """
    states = [claim["status"] for claim in claims]
    others = {"undecided": "undecided", "fails": "failing", "not reproduced": "not reproduced",
              "not checked": "not checked", "not run": "of the other length"}  # fmt: skip
    counts = [f"{words}: {states.count(s)}" for s, words in others.items() if s in states]
    return "; ".join(
        [f"{states.count('holds')} of {len(states)} claims of the source hold", *counts]
    )


def _holds(claim: Mapping[str, Any]) -> str:
    answer = _ANSWERS.get(claim["status"], claim["status"])
    return f"{answer}: {claim['remark']}" if claim.get("remark") else str(answer)


class ClaimsPanel(Panel):
    """Claims of the source, measured values, and states."""

    name: ClassVar[str] = "claims"
    section = Section.SOURCE
    rank = 0

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """The content of ``claims.json``; empty for several folders."""
        return {} if self.results.compared else claims_of(self.results.folder) or {}

    @property
    def applies(self) -> bool:
        """Whether claims were checked."""
        return bool(self.verdicts)

    @property
    def title(self) -> str:
        """Number of claims that hold."""
        return claims_title(self.verdicts["claims"])

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """For each claim its text, its state, the measured value, and its place in the source."""
        claims = self.verdicts["claims"]
        return [(c["says"], _holds(c), c["measured"], c["where"]) for c in claims]


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
        """Differences between folders."""
        assert self.results.compared is not None
        return self.results.compared

    @property
    def title(self) -> str:
        """Number of differing settings."""
        count = len(self.compared.table)
        if not count:
            return "The folders differ in no setting, only in their seeds"
        return f"{count} setting{' differs' if count == 1 else 's differ'} between the folders"

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Each key with its value in each folder."""
        return [(key, *values) for key, values in self.compared.table.items()]


class EndingsPanel(Panel):
    """The number of runs in each state, and the reasons of failures."""

    name: ClassVar[str] = "endings"
    section = Section.RUN
    rank = 0

    @property
    def title(self) -> str:
        """Numbers of finished, running and failed runs."""
        states = [run.state for run in self.results.runs_found]
        counts = [f"{states.count(s)} {s}" for s in _STATES if s in states]
        return f"{many(len(states), 'run')}: {', '.join(counts)}"


def facts(results: Results) -> dict[str, str]:
    """Return the common facts of all runs: clients, test rows, start, cost, host and versions."""
    infos = [run.info for run in results.runs_found]

    def every(key: str) -> list[str]:
        return list(dict.fromkeys(str(info[key]) for info in infos if info.get(key)))

    versions = dict.fromkeys(
        f"{name} {version}"
        for info in infos
        for name, version in (info.get("versions") or {}).items()
    )
    wall = sum(float(info.get("wall_s") or 0) for info in infos)
    has = "accuracy" in results.rounds and results.rounds["accuracy"].notna().any()
    scored, some, started = every("scored") if has else [], every("evaluated_on"), every("started")
    counts = {int(info["clients"]) for info in infos if isinstance(info.get("clients"), int)}
    texts = {
        "clients": " or ".join(f"{count:,}" for count in sorted(counts)),
        "accuracy": f"on {' or '.join(sorted(scored))} rows" if scored else "",
        "estimates": f"losses and accuracies are those of {' or '.join(some)}" if some else "",
        "started": min(started)[:16].replace("T", " ") if started else "",
        "computing": f"{units.duration(wall)} of wall-clock time, all runs together"
        if wall
        else "",
        "host": ", ".join(every("host")),
        "versions": ", ".join(versions),
    }
    return {name: text for name, text in texts.items() if text}


def _flat(settings: Mapping[str, Any]) -> list[str]:
    """Return nested settings as ``local.lr=0.1``."""
    values = flat(settings).items()
    return [f"{k}={v}" for k, v in values if v is not None and k.rpartition(".")[2] != "label"]


def _row(run: RunRecord) -> list[str]:
    last = run.rounds.iloc[-1] if len(run.rounds) else None
    return [
        run.name,
        str(run.seed),
        run.state,
        str(run.info.get("stopped_by") or ""),
        units.count(float(last["round"])) if last is not None else units.MISSING,
        units.duration(float(last["time_s"])) if last is not None else units.MISSING,
        units.duration(float(run.info.get("wall_s") or float("nan"))),
    ]


class SettingsPanel(Panel):
    """Settings to run the study again, most of them folded away."""

    name: ClassVar[str] = "settings"
    section = Section.RUN
    rank = 10

    @property
    def facts(self) -> dict[str, str]:
        """Common facts of all runs, by name."""
        return facts(self.results)

    @property
    def settings(self) -> list[tuple[str, str]]:
        """The resolved settings of each algorithm; those that are not set are left out."""
        infos = {name: self.results.of(name)[0].info for name in self.results.names}
        return [
            (name, ", ".join(_flat(info["settings"])))
            for name, info in infos.items()
            if isinstance(info.get("settings"), dict)
        ]

    @property
    def runs(self) -> list[list[str]]:
        """A row for every run."""
        return [_row(run) for run in self.results.runs_found]
