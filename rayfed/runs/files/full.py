"""A full disk: what of a result folder is safe, and how to go on."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rayfed.core.errors import RayfedError, RunFailed
from rayfed.core.machine import in_words
from rayfed.runs.files.outcome import UNWRITTEN, reason
from rayfed.runs.files.place import shown

_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of errors of the system: the disk is full, or what this user may have of it."""


@contextmanager
def told(folder: Path, outcome: Mapping[str, str]) -> Iterator[None]:
    """Say what is safe and how to go on where a run, or what is done here, finds the disk full.

    Parameters
    ----------
    folder : Path
        The result folder.
    outcome : mapping of str to str
        How its runs ended, by folder.

    Raises
    ------
    RunFailed
        In place of what says that the disk is full, and after what is done if it stopped a run.
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
    """Return what is safe, and how to go on."""
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
        f"room, then go on by: rayfed resume {name}"
    )
