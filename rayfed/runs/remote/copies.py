"""Local copies of remote result folders: download, and upload at each checkpoint and at the end.

The driver of a run links the files of a checkpoint into a snapshot, and a thread of the process
that runs the study uploads it. So no checkpoint waits for the network, and drivers in other
processes need no access to the store.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from rayfed.core.announced import PARTS
from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.inside import opened
from rayfed.core.leases import LOCK
from rayfed.core.run_state import read_record
from rayfed.runs.files import checkpoints, store
from rayfed.runs.files.folder import Tell, free_name
from rayfed.runs.files.place import NOTE, SNAPSHOTS, home_of, read_note
from rayfed.runs.remote.objects import OWNER, Gone, Objects, Owner, StoreError, Taken, read_lock

RENEW_S = 10.0
"""Seconds between renewals of the lock."""
EVERY_S = 2.0
"""Seconds between two looks for new checkpoints."""
FINISH_S = 60.0
"""Seconds for which the last upload is tried again while the store cannot be reached."""

Stamp: TypeAlias = list[int]
"""Identity of a local file's content: files of results are replaced by renaming, or grow."""

_RUN = "run.json"
_LISTS = (PARTS, *(f"checkpoint/{name}" for name in checkpoints.MANIFESTS))
_TEMPORARY = re.compile(r"(^|/)(\.[^/]*|\w+\.(new|old))(/|$)|^$|^/|//|/$|\\")
_REPLACED = re.compile(r"\.parquet/part-|/checkpoint/|/parts\.jsonl$")
"""Files that a run deletes; others that it does not have may come from elsewhere."""
_DOWNLOAD_S = 600.0
"""Seconds to wait for another process of this machine that downloads the same folder."""
_TRIES = 5


