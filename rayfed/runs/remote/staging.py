"""The local copy of a remote folder: where it is, and what is noted about it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rayfed.runs.files import store
from rayfed.runs.files.place import NOTE, read_note

_KEY_BYTES = 8


@dataclass(frozen=True)
class Note:
    """What is known of a local copy.

    Parameters
    ----------
    session : str
        Of the process that wrote the folder last, as far as it is known here; empty if the copy
        is not whole.
    mine : bool
        Whether that was here, so that the copy holds at least what is remote.
    sent : bool
        Whether everything here is remote, too.
    new : bool
        Whether the copy is of a study that has not been remote yet.
    versions : mapping
        The version of each object whose content is here.
    """

    session: str = ""
    mine: bool = False
    sent: bool = True
    new: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Staging:
    """The local copy of a remote folder.

    Parameters
    ----------
    url : str
    home : Path
        What belongs to the copy lies in this folder: the copy, the note, files on their way.
    """

    url: str
    home: Path

    @classmethod
    def of(cls, url: str) -> Staging:
        """Return where the copy of a URL is, in the user's cache folder."""
        import pooch  # here: it is slow to import

        key = hashlib.blake2b(url.encode(), digest_size=_KEY_BYTES).hexdigest()
        return cls(url, Path(pooch.os_cache("rayfed")) / "remote" / key)

    @classmethod
    def holding(cls, folder: Path) -> Staging | None:
        """Return that of a local copy; None if a folder is none."""
        note = read_note(folder)
        return cls(str(note["url"]), folder.parent) if note else None

    @property
    def folder(self) -> Path:
        """The copy, called as the last part of the URL."""
        last = self.url.rstrip("/").rpartition("/")[2]
        return self.home / (re.sub(r"[^\w.-]", "-", last).lstrip(".") or "results")

    @property
    def passing(self) -> Path:
        """A folder for files on their way."""
        return self.home / "passing"

    def note(self) -> Note:
        """Return what is noted."""
        held = read_note(self.folder)
        return Note(**{k: held[k] for k in Note.__dataclass_fields__ if k in held})

    def write_note(self, **changes: Any) -> None:
        """Change what is noted."""
        note = replace(self.note(), **changes)
        held = {"url": self.url, "copy": self.folder.name, **vars(note)}
        store.make_folder(self.home)
        store.publish_text(self.home / NOTE, json.dumps(held), durable=True)
