"""Result folders: made anew, kept from other processes, earlier results moved aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import Timeout

from rayfed.core.errors import ScenarioError
from rayfed.runs.store import lease

LOCK = ".lock"
"""File of a result folder that a process locks while it runs the study."""


def create(folder: Path) -> None:
    """Make a result folder; earlier results there are moved aside, never deleted.

    Raises
    ------
    ScenarioError
        If the folder cannot be written, holds other files, or is in use.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            _move_aside(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
    except OSError as error:
        text = f"cannot be written ({(error.strerror or str(error)).lower()})"
        raise ScenarioError(f"--out {folder}", f"{text}; choose another folder") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from running the study of a folder.

    Raises
    ------
    ScenarioError
        If another process holds the lock.
    """
    try:
        with lease(folder / LOCK):
            yield
    except Timeout as error:
        text = "another process is running this study; wait for it or choose another folder"
        raise ScenarioError(str(folder), text) from error


def _move_aside(folder: Path) -> None:
    here = Path.cwd()
    if folder.resolve() in (here, *here.parents):
        raise ScenarioError(f"--out {folder}", "is where we are; choose another folder")
    if not all((folder / name).is_file() for name in ("scenario.yaml", LOCK)):
        text = "holds files that are no results; choose another folder"
        raise ScenarioError(f"--out {folder}", text)
    with locked(folder):
        folder.rename(_free_name(folder))


def _free_name(folder: Path) -> Path:
    number = 1
    while folder.with_name(f"{folder.name}.{number}").exists():
        number += 1
    return folder.with_name(f"{folder.name}.{number}")
