"""One process at a time writes a remote folder: an object says which, and beats.

This cannot exclude everything: stores have no locks. A process that was stopped for longer than
others wait, or cut off from the store, may send some objects before it finds out, and a resume may
have to go back further by them.
"""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.core.files import parse_json
from rayfed.runs.remote.objects import Objects, StoreError

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
        record = read(self.objects)
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
            now = read(self.objects)
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
        record = read(self.objects)
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


def read(objects: Objects) -> dict[str, Any]:
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
