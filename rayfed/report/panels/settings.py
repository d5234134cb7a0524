"""Settings of the study, and common facts of its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from rayfed.core.dotted import flat
from rayfed.report.panels.base import Panel, Section
from rayfed.report.read import units
from rayfed.report.read.results import Results, RunRecord


def facts(results: Results) -> dict[str, str]:
    """Return the common facts of all runs: clients, test rows, start, cost, host and versions."""
    infos = [run.info for run in results.runs_found]

    def every(key: str) -> list[str]:
        return list(dict.fromkeys(str(info[key]) for info in infos if info.get(key)))

    versions = [" ".join(v) for info in infos for v in (info.get("versions") or {}).items()]
    wall = sum(float(info.get("wall_s") or 0) for info in infos)
    computing = f"{units.duration(wall)} of wall-clock time, all runs together" if wall else ""
    has = "accuracy" in results.rounds and results.rounds["accuracy"].notna().any()
    scored, some, started = every("scored") if has else [], every("evaluated_on"), every("started")
    counts = {int(info["clients"]) for info in infos if isinstance(info.get("clients"), int)}
    texts = {
        "clients": " or ".join(f"{count:,}" for count in sorted(counts)),
        "accuracy": f"on {' or '.join(sorted(scored))} rows" if scored else "",
        "estimates": f"losses and accuracies are those of {' or '.join(some)}" if some else "",
        "started": min(started)[:16].replace("T", " ") if started else "",
        "computing": computing,
        "host": ", ".join(every("host")),
        "versions": ", ".join(dict.fromkeys(versions)),
    }
    return {name: text for name, text in texts.items() if text}


def _flat(settings: Mapping[str, Any]) -> list[str]:
    """Return nested settings as ``local.lr=0.1``."""
    values = flat(settings).items()
    return [f"{k}={v}" for k, v in values if v is not None and k.rpartition(".")[2] != "label"]


def _row(run: RunRecord) -> list[str]:
    last = run.rounds.iloc[-1] if len(run.rounds) else {"round": math.nan, "time_s": math.nan}
    return [
        run.name,
        str(run.seed),
        run.state,
        str(run.info.get("stopped_by") or ""),
        units.count(float(last["round"])),
        units.duration(float(last["time_s"])),
        units.duration(float(run.info.get("wall_s") or math.nan)),
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
