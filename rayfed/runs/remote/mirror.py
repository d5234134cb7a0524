"""Keeps a remote folder like its local copy while a study runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from rayfed.core.errors import RayfedError, clipped
from rayfed.runs.remote.objects import Objects
from rayfed.runs.remote.owner import Owner, Taken
from rayfed.runs.remote.snapshot import Snapshots, Unsettled
from rayfed.runs.remote.staging import Staging
from rayfed.runs.remote.upload import Known, Uploads

EVERY_S = 2.0
"""Seconds from the end of an upload to the next."""
FIRST_S, MOST_S = 1.0, 60.0
"""Seconds after which a failed upload is tried again: the first time, and at most."""
GIVE_UP_S = 60.0
"""Seconds for which the last upload of a study is tried."""


class Mirror:
    """Uploads what has changed in a result folder, again and again, in a thread of its own.

    Parameters
    ----------
    staging : Staging
        The local copy, which holds everything.
    objects : Objects
        The remote folder.
    owner : Owner
        The right to write it.
    known : dict
        What is remote; see `Uploads`.
    tell : callable
        Is given a line when uploads begin to fail, and when they work again.
    """

    def __init__(
        self,
        staging: Staging,
        objects: Objects,
        owner: Owner,
        known: Known,
        tell: Callable[[str], None],
    ) -> None:
        self.staging, self.objects, self.owner, self.tell = staging, objects, owner, tell
        self.uploads = Uploads(objects, known)
        self.snapshots = Snapshots(staging.folder, staging.passing, self.uploads.needs)
        self.settled: dict[str, int] = {}
        self.failing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rayfed-mirror", daemon=True)

    def start(self) -> None:
        """Begin to upload."""
        self._thread.start()

    def close(self) -> None:
        """Upload the rest, and give up the right to write.

        Raises
        ------
        RayfedError
            If not everything could be uploaded; the local copy is kept, as it always is.
        """
        self._closing.set()
        self._thread.join()
        self.settled.clear()
        try:
            self._upload_rest()
            versions = self.objects.list()
            self.owner.leave()
        except (RayfedError, OSError, Unsettled) as error:
            self.owner.stop()
            text = (
                f"{self.staging.url}: not everything was uploaded ({_why(error)}); all of it is in "
                f"{self.staging.folder}"
            )
            if not isinstance(error, Taken):
                text += f", upload it from this machine by: rayfed resume {self.staging.url}"
            raise RayfedError(text) from error
        known = self.uploads.known
        held = {name: version for name, version in versions.items() if known.get(name)}
        self.staging.write_note(sent=True, versions=held)
        self.snapshots.clear()

    def upload(self) -> None:
        """Upload what has changed.

        Raises
        ------
        Unsettled
            If a run is left out, since its checkpoint cannot be had.
        """
        if self.owner.taken is not None:
            raise self.owner.taken
        runs = self.snapshots.runs()
        self.uploads.study(self.snapshots.of_study(), runs)
        taken, left_out = {}, []
        stamps = {run: _stamp(self.staging.folder / run) for run in runs}
        for run in runs:
            if self.settled.get(run) == stamps[run]:
                continue
            try:
                taken[run] = self.snapshots.of_run(run)
            except Unsettled:
                left_out.append(run)
        ended = self.uploads.runs(taken, self.snapshots)
        self.settled |= {run: stamps[run] for run in ended}
        self.snapshots.clear()
        if left_out:
            raise Unsettled(f"the checkpoint of {left_out[0]} is not whole")

    def _run(self) -> None:
        wait = 0.0
        while not self._closing.wait(wait):
            try:
                self.upload()
            except Taken as error:
                self.tell(f"{error}; nothing more is uploaded, the study goes on in this machine")
                return
            except Unsettled:  # the next time, or at the end
                wait = EVERY_S
            except Exception as error:  # whatever it is: the study goes on
                wait = min(2 * wait, MOST_S) if self.failing else FIRST_S
                self._say_failing(error)
            else:
                wait = EVERY_S
                if self.failing:
                    self.failing = False
                    self.tell(f"uploads to {self.staging.url} work again")

    def _say_failing(self, error: Exception) -> None:
        if not self.failing:
            self.failing = True
            self.tell(
                f"uploads to {self.staging.url} fail ({_why(error)}); the study goes on in "
                f"{self.staging.folder}, and they are tried again"
            )

    def _upload_rest(self) -> None:
        """Upload everything, for `GIVE_UP_S` if it fails."""
        end, wait = time.monotonic() + GIVE_UP_S, FIRST_S
        while True:
            try:
                return self.upload()
            except Taken:
                raise
            except (RayfedError, OSError) as error:
                if time.monotonic() + wait > end:
                    raise
                self._say_failing(error)
                time.sleep(wait)
                wait *= 2


def _why(error: Exception) -> str:
    return clipped(error, 160)


def _stamp(run: Path) -> int:
    """Return when a name in a run's folder changed last."""
    return run.stat().st_mtime_ns
