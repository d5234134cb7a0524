"""Changes of studies from the browser: stop, resume and extend, notes, archive, delete."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Condition, Event
from typing import Any

from rayfed.core.announced import run_folders
from rayfed.core.errors import ScenarioError, clipped, listed, many
from rayfed.core.inside import APPENDED, opened
from rayfed.core.leases import LOCK, is_leased
from rayfed.core.notes import Notes
from rayfed.dashboard.catalogue import Catalogue, StudyLine
from rayfed.runs.files.folder import delete, usable
from rayfed.runs.files.stops import ask

LOG = "resume.log"
"""File of a result folder with what the commands print that the browser starts."""


SOON_S = 30.0
"""Most seconds for which the answer waits until a run begins or the command fails."""
_PAUSE_S = 0.1


class Control:
    """Changes studies of a catalogue for the browser.

    Parameters
    ----------
    catalogue : Catalogue
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.stopped: set[str] = set()  # since they were started last
        self.ended = Event()
        self._under_way: list[str] = []
        self._less = Condition()
        self.actions: dict[str, Callable[[StudyLine, Mapping[str, Any]], str]] = {
            "stop": self._stop, "resume": self._resume, "extend": self._extend,
            "note": self._note, "archive": self._archive, "restore": self._restore,
            "delete": self._delete,
        }  # fmt: skip

    def do(self, what: str, given: Mapping[str, Any]) -> str:
        """Carry out a request of the browser and return the result in a line.

        Parameters
        ----------
        what : str
            One of the `actions`.
        given : mapping
            ``study``, its key; to stop also ``run``, the name of one; to extend ``rounds`` and
            ``seeds``; to note ``text`` and ``tags``; to delete ``name``, that of its folder.

        Raises
        ------
        ScenarioError
            If there is no such study or action, what is given does not suit it, or the study does
            not allow it.
        """
        key = str(given.get("study"))
        if key not in self.catalogue.studies:
            raise ScenarioError(key, "is no study here")
        if what not in self.actions:
            raise ScenarioError(what, f"is no action; use {listed(self.actions)}")
        with self._doing(f"{what} of {key}"):
            return self.actions[what](self.catalogue.studies[key], given)

    @contextmanager
    def _doing(self, action: str) -> Iterator[None]:
        self._under_way.append(action)
        try:
            yield
        finally:
            with self._less:
                self._under_way.remove(action)
                self._less.notify_all()

    def end(self, log: Callable[[str], None]) -> None:
        """Wait for the ends of actions, so that none is cut in half.

        Started studies continue, and no action waits any longer for their first rounds.

        Parameters
        ----------
        log : callable
            Is given a line that names the actions, if there are any.
        """
        self.ended.set()
        with self._less:
            if not self._less.wait_for(lambda: not self._under_way, 2 * _PAUSE_S):
                log(f"dashboard: waiting for {listed(self._under_way)}")
            self._less.wait_for(lambda: not self._under_way)

    def _stop(self, study: StudyLine, given: Mapping[str, Any]) -> str:
        self.stopped.add(study.key)
        run = given.get("run")
        stopped = ask(study.folder, [] if run is None else [str(run)])
        return f"{many(len(stopped), 'run')} of {study.key} will stop after the round"

    def _resume(self, study: StudyLine, given: Mapping[str, Any]) -> str:
        return self._begin(study.key, ["resume", str(study.folder)])

    def _extend(self, study: StudyLine, given: Mapping[str, Any]) -> str:
        more = [
            f"--{name}={_numbers(name, given[name])}"
            for name in ("rounds", "seeds")
            if given.get(name)
        ]
        if not more:
            raise ScenarioError("extend", "found no rounds and no seeds; give one of them")
        return self._begin(study.key, ["extend", str(study.folder), *more])

    def _note(self, study: StudyLine, given: Mapping[str, Any]) -> str:
        made = Notes.of(given.get("text"), given.get("tags"))
        _write(study, replace(made, archived=Notes.read(study.folder).archived))
        return f"notes of {study.key} are saved"

    def _archive(self, study: StudyLine, given: Mapping[str, Any]) -> str:
        _write(study, replace(Notes.read(study.folder), archived=True))
        return f"{study.key} is archived"

    def _restore(self, study: StudyLine, given: Mapping[str, Any]) -> str:
        _write(study, replace(Notes.read(study.folder), archived=False))
        return f"{study.key} is in the list again"

    def _delete(self, study: StudyLine, given: Mapping[str, Any]) -> str:
        name = study.folder.name
        if given.get("name") != name:
            text = f"found another name; type '{clipped(name, 60)}' to delete it"
            raise ScenarioError("delete", text)
        self._check_idle(study.key)
        delete(study.folder)
        return f"{study.key} is deleted"

    def _check_idle(self, key: str) -> None:
        before = self.started.get(key)
        if before is not None and before.poll() is None:
            raise ScenarioError(key, "is running already; wait for its end or stop it")

    def _begin(self, key: str, command: list[str]) -> str:
        """Start a command in a process of its own, which outlives the server.

        Raises
        ------
        ScenarioError
            With its last line, if it fails before a run begins and was not stopped meanwhile.
        """
        self._check_idle(key)
        self.stopped.discard(key)
        folder = self.catalogue.studies[key].folder
        busy = _runs(folder)  # another process runs it: the command fails, and begins none
        with usable(folder):
            opened_log = opened(folder / LOG, APPENDED)
        with opened_log as log:
            process = self.started[key] = subprocess.Popen(
                # -P: a folder named rayfed in the current one is not taken for the library
                [sys.executable, "-P", "-m", "rayfed", *command, "--no-page"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + SOON_S
        while process.poll() is None and time.monotonic() < end and (busy or not _runs(folder)):
            if self.ended.wait(_PAUSE_S):
                break
        if process.poll() and key not in self.stopped:
            raise ScenarioError("", _last_line(folder / LOG))
        what = "started" if process.poll() is None else "ended"  # such as one of finished runs
        return f"{command[0]} of {key} has {what}; its output is in {LOG}"


def _runs(study: Path) -> bool:
    """Return whether a process writes a run of a study."""
    for run in run_folders(study):
        with suppress(OSError):  # a link
            if is_leased(run / LOCK):
                return True
    return False


def _last_line(path: Path) -> str:
    with opened(path) as file:
        lines = str(file.read(), "utf-8", "replace").split("\n")
    return next((line for line in lines[::-1] if line.strip()), "").removeprefix("rayfed: ")


def _write(study: StudyLine, notes: Notes) -> None:
    with usable(study.folder):
        notes.write(study.folder)


def _numbers(name: str, text: Any) -> str:
    """Return a list of numbers as the commands take it."""
    try:
        return ",".join(str(int(part)) for part in str(text).split(","))
    except ValueError:
        raise ScenarioError(name, f"found '{text}'; give numbers, such as 3,4") from None
