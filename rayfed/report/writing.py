"""Writing of files and folders, with errors in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rayfed.core.errors import RayfedError
from rayfed.core.inside import check_tree, replacing

LOGGING = "logging.json"
"""File of a result folder: its experiment trackers, the last row that each has of a run, a seal."""


def replace(path: Path, text: str) -> None:
    """Write a file atomically: under a temporary name, then renamed.

    Raises
    ------
    RayfedError
        If it cannot be written; what was there before stays.
    """
    with _writing(path), replacing(path, f".{os.getpid()}") as file:
        file.write(text.encode())


def make(folder: Path) -> None:
    """Make a folder, if it is not there.

    Raises
    ------
    RayfedError
        If it cannot be made.
    """
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def check_own(folder: Path, results: Path) -> None:
    """Raise RayfedError if a folder, where it is one in a result folder, is a link or holds one."""
    if results in folder.parents:
        with _writing(folder):
            check_tree(folder)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise RayfedError(f"{path}: cannot be written ({why})") from error
