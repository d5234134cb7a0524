"""The objects under a URL, read and written whole by fsspec; one of them says who writes there.

That says so and beats, so that one process at a time writes. It cannot exclude everything: stores
have no locks. A process that was stopped for longer than others wait, or cut off from the store,
may send some objects before it finds out, and a resume may have to go back further by them.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from rayfed.core.errors import RayfedError, ScenarioError, clipped, unknown
from rayfed.core.extras import install
from rayfed.core.files import parse_json
from rayfed.core.inside import NotRegular, check, check_tree, real

BATCH = 32
"""Objects that are sent at a time, side by side where the store can."""
EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
"""Protocols that an extra of rayfed brings, and its name."""
_LOCAL = ("file", "local")


class StoreError(RayfedError):
    """A remote folder cannot be read or written."""


class Gone(StoreError):
    """An object is not there any more."""


class Objects:
    """The objects under a URL; names are relative to it.

    A store holds whole objects: one is there as it was sent, or not at all. In a folder of this
    machine (``file://``) no link is followed, as in every result folder.

    Parameters
    ----------
    url : str
        Such as ``s3://bucket/study``, of any protocol that fsspec knows.

    Raises
    ------
    ScenarioError
        If the protocol is not known, or what reads it is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        protocol = url.partition("://")[0].rpartition("::")[2]
        try:
            self.local = protocol in _LOCAL
            if self.local:
                self.fs, root = url_to_fs(self.url, auto_mkdir=True)
                root = str(real(Path(root)))
            else:
                self.fs, root = url_to_fs(self.url)
        except ImportError as error:
            raise ScenarioError(self.url, _missing(protocol, error)) from error
        except Exception as error:
            if protocol not in fsspec.available_protocols():
                text = unknown("protocol", protocol, fsspec.available_protocols())
                raise ScenarioError(self.url, text) from error
            raise ScenarioError(self.url, f"cannot be opened ({_why(error)})") from error
        self.root = root.rstrip("/")

    def list(self) -> dict[str, str]:
        """Return all names, each with a text that changes when the object does."""
        with _said("cannot be listed"):
            self.fs.invalidate_cache()
            if self.local:
                check_tree(Path(self.root))
            try:
                found = self.fs.find(self.root, detail=True)
            except FileNotFoundError:
                if self._has_bucket():
                    return {}
                raise
        start = len(self.root) + 1
        return {path[start:]: _version(info) for path, info in found.items() if path[start:]}

    def _has_bucket(self) -> bool:
        """Return whether what stands before the first slash exists: a bucket is not made here."""
        bucket = self.root.lstrip("/").partition("/")[0]
        return bucket == self.root.lstrip("/") or bool(self.fs.exists(bucket))

    def read(self, name: str) -> bytes | None:
        """Return what an object holds; None if there is none."""
        with _said("cannot be read"):
            self.fs.invalidate_cache()
            try:
                content: bytes = self.fs.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return content

    def write(self, name: str, content: bytes) -> None:
        """Replace an object."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "object"
            path.write_bytes(content)
            self.put({name: path})

    def put(self, files: Mapping[str, Path]) -> None:
        """Replace objects by the content of files, in any order."""
        with _said("cannot be written"):
            for names in batches(files):
                sources = [str(files[name]) for name in names]
                self.fs.put(sources, [self._path(name) for name in names])

    def get(self, files: Mapping[str, Path]) -> None:
        """Read objects into files, whose folders exist.

        Raises
        ------
        Gone
            If one is not there.
        """
        with _said("cannot be read"):
            for names in batches(files):
                targets = [str(files[name]) for name in names]
                self.fs.get([self._path(name) for name in names], targets)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; that one is gone already is no error."""
        with _said("cannot be deleted"):
            for some in batches(names):
                try:
                    self.fs.rm([self._path(name) for name in some])
                except FileNotFoundError:
                    there = self.list()
                    if left := [self._path(name) for name in some if name in there]:
                        self.fs.rm(left)

    def _path(self, name: str) -> str:
        path = f"{self.root}/{name}"
        if self.local:
            with suppress(FileNotFoundError):
                check(Path(path))
        return path


def batches(names: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yield names, `BATCH` at a time."""
    left = list(names)
    for start in range(0, len(left), BATCH):
        yield left[start : start + BATCH]


@contextmanager
def _said(what: str) -> Iterator[None]:
    """Turn whatever a store's library raises into one line: each has errors of its own."""
    try:
        yield
    except RayfedError:
        raise
    except NotRegular as error:
        raise ScenarioError(str(error.filename), str(error.strerror)) from error
    except FileNotFoundError as error:
        raise Gone(f"{what} ({_why(error)})") from error
    except Exception as error:
        raise StoreError(f"{what} ({_why(error)})") from error


def _why(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError) and "exist" not in text:
        text = f"there is no {text}"
    return clipped(text.rstrip("."), 160)


def _version(info: Mapping[str, Any]) -> str:
    """Return a text that tells versions of an object apart, whatever the store calls them."""
    return "; ".join(f"{key} {info[key]}" for key in sorted(info) if key != "name")


def _missing(protocol: str, error: ImportError) -> str:
    if protocol in EXTRAS:
        return f"needs the extra {EXTRAS[protocol]}: {install(EXTRAS[protocol])}"
    return f"needs more than is installed ({_why(error)})"


OWNER = ".owner.json"
"""Object that says who writes the folder."""
BEAT_S = 10.0
"""Seconds after which the owner beats again."""
WAIT_S = 35.0
"""Seconds that a beat is waited for, before an owner that did not say goodbye counts as dead."""
SETTLE_S = 0.5
"""Seconds after which the last of those that came at the same time is the owner."""


class Taken(RayfedError):
    """Another process has become the owner."""


class Owner:
    """The right to write a remote folder.

    Parameters
    ----------
    objects : Objects
        The folder.
    session : str
        A name that nobody else has.
    """

    def __init__(self, objects: Objects, session: str) -> None:
        self.objects, self.session = objects, session
        self.beats = 0
        self.taken: Taken | None = None
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="rayfed-owner", daemon=True)

    def take(self, before: str, tell: Callable[[str], None]) -> str:
        """Become the owner, and return the session of the one before; empty if there was none.

        Parameters
        ----------
        before : str
            The session of the last process that wrote the folder on this machine, which has ended:
            if it was the last of all, nobody is waited for.
        tell : callable
            Is given a line where somebody is.

        Raises
        ------
        ScenarioError
            If another process is the owner.
        """
        record = read_owner(self.objects)
        last = str(record.get("session", ""))
        if last and last != before and not record.get("ended"):
            tell(
                f"{self.objects.url} was not left by {record.get('who')}; waiting {WAIT_S:g} s for "
                "a sign of life"
            )
            self._wait(record)
        self._write()
        time.sleep(SETTLE_S)
        try:
            self.check()
        except Taken as error:
            raise ScenarioError("", f"{error}; wait for that, or end it there") from error
        self._thread.start()
        return last

    def _wait(self, record: dict[str, Any]) -> None:
        """Wait whether the owner beats."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            time.sleep(min(1.0, WAIT_S / 10))
            now = read_owner(self.objects)
            if now.get("ended"):
                return
            if now != record:
                text = f"is being written by {now.get('who')}; wait for that, or end it there"
                raise ScenarioError(self.objects.url, text)

    def _beat(self) -> None:
        """Say again and again that this process is still there."""
        while not self._left.wait(BEAT_S):
            try:
                self.check()
                self._write()
            except Taken as error:
                self.taken = error
                return
            except StoreError:  # the next time, maybe
                continue

    def check(self) -> None:
        """Raise Taken if another process has become the owner."""
        record = read_owner(self.objects)
        if record and record.get("session") != self.session:
            raise Taken(f"{record.get('who')} writes {self.objects.url} now")

    def leave(self) -> None:
        """Say that this process writes no more; who it was stays known."""
        self.stop()
        self.check()
        self._write(ended=True)

    def stop(self) -> None:
        """Beat no more."""
        self._left.set()
        if self._thread.is_alive():
            self._thread.join()

    def _write(self, ended: bool = False) -> None:
        self.beats += 1
        said = {
            "session": self.session, "who": _who(), "beat": self.beats, "ended": ended,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }  # fmt: skip
        self.objects.write(OWNER, json.dumps(said).encode())


def read_owner(objects: Objects) -> dict[str, Any]:
    """Return what the object says that names the owner; empty if there is none."""
    with suppress(ValueError):
        record = parse_json(objects.read(OWNER) or b"{}")
        if isinstance(record, dict):
            return record
    return {}


def _who() -> str:
    user = "somebody"
    with suppress(KeyError, OSError):
        user = getpass.getuser()
    return f"process {os.getpid()} of {user} on {platform.node()}"
