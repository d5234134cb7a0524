"""Locks of result folders: a writer holds the lock, and a file asks it to stop."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rayfed.core.inside import opened

LOCK = ".lock"
"""Name of the lock file in a result folder and in the folder of a run."""
_PAUSE_S = 0.005
_LOOK_S = 5.0
"""Seconds for which others that only look whether a lock is held may keep it."""
_held: set[tuple[int, int]] = set()
STOP = ".stop"
"""File by which a study or, in its folder, a run is asked to stop."""


class Leased(Exception):
    """Another process holds the lock of a file."""


@contextmanager
def lease(path: Path, wait_s: float = 0.0, refusal: Exception | None = None) -> Iterator[None]:
    """Hold the lock of a file; it ends with the process, however that ends.

    Raises
    ------
    Leased
        If another process holds it, and still does after `wait_s` seconds; or `refusal`, if given.
    OSError
        If it is no regular file, cannot be written, or its file system keeps no locks.
    """
    with opened(path, os.O_RDWR | os.O_CREAT) as file:
        end = time.monotonic() + wait_s
        while not _lock(file, fcntl.LOCK_EX):
            looked_at = _lock(file, fcntl.LOCK_SH)
            if looked_at:  # no writer holds it, but another process tests it
                fcntl.flock(file, fcntl.LOCK_UN)
            if time.monotonic() > end + (_LOOK_S if looked_at else 0.0):
                raise refusal or Leased(str(path))
            time.sleep(_PAUSE_S)
        identity = _identity(file)
        _held.add(identity)
        try:
            yield
        finally:
            _held.discard(identity)
            fcntl.flock(file, fcntl.LOCK_UN)  # a child may have the file open


def is_leased(path: Path) -> bool:
    """Return whether the lock of a file is held, without disturbing its holder."""
    try:
        with opened(path) as file:
            return not _lock(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def is_own_lease(path: Path) -> bool:
    """Return whether this process holds the lock of a file."""
    with opened(path) as file:
        return _identity(file) in _held


def is_orphaned(run: Path) -> bool:
    """Return whether no process writes the folder of a run any more; False if that is unknown."""
    locks = (run.parent / LOCK, run / LOCK)
    try:
        return locks[0].is_file() and not any(lock.is_file() and is_leased(lock) for lock in locks)
    except OSError:  # another user's folder
        return False


def is_stop_requested(run: Path) -> bool:
    """Return whether the run of a folder, or its study, was asked to stop."""
    return (run / STOP).exists() or (run.parent / STOP).exists()


def _lock(file: IO[Any], kind: int) -> bool:
    """Take the lock of an open file, and return whether that was possible at once."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # some file systems say the latter
        return False
    return True


def _identity(file: IO[Any]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino
