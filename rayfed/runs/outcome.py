"""What ``run.json`` says about runs: how they ended, why they failed, on which machine."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError


def outcomes(folder: Path) -> dict[str, str]:
    """Return the status of every run in a result folder, by the name of its run folder.

    Raises
    ------
    ScenarioError
        If the folder holds no runs; the error names a result folder inside it, if there is one.
    """
    records = sorted(folder.glob("*/run.json"))
    if not records:
        text = "is no result folder; it holds no runs"
        inside = min(folder.glob("*/*/run.json"), default=None)
        hint = f"; did you mean '{inside.parents[1]}'?" if inside else ""
        raise ScenarioError(str(folder), text + hint)
    return {path.parent.name: str(_record(path.parent)["status"]) for path in records}


def ended(folder: Path, runs: Iterable[str]) -> dict[str, str]:
    """Return the outcome of those runs that ended, except runs stopped by a fault of the machine.

    Parameters
    ----------
    folder : Path
        The result folder.
    runs : iterable of str
        Names of run folders.
    """
    records = {run: _record(folder / run) for run in runs}
    return {
        run: str(record["status"])
        for run, record in records.items()
        if record and record["status"] != "running" and not record.get("retry")
    }


def reason(run: Path) -> str:
    """Return why the run of a folder failed, in one line."""
    why = _record(run).get("reason") or "its folder cannot be written; is the disk full?"
    return str(why).splitlines()[0]


def warnings(run: Path) -> list[str]:
    """Return the warnings that a finished run recorded."""
    return [str(text) for text in _record(run).get("warnings", [])]


def differences(folder: Path, runs: Iterable[str]) -> list[str]:
    """Return how this machine differs from the one that began the runs; results may differ then.

    Parameters
    ----------
    folder : Path
        The result folder.
    runs : iterable of str
        Names of run folders.
    """
    from rayfed.runs.run_json import versions

    here = {**versions(), "machine": platform.machine()}
    lines = set()
    for record in filter(None, (_record(folder / run) for run in runs)):
        for name, value in here.items():
            before = record["versions"].get(name, record.get(name))
            if before != value:
                lines.add(f"begun with {name} {before}, now {value}; bytes may differ")
    return sorted(lines)


def _record(run: Path) -> dict[str, Any]:
    """Return what ``run.json`` of a run folder holds; empty if there is none."""
    path = run / "run.json"
    if not path.is_file():
        return {}
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record
