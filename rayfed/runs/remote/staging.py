"""Local copies of remote folders: where they are, what is noted of them, how they are brought."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from rayfed.core.announced import PARTS
from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.core.files import read_json
from rayfed.core.leases import LOCK
from rayfed.runs.files import checkpoints, store
from rayfed.runs.files.folder import Tell, free_name
from rayfed.runs.files.place import NOTE, home_of, read_note
from rayfed.runs.remote.objects import OWNER, Gone, Objects, StoreError, batches, read_owner

RUN = "run.json"
MANIFESTS = tuple(f"checkpoint/{name}" for name in checkpoints.MANIFESTS)
LISTS = (RUN, PARTS, *MANIFESTS)
"""Files of a run that list others."""

Stamp: TypeAlias = list[int]
"""Tells contents of a local file apart: files of results are replaced by renaming, or grow."""
Known: TypeAlias = dict[str, Stamp | None]
"""The objects that are remote, each with the stamp of the local file that it was made of."""

_PASSING = re.compile(r"(^|/)(\.[^/]*|\w+\.(new|old))(/|$)|^$|^/|//|/$|\\")
_FETCH_S = 600.0
"""Seconds for which another process of this machine that brings the same folder is waited for."""
_TRIES = 5  # of a folder that somebody writes meanwhile


def stamp(path: Path) -> Stamp:
    """Return the stamp of a file; raises FileNotFoundError if it is gone."""
    facts = path.lstat()
    return [facts.st_ino, facts.st_size, facts.st_mtime_ns]


def is_passing(name: str) -> bool:
    """Return whether a name is none of the results: a draft, a lock, a table being replaced.

    Neither is what would not be inside of a folder.

    Examples
    --------
    >>> is_passing("a/.lock"), is_passing("a/rounds.new/part-0"), is_passing("a/run.json")
    (True, True, False)
    >>> is_passing("../run.json"), is_passing("/run.json"), is_passing("a//run.json")
    (True, True, True)
    """
    return bool(_PASSING.search(name))


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
    held : mapping
        The version of each object whose content is here, and the stamp of its file.
    """

    session: str = ""
    mine: bool = False
    sent: bool = True
    new: bool = False
    held: Mapping[str, tuple[str, Stamp]] = field(default_factory=dict)


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
        url = url.rstrip("/")
        return cls(url, home_of(url))

    @classmethod
    def holding(cls, folder: Path) -> Staging | None:
        """Return that of a local copy; None if a folder is none."""
        note = read_note(folder)
        return cls(str(note["url"]), folder.parent) if note else None

    @cached_property
    def objects(self) -> Objects:
        """The remote folder."""
        return Objects(self.url)

    @property
    def folder(self) -> Path:
        """The copy, called as the last part of the URL."""
        last = self.url.rpartition("/")[2]
        return self.home / (re.sub(r"[^\w.-]", "-", last).lstrip(".") or "results")

    def passing(self) -> Path:
        """Return an empty folder for files on their way."""
        folder = self.home / "passing"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def note(self) -> Note:
        """Return what is noted."""
        read = read_note(self.folder)
        return Note(**{k: read[k] for k in Note.__dataclass_fields__ if k in read})

    def write_note(self, **changes: Any) -> None:
        """Change what is noted."""
        note = replace(self.note(), **changes)
        record = {"url": self.url, "copy": self.folder.name, **vars(note)}
        store.make_folder(self.home)
        store.publish_text(self.home / NOTE, json.dumps(record), durable=True)

    def names(self, inside: str = "", without: Container[str] = ()) -> Iterator[str]:
        """Yield the names of the files in a folder of the copy, without some folders in that.

        Links are left out, as whatever is no regular file.

        Rows of rounds are listed before those of other tables, which are written first, so that
        none lacks its events.
        """
        for home, folders, files in os.walk(self.folder / inside):
            place = Path(home).relative_to(self.folder)
            kept = (name for name in folders if not is_passing(name) and name not in without)
            folders[:] = sorted(kept, key=lambda name: name != "rounds.parquet")
            kept = (name for name in files if not is_passing(name))
            yield from ((place / name).as_posix() for name in kept if _is_regular(home, name))

    def versions(self) -> dict[str, str]:
        """Return the results that are remote, each with the version of its object."""
        return {k: v for k, v in self.objects.list().items() if not is_passing(k)}

    def known(self) -> Known:
        """Return what is remote, with the stamps of what was brought here."""
        brought = self.note().held
        return {
            name: brought[name][1] if name in brought and brought[name][0] == version else None
            for name, version in self.versions().items()
        }


def begin(url: str, tell: Tell) -> Path:
    """Return the local folder for the results of a new study; what it held is moved aside.

    Raises
    ------
    ScenarioError
        If the URL cannot be written, or something is there.
    """
    staging = Staging.of(url)
    objects = staging.objects
    with refused(staging.url):
        if any(name != OWNER for name in objects.list()):
            text = "is not empty; go on with a study there by rayfed resume, or give another --out"
            raise ScenarioError(staging.url, text)
        probe = f".{uuid4().hex}"
        objects.write(probe, b"")  # may it be written at all?
        objects.delete([probe])
        last = read_owner(objects)
    if _is_written_here(staging):
        raise ScenarioError(staging.url, "another process of this machine is running a study there")
    if store.names(staging.folder):
        _move_aside(staging, "an earlier copy", tell)
    session = str(last.get("session", ""))
    staging.write_note(session=session, mine=True, sent=False, new=True, held={})
    return staging.folder