class Copy:
    """The local copy of a remote folder.

    The note next to it holds the ``session`` that wrote the folder here (empty otherwise), whether
    all was uploaded (``sent``), and of remote files the versions of object and file (``held``).

    Parameters
    ----------
    url : str
    home : Path, optional
        Folder of the copy and of files in transit; in the user's cache folder if None.
    """

    def __init__(self, url: str, home: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self.home = home or home_of(self.url)
        last = re.sub(r"[^\w.-]", "-", self.url.rpartition("/")[2]).lstrip(".")
        self.folder = self.home / (last or "results")
        self.note: dict[str, Any] = {"session": "", "sent": True, "held": {}}

    @cached_property
    def objects(self) -> Objects:
        """The remote folder."""
        return Objects(self.url)

    def write_note(self, **changes: Any) -> None:
        """Change the note."""
        self.note |= {"url": self.url, "copy": self.folder.name} | changes
        store.publish_text(self.home / NOTE, json.dumps(self.note), durable=True)

    def results(self) -> dict[str, str]:
        """Return the names of the remote results, each with the version of its object."""
        return {k: v for k, v in self.objects.list().items() if not is_temporary(k)}

    def runs(self) -> dict[str, Path]:
        """Return the folders of runs by name."""
        return {path.parent.name: path.parent for path in sorted(self.folder.glob(f"*/{_RUN}"))}

    def check_empty(self) -> None:
        """Raise ScenarioError if anything but a lock is there."""
        if self.objects.list().keys() - {OWNER}:
            text = "is not empty; go on with a study there by rayfed resume, or give another --out"
            raise ScenarioError(self.url, text)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other processes of this machine, and read the note; errors become refusals."""
        store.make_folder(self.home)
        text = f"another process has been downloading it for {_DOWNLOAD_S:g} s"
        try:
            with store.lease(self.home / LOCK, _DOWNLOAD_S, ScenarioError(self.url, text)):
                self.note |= read_note(self.folder)
                yield
        except StoreError as error:
            raise ScenarioError(self.url, str(error)) from error


def begin(url: str) -> Path:
    """Return the local folder for a new study.

    Raises
    ------
    ScenarioError
        If the URL cannot be read, or is not empty.
    """
    copy = Copy(url)
    with copy.locked():
        copy.check_empty()
        copy.write_note(session="", sent=False, held={})
    return copy.folder


def bring(url: str, tell: Tell) -> Path:
    """Return the local copy of a remote folder after a download of the differences.

    Raises
    ------
    ScenarioError
        If nothing is there, or it cannot be read.
    """
    copy = Copy(url)
    with copy.locked():
        if not store.is_leased(copy.folder / LOCK):
            _update(copy, str(read_lock(copy.objects).get("session", "")), tell)
    return copy.folder


@contextmanager
def owned(folder: Path, tell: Tell) -> Iterator[None]:
    """Own the remote folder of a local copy, and upload each checkpoint; the rest at the end.

    Raises
    ------
    ScenarioError
        If another process owns the remote folder; the error names it.
    RayfedError
        At the end, if not everything was uploaded.
    """
    copy = Copy(read_note(folder)["url"])
    owner = Owner(copy.objects, uuid4().hex)
    with copy.locked():
        last = owner.take(copy.note["session"], tell)
        try:
            if copy.note["session"] or copy.note["sent"]:
                _update(copy, last, tell)
            else:  # `begin` has made it
                copy.check_empty()
            uploader = Uploader(copy, owner, tell)
        except BaseException:
            with suppress(RayfedError):
                owner.renew(ended=True)
            raise
    with _repeated(RENEW_S, uploader.renew):
        try:
            with _repeated(EVERY_S, uploader.attempt):
                yield
        except BaseException:
            try:
                uploader.finish()
            except RayfedError as error:  # does not hide the first one
                tell(str(error))
            raise
        uploader.finish()


@contextmanager
def returned(folder: Path) -> Iterator[None]:
    """Upload files that a command writes next to the runs of a local copy, such as the page.

    Raises
    ------
    RayfedError
        If that fails; it names the local folder.
    """
    copy = Copy(read_note(folder)["url"])
    before = {name: stamp(path) for name, path in files_in(folder, copy.runs()).items()}
    yield
    after = files_in(folder, copy.runs())
    try:
        copy.objects.put({k: path for k, path in after.items() if before.get(k) != stamp(path)})
    except StoreError as error:
        text = f"{copy.url}: {error}; what was written is in {folder}"
        raise RayfedError(text) from error


def snapshot(run: Path) -> None:
    """Keep the files of a run, which nobody else writes, as they are now until they are uploaded.

    Where files grow or the file system has no links, they are copied.
    """
    target = run.parent.parent / SNAPSHOTS / run.name
    draft, old = (target.with_name(f".{run.name}.{kind}") for kind in ("new", "old"))
    store.remove(draft)
    for name, path in files_in(run).items():
        (draft / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            if path.suffix in (".txt", ".jsonl"):
                raise OSError
            os.link(path, draft / name, follow_symlinks=False)
        except OSError:
            with opened(path) as file, (draft / name).open("wb") as copy:
                shutil.copyfileobj(file, copy)
    with suppress(FileNotFoundError):  # none waits
        os.rename(target, old)
    os.rename(draft, target)
    store.remove(old)


class Uploader:
    """Uploads checkpoints, so that the study can be resumed from the store at any moment.

    Parameters
    ----------
    copy : Copy
    owner : Owner
    tell : callable
        Receives a line if uploads fail.
    """

    def __init__(self, copy: Copy, owner: Owner, tell: Tell) -> None:
        self.copy, self.owner, self.tell, self.problem = copy, owner, tell, ""
        self.snapshots = copy.home / SNAPSHOTS
        store.remove(self.snapshots)
        store.make_folder(self.snapshots)
        held = copy.note["held"]
        self.known = {
            name: held[name][1] if name in held and held[name][0] == version else None
            for name, version in copy.results().items()
        }
        copy.write_note(session=owner.session, sent=False, held={})

    def upload(self) -> None:
        """Upload the files of the study, and the newest snapshot of each run."""
        self._put(files_in(self.copy.folder, self.copy.runs()))
        for run in store.names(self.snapshots):
            if not run.startswith("."):
                sent = self.snapshots / ".sent"
                store.remove(sent)
                os.rename(self.snapshots / run, sent)
                self._send(run, files_in(sent))

    def attempt(self) -> None:
        """Upload; the study goes on if that fails, and later checkpoints are uploaded."""
        try:
            self.upload()
        except Exception as error:
            problem = f"uploads to {self.copy.url} fail ({clipped(error, 160)})"
            if problem != self.problem:
                self.tell(f"{problem}; the study goes on in {self.copy.folder}")
            self.problem = problem
            if isinstance(error, Taken):
                raise

    def renew(self) -> None:
        """Renew the lock, if the store can be reached."""
        with suppress(StoreError):
            self.owner.check()
            self.owner.renew()

    def finish(self) -> None:
        """Upload the rest, except for runs that a driver still writes, and release the lock.

        Raises
        ------
        RayfedError
            If that fails for `FINISH_S`; it names the local folder.
        """
        deadline = time.monotonic() + FINISH_S
        waiting = False
        while True:
            try:
                return self._finish()
            except (RayfedError, OSError) as error:
                why, folder = clipped(error, 160), self.copy.folder
                if isinstance(error, Taken) or time.monotonic() >= deadline:
                    text = f"{self.copy.url}: not everything was uploaded ({why}); all of it is in"
                    text += f" {folder}"
                    if not isinstance(error, Taken):
                        text += f", upload it from this machine by: rayfed resume {self.copy.url}"
                    raise RayfedError(text) from error
            if not waiting:
                text = f"uploads to {self.copy.url} fail ({why}); all results are in {folder}"
                self.tell(f"{text}, retrying for {FINISH_S:g} s")
            waiting = True
            time.sleep(EVERY_S)

    def _finish(self) -> None:
        self.owner.check()
        for run in self.copy.runs().values():
            if not store.is_leased(run / LOCK):
                snapshot(run)
        self.upload()
        held = {k: (v, self.known.get(k)) for k, v in self.copy.results().items()}
        self.owner.renew(ended=True)
        self.copy.write_note(sent=True, held=held)

    def _send(self, run: str, found: Mapping[str, Path]) -> None:
        """Upload the files of a run: files before those that list them, deletions last."""
        files = {f"{run}/{name}": path for name, path in found.items()}
        record, *lists = (f"{run}/{name}" for name in (_RUN, *_LISTS))
        # only a run that has not finished has the first list
        listing = [record, *lists] if lists[0] in files else [*lists, record]
        for names in (sorted(files.keys() - {*listing}), *([k] for k in listing if k in files)):
            self._put({name: files[name] for name in names})
        old = [k for k in self.known if k.startswith(f"{run}/") and k not in files]
        gone = [name for name in old if _REPLACED.search(name)]
        self.copy.objects.delete(gone)
        for name in gone:
            del self.known[name]

    def _put(self, files: Mapping[str, Path]) -> None:
        stamps = {name: stamp(path) for name, path in files.items()}
        new = {name: now for name, now in stamps.items() if self.known.get(name) != now}
        if new:
            self.owner.check()
            self.known |= dict.fromkeys(new)  # unknown until the upload has succeeded
            self.copy.objects.put({name: files[name] for name in new})
            self.known |= new


@contextmanager
def _repeated(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Do something again and again meanwhile, until another process owns the remote folder."""
    ended = threading.Event()

    def repeat() -> None:
        with suppress(Taken):
            do()
            while not ended.wait(seconds):
                do()

    thread = threading.Thread(target=repeat, name="rayfed-upload", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def stamp(path: Path) -> Stamp:
    """Return the stamp of a file; raises FileNotFoundError if there is none."""
    status = path.lstat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def is_temporary(name: str) -> bool:
    """Return whether a name is no result: a draft, a lock, a table being replaced.

    A name that leads out of the folder is none either.

    Examples
    --------
    >>> is_temporary("a/.lock"), is_temporary("a/rounds.new/part-0"), is_temporary("a/run.json")
    (True, True, False)
    >>> is_temporary("../run.json"), is_temporary("/run.json"), is_temporary("a//run.json")
    (True, True, True)
    """
    return bool(_TEMPORARY.search(name))


def files_in(folder: Path, without: Container[str] = ()) -> dict[str, Path]:
    """Return the results in a folder by name; links are left out, as all that is no regular file.

    Parameters
    ----------
    folder : Path
    without : container of str
        Folders in it to leave out.
    """
    found = {}
    for home, folders, names in os.walk(folder):
        folders[:] = sorted(k for k in folders if not is_temporary(k) and k not in without)
        for path in (Path(home) / name for name in sorted(names) if not is_temporary(name)):
            if stat.S_ISREG(path.lstat().st_mode):
                found[path.relative_to(folder).as_posix()] = path
    return found


def _update(copy: Copy, last: str, tell: Tell) -> None:
    """Download the differences, unless this machine has results that were not uploaded yet.

    Others may have added files beside the runs, such as notes, even if they ran nothing.
    """
    exists = bool(store.names(copy.folder))
    own = exists and copy.note["session"] and copy.note["session"] == last
    if own and not copy.note["sent"]:
        return
    if exists and not copy.note["sent"]:
        aside = free_name(copy.folder)
        store.move(copy.folder, aside)
        tell(f"what was recorded here and not uploaded was moved aside to {aside}")
    for _ in range(_TRIES):
        with suppress(Gone):  # somebody writes there meanwhile
            if fetch(copy, own=own):
                return
    raise StoreError("changes faster than it can be downloaded; try again")


def fetch(copy: Copy, *, own: bool = False) -> bool:
    """Make the local copy equal to the remote folder; return whether that is still the same.

    One's `own`, of the machine that wrote there last, only gets what others have changed since.

    Raises
    ------
    ScenarioError
        If nothing is there.
    StoreError
        If it cannot be read.
    """
    versions, held = copy.results(), copy.note["held"]
    if not versions:
        raise ScenarioError(copy.url, "is no result folder; nothing is there")
    local = {name: stamp(path) for name, path in files_in(copy.folder).items()}
    known = {k: v for k, (v, made) in held.items() if own or local.get(k) == made}
    missing = [k for k, v in versions.items() if k not in local or known.get(k) != v]
    if not own:
        copy.write_note(session="", sent=True, held={})  # until it is complete
    drafts = copy.home / ".downloads"
    store.remove(drafts)
    store.make_folder(drafts)
    copy.objects.get({name: drafts / str(number) for number, name in enumerate(missing)})
    for number, name in enumerate(missing):
        (copy.folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(drafts / str(number), copy.folder / name)
    for name in (held if own else local).keys() - versions.keys():
        store.remove(copy.folder / name)
    # deletions come last and may have been interrupted
    for run in () if own else copy.runs().values():
        listed = read_record(run).get("files") or {}
        for part in run.glob("*.parquet/part-*") if listed else ():
            if part.relative_to(run).as_posix() not in listed:
                store.remove(part)
    store.append_text(copy.folder / LOCK, "")
    here = files_in(copy.folder)
    fetched = {k: [v, stamp(here[k])] for k, v in versions.items() if k in here}
    kept = {k: held[k] for k in fetched.keys() - {*missing} if k in held} if own else {}
    copy.write_note(held=fetched | kept)
    return copy.results() == versions
