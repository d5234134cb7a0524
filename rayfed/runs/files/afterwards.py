"""Files written after a run, by the process that submitted the study and has the data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rayfed.core.entries import Entry, described
from rayfed.engine.run import Run
from rayfed.runs.files import fit, labels
from rayfed.runs.files.outcome import record
from rayfed.runs.files.records import status

_MADE = {fit.FIT: fit.draw, labels.LABELS: labels.count}


def complete(run: Run, tables: Mapping[str, Any], folder: Path) -> None:
    """Write what the record of a run that finished does not list yet, and list it there.

    Parameters
    ----------
    run : Run
    tables : mapping of str to Rows
        The tables that its views lack.
    folder : Path
        Of the run.
    """
    held = record(folder)
    files = held.get("files") or {}
    made = [name for name, make in _MADE.items() if name not in files and make(run, tables, folder)]
    if made:
        fresh = described({name: Entry.of(folder / name) for name in made})
        with suppress(OSError):  # the disk is full: a resume makes them again
            status(folder, {**held, "files": {**files, **fresh}})