def bring(url: str, tell: Tell) -> Path:
    """Return the local copy of a remote folder, brought to what is remote.

    Where a process of this machine wrote the folder last, the copy is as it left it.

    Raises
    ------
    ScenarioError
        If nothing is there, or it cannot be read.
    """
    staging = Staging.of(url)
    with refused(staging.url), alone(staging):
        if not _is_written_here(staging):
            bring_unless_newer(staging, str(read_owner(staging.objects).get("session", "")), tell)
    return staging.folder


def bring_unless_newer(staging: Staging, last: str, tell: Tell) -> None:
    """Bring a folder here unless the copy holds at least what is remote.

    Parameters
    ----------
    last : str
        The session that wrote it last; empty if that is not known.
    """
    note = staging.note()
    if note.mine and note.session == last and store.names(staging.folder):
        return
    if note.mine and not note.sent and store.names(staging.folder):
        _move_aside(staging, "what was recorded here and not uploaded", tell)
        staging.write_note(held={})
    fetch(staging)
    staging.write_note(session=last)


@contextmanager
def alone(staging: Staging) -> Iterator[None]:
    """Keep other processes of this machine from bringing the same folder."""
    store.make_folder(staging.home)
    text = f"another process has been bringing it here for {_FETCH_S:g} s"
    with store.lease(staging.home / LOCK, _FETCH_S, ScenarioError(staging.url, text)):
        yield


@contextmanager
def refused(url: str) -> Iterator[None]:
    """Turn what a store raises before anything starts into a line about the URL."""
    try:
        yield
    except StoreError as error:
        raise ScenarioError(url, str(error)) from error


@contextmanager
def returned(folder: Path) -> Iterator[None]:
    """Upload what a command writes beside the runs of a local copy, such as the page.

    Raises
    ------
    RayfedError
        If that fails; it says where the files are.
    """
    staging = Staging.holding(folder)
    if staging is None:
        yield
        return
    before = _stamps(staging)
    yield
    changed = [name for name, stamp in _stamps(staging).items() if before.get(name) != stamp]
    try:
        staging.objects.put({name: folder / name for name in changed})
    except StoreError as error:
        text = f"{staging.url}: {error}; what was written is in {folder}"
        raise RayfedError(text) from error


def _stamps(staging: Staging) -> dict[str, Stamp]:
    """Return the stamps of the files outside of runs."""
    runs = {path.parent.name for path in staging.folder.glob("*/run.json")}
    return {name: stamp(staging.folder / name) for name in staging.names(without=runs)}


def _move_aside(staging: Staging, what: str, tell: Tell) -> None:
    aside = free_name(staging.folder)
    store.move(staging.folder, aside)
    tell(f"{what} was moved aside to {aside}")


def _is_written_here(staging: Staging) -> bool:
    """Return whether a process of this machine is writing the copy."""
    lock = staging.folder / LOCK
    return lock.is_file() and store.is_leased(lock)


def fetch(staging: Staging) -> None:
    """Make the local copy what is remote.

    Raises
    ------
    ScenarioError
        If nothing is there.
    StoreError
        If it cannot be read.
    """
    for left in reversed(range(_TRIES)):
        try:
            if _fetch(staging):
                return
        except Gone:
            if not left:
                raise


def _fetch(staging: Staging) -> bool:
    """Bring what differs, and return whether the files that list others stayed as they are."""
    versions = staging.versions()
    if not versions:
        raise ScenarioError(staging.url, "is no result folder; nothing is there")
    staging.write_note(session="", mine=False, sent=True)  # until it is whole
    lists = [name for name in versions if name.partition("/")[2] in LISTS]
    brought, passing = dict(staging.note().held), staging.passing()
    try:
        for names in batches(sorted(versions, key=lambda name: name not in lists)):
            places = {
                name: passing / str(number)
                for number, name in enumerate(names)
                if not _is_here(staging.folder / name, versions[name], brought.get(name))
            }
            staging.objects.get(places)
            for name, place in places.items():
                target = staging.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(place, target)
                brought[name] = versions[name], stamp(target)
    finally:  # what has come need not come again
        staging.write_note(held={name: brought[name] for name in brought if name in versions})
    for home, _, names in os.walk(staging.folder):
        for path in (Path(home) / name for name in names):
            if path.relative_to(staging.folder).as_posix() not in versions and path.name != LOCK:
                store.remove(path)
    _delete_leftovers(staging.folder)
    store.append_text(staging.folder / LOCK, "")
    now = staging.versions()
    return all(now.get(name) == versions[name] for name in lists)


def _delete_leftovers(folder: Path) -> None:
    """Delete parts of tables that runs which have ended do not list.

    They were about to be deleted where they are remote when the machine died that replaced them.
    """
    for path in folder.glob(f"*/{RUN}"):
        listed = read_json(path, results=True).get("files")
        for part in path.parent.glob("*.parquet/part-*") if listed else ():
            if part.relative_to(path.parent).as_posix() not in listed:
                store.remove(part)


def _is_regular(home: str, name: str) -> bool:
    """Return whether a name is that of a regular file; one that is gone by now is told later."""
    with suppress(FileNotFoundError):
        return stat.S_ISREG(os.lstat(os.path.join(home, name)).st_mode)
    return True


def _is_here(path: Path, version: str, brought: tuple[str, Stamp] | None) -> bool:
    return brought is not None and path.is_file() and list(brought) == [version, stamp(path)]
