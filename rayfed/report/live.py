"""Live logs: rows of a study sent to experiment trackers while it runs.

A thread of the process that runs the study reads the rows that drivers have recorded. So drivers
import no tracker and never wait for one. Rows that could not be sent are sent later.

The note of a study's trackers is sealed, because its rows go to servers of whoever runs it. Without
this user's seal, trackers must be given again, and their runs begin anew.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rayfed.core.announced import run_folders
from rayfed.core.entries import Damaged
from rayfed.core.errors import ScenarioError, clipped, listed
from rayfed.core.files import read_json
from rayfed.core.seals import is_sealed, seal
from rayfed.report.read.results import Results
from rayfed.report.read.run import UNREADABLE, RunRecord, record_of
from rayfed.report.trackers import (
    TRACKERS,
    Entry,
    Tracker,
    check_installed,
    scalars,
    started_s,
)
from rayfed.report.writing import LOGGING, check_own, replace

_EVERY_S = 1.0
_SHARE = 20  # so many times as long as it reads and sends, it waits
_LONGEST_S = 60.0  # between two tries while a tracker fails
_END_S = 120.0  # for the last rows; the study then ends without


@contextmanager
def logged(folder: Path, notify: Callable[[str], None], more: Sequence[str] = ()) -> Iterator[None]:
    """Send rows to the trackers of a study, if it has any, until it ends.

    Parameters
    ----------
    folder : Path
        The result folder.
    notify : callable
        Receives one line for each tracker that fails; the study goes on.
    more : sequence of str
        Names of `TRACKERS` that the user gives.

    Raises
    ------
    ScenarioError, RayfedError
        As by `trackers_of`.
    """
    sent = trackers_of(folder, more)
    write_note(folder, sent)
    logs = [LiveLog(folder, name, sent, notify) for name in sent]
    try:
        yield
    finally:
        deadline = time.monotonic() + _END_S
        for log in logs:
            log.close(deadline)


def trackers_of(folder: Path, more: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the trackers of a study, and the last row that each has of a run.

    Nothing is sent or written. A damaged note has no tracker.

    Parameters
    ----------
    folder : Path
        The result folder.
    more : sequence of str
        Names of `TRACKERS` that the user gives.

    Raises
    ------
    ScenarioError
        If the note names others and lacks this user's seal, or there is no such tracker.
    RayfedError
        If the library of a tracker is missing.
    """
    held: Any = {}
    with suppress(OSError, ValueError):
        held = read_json(folder / LOGGING, results=True)
    entries = held if isinstance(held, dict) else {}
    sent = {
        name: runs for name, runs in entries.items() if name in TRACKERS and isinstance(runs, dict)
    }
    if not is_sealed(_sealed(sent), entries.get("seal")):
        if not sent.keys() <= {*more}:
            text = "; to send rows there, resume with " + " ".join(f"--log {name}" for name in sent)
            text = f"names {listed(sent)}, and you did not make it here{text}, else remove it"
            raise ScenarioError(str(folder / LOGGING), text)
        sent = {}  # its identifiers may be those of other runs there
    for name in more:
        check_installed(name)
    return {name: {} for name in more} | sent


def write_note(folder: Path, sent: Mapping[str, Mapping[str, Any]]) -> None:
    """Write `trackers_of` with this user's seal.

    Raises
    ------
    RayfedError
        If it cannot be written.
    """
    replace(folder / LOGGING, json.dumps({**sent, "seal": seal(_sealed(sent))}))


