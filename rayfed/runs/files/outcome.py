"""Ends of runs by their ``run.json``, and advice for a full disk."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rayfed.core.announced import run_folders
from rayfed.core.errors import RayfedError, RunFailed, ScenarioError
from rayfed.core.inside import real
from rayfed.core.machine import in_words
from rayfed.core.run_state import damage, read_record
from rayfed.runs.files.place import shown

UNWRITTEN = "its folder cannot be written; is the disk full?"
_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk and of an exhausted quota."""


def outcomes(folder: Path) -> dict[str, str]:
    """Return the status of every run in a result folder, by the name of its run folder.

    A damaged run counts as failed.

    Raises
    ------
    ScenarioError
        If the folder holds no runs; the error names a result folder inside it, if there is one.
    """
    folder = real(folder)
    found = run_folders(folder)
    if not found:
        text = "is no result folder; it holds no runs"
        inside = min(folder.glob("*/*/run.json"), default=None)
        hint = f"; did you mean '{inside.parents[1]}'?" if inside else ""
        raise ScenarioError(str(folder), text + hint)
    records = {run: read_record(run) for run in found}
    return {
        run.name: "failed" if damage(run, held) else str(held.get("status", "running"))
        for run, held in records.items()
    }


def ended(folder: Path, runs: Iterable[str], *, failed: bool = True) -> dict[str, str]:
    """Return the outcome of those runs that ended and need not go on.

    Runs that a fault of the machine stopped, and damaged ones, are left out.

    Parameters
    ----------
    folder : Path
        The result folder.
    runs : iterable of str
        Names of run folders.
    failed : bool
        Whether runs that failed count; without, only those that finished.
    """
    records = {run: read_record(folder / run) for run in runs}
    return {
        run: str(held["status"])
        for run, held in records.items()
        if held.get("status") in (("finished", "failed") if failed else ("finished",))
        and not held.get("retry")
        and damage(folder / run, held) is None
    }


def damaged(folder: Path, runs: Iterable[str]) -> list[str]:
    """Return a line for every damaged run.

    Parameters
    ----------
    folder : Path
        The result folder.
    runs : iterable of str
        Names of run folders.
    """
    lines = ((run, damage(folder / run, read_record(folder / run))) for run in runs)
    return [f"{run}: {line}" for run, line in lines if line]


def reason(run: Path) -> str:
    """Return why the run of a folder failed, in one line."""
    why = read_record(run).get("reason") or UNWRITTEN
    return str(why).splitlines()[0]


def trace(run: Path) -> str:
    """Return the traceback of a run that failed in the user's code; empty if there is none."""
    return str(read_record(run).get("trace") or "")


def differences(folder: Path, runs: Iterable[str]) -> list[str]:
    """Return differences between this machine and the first one; results may differ then.

    Parameters
    ----------
    folder : Path
        The result folder.
    runs : iterable of str
        Names of run folders.
    """
    from rayfed.runs.files.run_json import versions

    here = {**versions(), "machine": platform.machine()}
    lines = set()
    for held in filter(None, (read_record(folder / run) for run in runs)):
        for name, value in here.items():
            before = (held.get("versions") or {}).get(name, held.get(name))
            if before not in (None, value):
                lines.add(f"begun with {name} {before}, now {value}; bytes may differ")
    return sorted(lines)


@contextmanager
def explained_full_disk(folder: Path, outcome: Mapping[str, str]) -> Iterator[None]:
    """Raise an error with saved files and next steps where a run or a command fills the disk.

    Parameters
    ----------
    folder : Path
        The result folder.
    outcome : mapping of str to str
        How its runs ended, by folder.

    Raises
    ------
    RunFailed
        In place of the error of the full disk, or after the block if it stopped a run there.
    """
    try:
        yield
    except (OSError, RayfedError) as error:
        if not any(isinstance(e, OSError) and e.errno in _FULL for e in (error, error.__cause__)):
            raise
        raise RunFailed(_advice(folder, outcome)) from error
    stopped = [reason(folder / run) for run, status in outcome.items() if status == "failed"]
    words = (UNWRITTEN, *map(os.strerror, _FULL))
    if any(word in why for why in stopped for word in words):
        raise RunFailed(_advice(folder, outcome))


def _advice(folder: Path, outcome: Mapping[str, str]) -> str:
    """Return the saved files and the next steps."""
    name, finished = shlex.quote(shown(folder)), list(outcome.values()).count("finished")
    free = in_words(shutil.disk_usage(folder).free)
    if finished == len(outcome):
        return (
            f"{folder}: the disk is full ({free} free); all runs have finished and are safe. Make "
            f"room, then write the page by: rayfed report {name}"
        )
    return (
        f"{folder}: the disk is full ({free} free); {finished} of {len(outcome)} runs have finished"
        " and are safe, and so is what the others had recorded at their last checkpoints. Make "
        f"room, then resume with: rayfed resume {name}"
    )
