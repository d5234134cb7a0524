"""Locks of files: who writes a result folder holds its lock, and is asked to stop by a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
"""File of a result folder, and of a run's folder in it, that who writes there locks."""
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
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=wait_s)
    except Timeout as error:
        raise refusal or Leased(str(path)) from error
    try:
        yield
    finally:
        lock.release()


def is_leased(path: Path) -> bool:
    """Return whether another process holds the lock of a file."""
    try:
        with lease(path):
            return False
    except Leased:
        return True


def is_left(run: Path) -> bool:
    """Return whether nobody writes the folder of a run any more; False where that is not known."""
    locks = (run.parent / LOCK, run / LOCK)
    try:
        return locks[0].is_file() and not any(lock.is_file() and is_leased(lock) for lock in locks)
    except OSError:  # somebody else's folder
        return False


def is_asked(run: Path) -> bool:
    """Return whether somebody asked the run of a folder, or its study, to stop."""
    return (run / STOP).exists() or (run.parent / STOP).exists()


def state(run: Path) -> str:
    """Return ``running``, ``stopped`` or ``interrupted`` of a run that has not ended.

    Nobody writes it any more if it is one of the last two; it is stopped if somebody asked for it.
    """
    if not is_left(run):
        return "running"
    return "stopped" if is_asked(run) else "interrupted"