def _sealed(sent: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text that is sealed."""
    return json.dumps(["logging", sent], sort_keys=True)


class LiveLog:
    """A thread that sends the rows of a study to a tracker.

    Parameters
    ----------
    folder : Path
        The result folder.
    name : str
        Of `TRACKERS`.
    note : dict
        `trackers_of` the study, shared by its logs.
    notify : callable
        Receives a line at the first failure.
    """

    lock = threading.Lock()
    """Of the note, which several trackers write."""

    def __init__(
        self, folder: Path, name: str, note: dict[str, dict[str, Any]],
        notify: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.folder, self.name, self.note, self.notify = folder, name, note, notify
        self.sent = note[name]
        self.tracker: Tracker | None = None
        self.ended = threading.Event()
        self.failing = False
        self.thread = threading.Thread(target=self._repeat, name=f"rayfed-{name}", daemon=True)
        self.thread.start()

    def close(self, deadline: float) -> None:
        """Send the last rows, until a moment of the monotonic clock."""
        self.ended.set()
        self.thread.join(max(0.0, deadline - time.monotonic()))
        if self.thread.is_alive():
            self._warn("it takes too long")

    def _repeat(self) -> None:
        pause, last = 0.0, False
        while not last:
            last = self.ended.wait(pause)
            begun = time.monotonic()
            try:
                self._look()
                if last and self.tracker is not None:
                    self.tracker.close()
            except Exception as error:  # whatever a tracker raises: the study goes on
                self._warn(clipped(error, 160))
                pause = min(_LONGEST_S, 2 * max(pause, _EVERY_S))
            else:
                pause = max(_EVERY_S, _SHARE * (time.monotonic() - begun))

    def _warn(self, reason: str) -> None:
        if not self.failing:
            text = f"rows that are missing there are sent later, or by rayfed resume {self.folder}"
            self.notify(f"warning: {self.name} fails ({reason}); the study goes on; {text}")
        self.failing = True

    def _look(self) -> None:
        """Send the rows that are new."""
        records = {path: record_of(path) for path in run_folders(self.folder)}
        ended = [path for path, held in records.items() if self._has_all(path.name, held)]
        if not records or len(ended) == len(records):
            return
        results = Results.of_runs(self.folder, records, RunRecord)
        if self.tracker is None:
            self.tracker = _connected(self.name, results)
        for run in results.runs_found:
            if run.folder not in ended:
                self._send(self.tracker, run)

    def _has_all(self, name: str, held: dict[str, Any]) -> bool:
        """Return whether a run has ended, and its end was sent."""
        return held.get("ended") is not None and self.sent.get(name, {}).get("ended") == _end(held)

    def _send(self, tracker: Tracker, run: RunRecord) -> None:
        """Send the rows of a run that are new, and its end."""
        name, sent = run.folder.name, self.sent.get(run.folder.name)
        try:
            began = started_s(run) if sent is None else sent["began"]
            since = 0 if sent is None else sent["round"]
            points = scalars(run, began, since)
        except (Damaged, *UNREADABLE):  # it is being written; else a resume mends it
            return
        if sent is None:
            entry = tracker.begin(run, began)
            sent = {"id": entry.id, "began": began, "round": 0, "columns": []}
            self._note(name, sent)
        entry = Entry(run, began, sent["id"])
        if tracker.restarts(entry):
            sent, points = sent | {"round": 0, "columns": []}, scalars(run, began)
        # The last row of a run that ends gets further values.
        last = points["round"] == sent["round"]
        fresh = points[~(last & points["name"].isin(sent["columns"]))]
        if len(fresh):
            tracker.add(entry, fresh)
            number = int(points["round"].max())
            names = points.loc[points["round"] == number, "name"].tolist()
            sent = sent | {"round": number, "columns": names}
            self._note(name, sent)
        if run.status != "running":
            tracker.end(entry)
            self._note(name, sent | {"ended": _end(run.info)})

    def _note(self, name: str, sent: dict[str, Any]) -> None:
        with self.lock:
            self.sent[name] = sent
            write_note(self.folder, self.note)


def _end(held: Mapping[str, Any]) -> list[Any]:
    """Return an identifier of the end of a run; rounds separate two ends within a second."""
    return [held.get("ended"), held.get("rounds"), held.get("wall_s")]


def _connected(name: str, results: Results) -> Tracker:
    """Return a tracker that is ready."""
    check_installed(name)
    place = results.folder / name
    check_own(place, results.folder)
    return TRACKERS[name](results.study, place)
