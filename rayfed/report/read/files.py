"""Atomic writing of files."""

from __future__ import annotations

import os
from contextlib import suppress
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
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        why = (error.strerror or str(error)).lower()
        raise RayfedError(f"{path}: cannot be written ({why})") from error
