"""Entries of files: size and digest when written, so that a reader can tell damage."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import NoneType
from typing import Any

from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.inside import NotRegular, opened

FORMAT = 1
"""Of result folders, in every ``run.json``; it grows when older readers would misread them."""
_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("label", "algorithm", "reason", "stopped_by", "started", "ended"), (str,)),
    **dict.fromkeys(("trace", "scored", "evaluated_on", "data_note", "aim", "exact"), (str,)),
    **dict.fromkeys(("study", "scenario", "settings", "versions", "data", "identity"), (dict,)),
    **dict.fromkeys(("files", "trial"), (dict,)),
    **dict.fromkeys(("warnings", "changes", "classes"), (list,)),
    **dict.fromkeys(("rounds", "wall_s"), (int, float)),
    "seed": (int,), "clients": (int,), "setting": (str, dict), "baseline": (bool,),
}  # fmt: skip
"""What values of a ``run.json`` are, of those that are there."""
_NUMBERS = ("seed", "clients", "rounds", "wall_s")
_TOO_LARGE = 2**63
"""For an int64."""
_SECTIONS = ("problem", "clients", "participation", "evaluate", "stop", "executor", "grid", "sweep")
"""Keys of a scenario whose values, where there are any, are mappings."""
_DIGEST_BYTES = 16
_SMALL = 2**18  # bytes
_SETTLED_NS = 2_000_000_000  # two writes nearer to each other may have the same time


class Damaged(Exception):
    """A file is not as it was written, or is gone."""


@dataclass(frozen=True)
class Entry:
    """Properties of a file at the time of writing.

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
    def of(cls, path: Path, rows: int | None = None, expected: int | None = None) -> Entry:
        """Return the entry of a file as it is now, without digest if it has not the expected size.

        The digest of a file of many gigabytes takes minutes.
        """
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if expected is not None and size != expected:
                return cls(size, "", rows)
            if size <= _SMALL:  # the buffer of file_digest costs more than to read such a file
                return cls(size, digest_of(file.read()), rows)
            new = partial(hashlib.blake2b, digest_size=_DIGEST_BYTES)
            digest = hashlib.file_digest(file, new).hexdigest()  # type: ignore[arg-type]
            return cls(size, digest, rows)

    def check(self, path: Path) -> None:
        """Raise `Damaged` unless a file is as it was written.

        A process that has read it already looks whether it has been written since.
        """
        try:
            now = _read_now(path, self.bytes)
        except OSError as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
            what = str(error.strerror) if isinstance(error, NotRegular) else what
            raise Damaged(f"{_short(path)} {what}") from error
        if now.bytes != self.bytes:
            raise Damaged(f"{_short(path)} has {now.bytes} bytes in place of {self.bytes}")
        if now.digest != self.digest:
            raise Damaged(f"{_short(path)} is not what was written")


def _read_now(path: Path, expected: int) -> Entry:
    """Return the entry of a file as it is now, as `Entry.of` does."""
    found = path.lstat()
    if time.time_ns() - found.st_ctime_ns < _SETTLED_NS:
        return Entry.of(path, expected=expected)
    return _of_settled(
        path, expected, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


@lru_cache(maxsize=20_000)
def _of_settled(path: Path, expected: int, *stamp: int) -> Entry:
    return Entry.of(path, expected=expected)


def _short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def described(entries: Mapping[str, Entry]) -> dict[str, dict[str, Any]]:
    """Return entries as JSON takes them."""
    return {name: asdict(entry) for name, entry in entries.items()}


def entries(found: Mapping[str, Any]) -> dict[str, Entry]:
    """Return entries from the result of `described`; raise TypeError or AttributeError otherwise.

    Names lead out of no folder.
    """
    if any(name.startswith("/") or ".." in name.split("/") for name in found):
        raise TypeError("a name leads out of the folder")
    return {name: Entry(**values) for name, values in found.items()}


def check_format(record: Mapping[str, Any], path: Path) -> None:
    """Raise ScenarioError unless a ``run.json`` is of the format that is read here.

    Folders of versions that did not write a format are of format 1.

    Parameters
    ----------
    record : mapping
        What it holds.
    path : Path
        Where it is.
    """
    found = record.get("format", FORMAT)
    if found != FORMAT and intact(record):  # else it is damaged
        versions = record.get("versions")
        writer = versions.get("rayfed") if isinstance(versions, Mapping) else None
        by = f", written by rayfed {clipped(writer, 20)}" if writer else ""
        text = f"is of format {clipped(found, 20)}{by}; this version reads format {FORMAT}"
        raise ScenarioError(str(path), f"{text}, so install a newer rayfed")


def is_record(found: Mapping[str, Any]) -> bool:
    """Return whether the values of a ``run.json`` are of the kinds that runs write."""
    if any(not isinstance(found.get(key), (*kinds, NoneType)) for key, kinds in _KINDS.items()):
        return False
    scenario = found.get("scenario") or {}
    listed, sections = scenario.get("algorithms"), [scenario.get(key) for key in _SECTIONS]
    texts = [found.get("status", ""), *(found.get("warnings") or ()), *(found.get("classes") or ())]
    return (
        all(isinstance(text, str) for text in texts)
        and (listed is None or isinstance(listed, list))
        and all(isinstance(each, dict) for each in (*(listed or ()), *(found.get("changes") or ())))
        and all(isinstance(each, (dict, NoneType)) for each in sections)
        and all(isinstance(each, dict) for each in (found.get("files") or {}).values())
        and all(abs(found.get(key) or 0) < _TOO_LARGE for key in _NUMBERS)  # false of NaN
        and _is_text(found)
    )  # fmt: skip


def _is_text(found: Mapping[str, Any]) -> bool:
    """Return whether UTF-8 can hold a record; JSON can name halves of characters."""
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as JSON values, with the digest of its content.

    Examples
    --------
    >>> record = sealed({"round": 3})
    >>> is_unchanged(record), is_unchanged(record | {"round": 4}), is_unchanged({"round": 3})
    (True, False, False)
    """
    content = json.loads(json.dumps(_without_digest(record), default=str))
    return {**content, "digest": _digest(content)}


def is_unchanged(record: Mapping[str, Any]) -> bool:
    """Return whether a record still has the content that was `sealed`."""
    return record.get("digest") == _digest(_without_digest(record))


def _without_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "digest"}


def intact(record: Mapping[str, Any]) -> bool:
    """Return whether a record `is_unchanged`, or was never `sealed`, as by older versions."""
    return "digest" not in record or is_unchanged(record)


def _digest(record: Mapping[str, Any]) -> str:
    return digest_of(json.dumps(record).encode())


def digest_of(content: bytes) -> str:
    """Return the digest of a file's content."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def check(folder: Path, files: Mapping[str, Entry]) -> None:
    """Raise `Damaged` unless all files of a folder are as they were written."""
    for name, entry in files.items():
        entry.check(folder / name)
