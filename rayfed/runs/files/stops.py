"""Asking a study that runs elsewhere to stop: hidden files that its drivers look for.

A driver writes a checkpoint and ends; a resume goes on to the same bytes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.inside import real
from rayfed.core.leases import LOCK, STOP
from rayfed.core.run_state import read_record
from rayfed.runs.files import store
from rayfed.runs.files.folder import usable
from rayfed.runs.files.outcome import outcomes
from rayfed.runs.files.place import shown

HISTORY = "history.jsonl"
"""File of a result folder with a line for each time that somebody stopped or extended its study."""
STOPPED = "running"
"""Outcome of a run that somebody asked to stop: it has not ended, and a resume goes on with it."""


def ask(folder: Path, runs: Iterable[str] = ()) -> list[str]:
    """Ask runs of a study to stop, and return their names; all that run if none are named.

    Runs that have not begun do not begin then.

    Raises
    ------
    ScenarioError
        If nobody runs the study, it is a sweep, or a run is unknown or does not run.
    """
    folder = real(folder)
    state = outcomes(folder)
    with usable(folder):
        leased = store.is_leased(folder / LOCK)
    if not leased:
        raise ScenarioError(shown(folder), "nobody runs this study; there is nothing to stop")
    if any("trial" in read_record(folder / run) for run in state):
        raise ScenarioError(shown(folder), "is a sweep; end it by Ctrl-C where it runs")
    named = list(runs)
    for run in named:
        if run not in state:
            raise ScenarioError("", unknown("run", run, state))
        if state[run] != "running":
            raise ScenarioError(f"{shown(folder)}/{run}", f"does not run; it has {state[run]}")
    with usable(folder):
        for run in named:
            store.publish_text(folder / run / STOP, "")
        if not named:
            store.publish_text(folder / STOP, "")
            named = [run for run, status in state.items() if status == "running"]
        note(folder, "stop", runs=named)
    return named


def clear(folder: Path) -> None:
    """Forget earlier requests to stop, as the study continues."""
    with usable(folder):
        for asked in (folder / STOP, *folder.glob(f"*/{STOP}")):
            store.remove(asked)


def note(folder: Path, what: str, **values: Any) -> None:
    """Note in a study's record that somebody steered it, with the time in UTC and the values."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = json.dumps({"time": stamp, "what": what, **values})
    store.append_text(folder / HISTORY, f"{line}\n")
