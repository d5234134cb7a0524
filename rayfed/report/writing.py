"""Writing of files and folders, where what fails is one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rayfed.core.errors import RayfedError


def replace(path: Path, text: str) -> None:
    """Write a file atomically: under a temporary name, then renamed.

    Raises
    ------
    RayfedError
        If it cannot be written; what was there before stays.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with _writing(path):
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink()
            raise


def make(folder: Path) -> None:
    """Make a folder, if it is not there.

    Raises
    ------
    RayfedError
        If it cannot be made.
    """
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise RayfedError(f"{path}: cannot be written ({why})") from error
