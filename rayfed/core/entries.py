"""What is known of a file when it is written, so that a reader can tell damage."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

_DIGEST_BYTES = 16


class Damaged(Exception):
    """A file is not as it was written, or is gone."""


@dataclass(frozen=True)
class Entry:
    """What is known of a file when it is written.

    Parameters
    ----------
    bytes : int
        Its size.
    digest : str
        BLAKE2b of its content, 16 bytes in hexadecimal digits.
    rows : int, optional
        Rows of a table.
    """

    bytes: int
    digest: str
    rows: int | None = None

    @classmethod
    def of(cls, path: Path, rows: int | None = None) -> Entry:
        """Return the entry of a file as it is now."""
        with path.open("rb") as file:
            new = partial(hashlib.blake2b, digest_size=_DIGEST_BYTES)
            digest = hashlib.file_digest(file, new).hexdigest()
            return cls(os.fstat(file.fileno()).st_size, digest, rows)

    def check(self, path: Path) -> None:
        """Raise `Damaged` unless a file is as it was written."""
        try:
            now = Entry.of(path, self.rows)
        except OSError as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
            raise Damaged(f"{_short(path)} {what}") from error
        if now.bytes != self.bytes:
            raise Damaged(f"{_short(path)} has {now.bytes} bytes in place of {self.bytes}")
        if now != self:
            raise Damaged(f"{_short(path)} is not what was written")


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def described(entries: Mapping[str, Entry]) -> dict[str, dict[str, Any]]:
    """Return entries as JSON takes them."""
    return {name: asdict(entry) for name, entry in entries.items()}


def entries(found: Mapping[str, Any]) -> dict[str, Entry]:
    """Return what `described` made; raises TypeError or AttributeError for anything else."""
    return {name: Entry(**values) for name, values in found.items()}


def digest(content: bytes) -> str:
    """Return the digest of bytes; see `Entry`."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def check(folder: Path, files: Mapping[str, Entry]) -> None:
    """Raise `Damaged` unless all files of a folder are as they were written."""
    for name, entry in files.items():
        entry.check(folder / name)
