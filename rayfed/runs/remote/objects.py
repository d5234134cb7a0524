"""Objects under a URL, accessed through fsspec, and the lock file that names their owner.

The lock lets one process at a time write. It cannot exclude everything, since object stores have no
locks: a process that was suspended for longer than others wait may send some objects before it
notices, and a resume may have to go back further because of them.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from rayfed.core.errors import RayfedError, ScenarioError, clipped, unknown
from rayfed.core.extras import install
from rayfed.core.files import parse_json
from rayfed.core.inside import NotRegular, check, check_tree, real

OWNER = ".owner.json"
"""Lock file: the process that writes the remote folder, renewed while it does."""
WAIT_S = 35.0
"""Seconds without a renewal after which an owner that did not release its lock counts as dead."""
SETTLE_S = 0.5
"""Seconds after which the last of several processes that locked at the same time is the owner."""
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
"""Protocols that an extra of rayfed installs, and the name of the extra."""


class StoreError(RayfedError):
    """A remote folder cannot be read or written."""


class Gone(StoreError):
    """An object does not exist (any more)."""


class Taken(RayfedError):
    """Another process owns the remote folder."""


class Objects:
    """Objects under a URL; their names are relative to it.

    In a folder of this machine (``file://``) links are never followed, as in any result folder.

    Parameters
    ----------
    url : str
        Such as ``s3://bucket/study``, of any protocol that fsspec knows.

    Raises
    ------
    ScenarioError
        If the protocol is unknown, or its library is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        protocol = url.partition("://")[0].rpartition("::")[2]
        self.local = protocol in ("file", "local")
        try:
            self.fs, root = url_to_fs(self.url, **({"auto_mkdir": True} if self.local else {}))
        except ImportError as error:
            text = f"needs more than is installed ({_reason(error)})"
            if extra := _EXTRAS.get(protocol):
                text = f"needs the extra {extra}: {install(extra)}"
            raise ScenarioError(self.url, text) from error
        except Exception as error:
            text = f"cannot be opened ({_reason(error)})"
            if protocol not in fsspec.available_protocols():
                text = unknown("protocol", protocol, fsspec.available_protocols())
            raise ScenarioError(self.url, text) from error
        self.root = str(real(Path(root)) if self.local else root).rstrip("/")

    def list(self) -> dict[str, str]:
        """Return the names of all objects, each with a text that changes with its content."""
        with _translated("cannot be listed"):
            self.fs.invalidate_cache()
            if self.local:
                check_tree(Path(self.root))
            try:
                found = self.fs.find(self.root, detail=True)
            except FileNotFoundError:
                bucket = self.root.lstrip("/").partition("/")[0]
                if bucket != self.root.lstrip("/") and not self.fs.exists(bucket):
                    raise  # a bucket is never created
                return {}
        start = len(self.root) + 1
        return {path[start:]: _version(info) for path, info in found.items() if path[start:]}

    def read(self, name: str) -> bytes | None:
        """Return the content of an object; None if it does not exist."""
        with suppress(Gone), _translated("cannot be read"):
            self.fs.invalidate_cache()
            content: bytes = self.fs.cat_file(self._path(name))
            return content
        return None

    def write(self, name: str, content: bytes) -> None:
        """Replace the content of an object."""
        with _translated("cannot be written"):
            self.fs.pipe_file(self._path(name), content)

    def put(self, files: Mapping[str, Path]) -> None:
        """Replace objects by the content of files, in any order."""
        with _translated("cannot be written"):
            self.fs.put(list(map(str, files.values())), list(map(self._path, files)))

    def get(self, files: Mapping[str, Path]) -> None:
        """Copy objects into files in existing folders; raise Gone if an object does not exist."""
        with _translated("cannot be read"):
            self.fs.get(list(map(self._path, files)), list(map(str, files.values())))

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; one that does not exist is no error."""
        with _translated("cannot be deleted"):
            for path in map(self._path, names):
                with suppress(FileNotFoundError):
                    self.fs.rm_file(path)

    def _path(self, name: str) -> str:
        path = f"{self.root}/{name}"
        if self.local:
            with suppress(FileNotFoundError):
                check(Path(path))
        return path


class Owner:
    """The right to write a remote folder, held by writing `OWNER` again and again.

    Parameters
    ----------
    objects : Objects
        The folder.
    session : str
        A unique name.
    """

    def __init__(self, objects: Objects, session: str) -> None:
        self.objects, self.session = objects, session
        self.count, self.ended, self._lock = 0, False, threading.Lock()

    def take(self, before: str, tell: Callable[[str], None]) -> str:
        """Become the owner, and return the session of the previous one; empty without one.

        Parameters
        ----------
        before : str
            The last session of this machine, which has ended: its lock needs no waiting.
        tell : callable
            Receives a line if this has to wait.

        Raises
        ------
        ScenarioError
            If another process is the owner; the error names it.
        """
        lock = read_lock(self.objects)
        last, end = str(lock.get("session", "")), time.monotonic() + WAIT_S
        if waits := last not in ("", before) and not lock.get("ended"):
            tell(f"{self.objects.url} is locked by {lock.get('who')}; checking for {WAIT_S:g} s")
        while waits and time.monotonic() < end:
            time.sleep(WAIT_S / 35)
            now = read_lock(self.objects) or lock
            if waits := not now.get("ended"):
                _refuse_unless(now == lock, self.objects.url, now)
        self.renew()
        time.sleep(SETTLE_S)
        now = read_lock(self.objects)
        _refuse_unless(now.get("session") == self.session, self.objects.url, now)
        return last

    def check(self) -> None:
        """Raise Taken if another process has become the owner."""
        lock = read_lock(self.objects)
        if lock.get("session", self.session) != self.session:
            raise Taken(f"{lock.get('who')} writes {self.objects.url} now")

    def renew(self, ended: bool = False) -> None:
        """Write the lock, from now on with a mark that it is released if `ended`."""
        user = "somebody"
        with suppress(KeyError, OSError):
            user = getpass.getuser()
        with self._lock:
            self.ended, self.count = self.ended or ended, self.count + 1
            lock = {
                "session": self.session, "count": self.count, "ended": self.ended,
                "who": f"process {os.getpid()} of {user} on {platform.node()}",
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }  # fmt: skip
            self.objects.write(OWNER, json.dumps(lock).encode())


def read_lock(objects: Objects) -> dict[str, Any]:
    """Return the content of the lock file; empty if there is none."""
    with suppress(ValueError):
        lock = parse_json(objects.read(OWNER) or b"{}")
        return lock if isinstance(lock, dict) else {}
    return {}


def _refuse_unless(free: bool, url: str, lock: Mapping[str, Any]) -> None:
    if not free:
        text = f"is being written by {lock.get('who')}; wait until that ends, or end it there"
        raise ScenarioError(url, text)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Turn any exception of a store's library into one line: each library has its own."""
    try:
        yield
    except RayfedError:
        raise
    except NotRegular as error:
        raise ScenarioError(str(error.filename), str(error.strerror)) from error
    except Exception as error:
        kind = Gone if isinstance(error, FileNotFoundError) else StoreError
        raise kind(f"{what} ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, FileNotFoundError) and "exist" not in text:
        text = f"there is no {text}"
    return clipped(text.rstrip("."), 160)


def _version(info: Mapping[str, Any]) -> str:
    """Return a text that differs between versions of an object, in any store."""
    return "; ".join(f"{key} {info[key]}" for key in sorted(info) if key != "name")
