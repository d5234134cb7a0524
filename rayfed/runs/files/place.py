"""Places of result folders: URLs, and local copies of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.core.files import read_json

NOTE = "remote.json"
"""File next to the local copy of a remote folder: its URL, and the state of the copy."""
SNAPSHOTS = ".snapshots"
"""Folder next to the local copy of a remote folder, with checkpoints to upload."""
_KEY_BYTES = 8


def is_url(place: str | Path) -> bool:
    """Return whether a result folder is given as a URL.

    Raises
    ------
    ScenarioError
        If it is a Path that was made of a URL, which has lost a slash.

    Examples
    --------
    >>> is_url("s3://bucket/study"), is_url("results/study"), is_url(Path("results/study"))
    (True, False, False)
    """
    if isinstance(place, str):
        return "://" in place
    first = place.parts[:1]
    if first and len(first[0]) > 2 and first[0].endswith(":") and not Path(first[0]).exists():
        raise ScenarioError(str(place), "a URL must be a str: a Path drops one of its slashes")
    return False


def read_note(folder: Path) -> dict[str, Any]:
    """Return the note beside the local copy of a remote folder; empty if it is none.

    What lies elsewhere than where copies are kept is somebody's file, and no note.
    """
    try:
        note = read_json(folder.parent / NOTE, results=True)
        known = isinstance(note, dict) and note.get("copy") == folder.name
        held = known and home_of(str(note.get("url"))).resolve() == folder.parent.resolve()
    except (OSError, ValueError):
        return {}
    return note if held else {}


def home_of(url: str) -> Path:
    """Return the folder for the local copy of a URL, and its note, in the user's cache folder."""
    import pooch  # here: it is slow to import

    key = hashlib.blake2b(url.encode(), digest_size=_KEY_BYTES).hexdigest()
    return Path(pooch.os_cache("rayfed")) / "remote" / key


def shown(folder: Path) -> str:
    """Return the user's name of a result folder: its URL if it is a local copy."""
    return str(read_note(folder).get("url") or folder)
