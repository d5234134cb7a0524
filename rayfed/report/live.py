"""Live logs: rows of a study sent to experiment trackers while it runs.

A thread of the process that runs the study reads the rows that drivers have recorded. So drivers
import no tracker and never wait for one. Rows that could not be sent are sent later.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rayfed.core.announced import run_folders
from rayfed.core.entries import Damaged
from rayfed.core.errors import clipped
from rayfed.core.files import read_json
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
def logged(folder: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Send rows to the trackers of a study, if it has any, until it ends.

    Parameters
    ----------
    folder : Path
        The result folder.
    notify : callable
        Receives one line for each tracker that fails; the study goes on.
    """
    logs = [LiveLog(folder, name, notify) for name in _noted(folder)]
    try:
        yield
    finally:
        deadline = time.monotonic() + _END_S
        for log in logs:
            log.close(deadline)


def _noted(folder: Path) -> dict[str, Any]:
    """Return the content of the note, and nothing of a damaged one."""
    held: Any = {}
    with suppress(OSError, ValueError):
        held = read_json(folder / LOGGING, results=True)
    entries = held.items() if isinstance(held, dict) else ()
    return {name: sent for name, sent in entries if name in TRACKERS and isinstance(sent, dict)}


class LiveLog:
    """A thread that sends the rows of a study to a tracker.

    Parameters
    ----------
    folder : Path
        The result folder.
    name : str
        Of `TRACKERS`.
    notify : callable
        Receives a line at the first failure.
    """

    lock = threading.Lock()
    """Of the note, which several trackers write."""

    def __init__(self, folder: Path, name: str, notify: Callable[[str], None]) -> None:
        self.folder, self.name, self.notify = folder, name, notify
        self.sent: dict[str, dict[str, Any]] = _noted(folder)[name]
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
        self.sent[name] = sent
        with self.lock:
            replace(self.folder / LOGGING, json.dumps(_noted(self.folder) | {self.name: self.sent}))


def _end(held: Mapping[str, Any]) -> list[Any]:
    """Return an identifier of the end of a run; rounds separate two ends within a second."""
    return [held.get("ended"), held.get("rounds"), held.get("wall_s")]


def _connected(name: str, results: Results) -> Tracker:
    """Return a tracker that is ready."""
    check_installed(name)
    place = results.folder / name
    check_own(place, results.folder)
    return TRACKERS[name](results.study, place)
