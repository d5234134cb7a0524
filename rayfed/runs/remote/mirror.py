"""Keeps a remote folder like its local copy while a study runs."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.files import read_json
from rayfed.core.inside import opened
from rayfed.runs.files.folder import Tell
from rayfed.runs.remote.objects import Owner, StoreError, Taken
from rayfed.runs.remote.staging import (
    LISTS,
    MANIFESTS,
    RUN,
    Known,
    Staging,
    Stamp,
    alone,
    bring_unless_newer,
    refused,
    stamp,
)

EVERY_S = 2.0
"""Seconds from the end of an upload to the next."""
FIRST_S, MOST_S = 1.0, 60.0
"""Seconds after which a failed upload is tried again: the first time, and at most."""
GIVE_UP_S = 60.0
"""Seconds for which the last upload of a study is tried."""
TRIES, WAIT_S = 20, 0.01
"""Looks at a run whose files change meanwhile: a checkpoint is settled within milliseconds."""
_GROWING = (".txt", ".jsonl")
"""Suffixes of files that are not replaced by others, but grow."""
_DELETED = re.compile(r"\.parquet/part-|/checkpoint/")
"""What is deleted where a run holds it no more; other files beside it may be somebody's."""

Snapshot: TypeAlias = dict[str, tuple[Stamp, Path]]
"""The stamps of files, by their names in the result folder, and where they stay as they were."""


class Unsettled(Exception):
    """A run changed at every look."""


@contextmanager
def owned(folder: Path, tell: Tell) -> Iterator[None]:
    """Mirror the local copy of a remote folder meanwhile; nothing happens for other folders.

    Parameters
    ----------
    folder : Path
        Which nobody else in this machine writes.
    tell : callable
        Is given lines for the user.

    Raises
    ------
    ScenarioError
        If another process writes the remote folder.
    RayfedError
        In the end, if not everything could be uploaded.
    """
    staging = Staging.holding(folder)
    if staging is None:
        yield
        return
    with ExitStack() as stack:
        mirror = _started(staging, tell)
        stack.push(lambda *raised: _close(mirror, tell, raised[1]))
        yield


def _started(staging: Staging, tell: Tell) -> Mirror:
    """Become the owner of a remote folder, and begin to mirror."""
    owner, before = Owner(staging.objects, uuid4().hex), staging.note()
    with refused(staging.url), alone(staging):
        last = owner.take(before.session if before.mine else "", tell)
        try:
            if before.new and last != before.session:
                raise ScenarioError(staging.url, "another process has begun a study there")
            if not before.new:
                bring_unless_newer(staging, last, tell)
            known = staging.known()
        except BaseException:
            with suppress(StoreError):
                owner.leave()
            raise
        changes = {"session": owner.session, "mine": True, "sent": False, "new": False}
        staging.write_note(**changes, held={})
    mirror = Mirror(staging, owner, known, tell)
    mirror.start()
    return mirror


def _close(mirror: Mirror, tell: Tell, raised: BaseException | None) -> None:
    """Upload the rest; what the study itself raised is not hidden by what that raises."""
    try:
        mirror.close()
    except RayfedError as error:
        if raised is None:
            raise
        tell(str(error))


class Mirror:
    """Uploads what has changed in a result folder, again and again, in a thread of its own.

    Parameters
    ----------
    staging : Staging
        The local copy, which holds everything.
    owner : Owner
        The right to write it.
    known : dict
        What is remote; it is kept up to date.
    tell : callable
        Is given a line when uploads begin to fail, and when they work again.
    """

    def __init__(
        self,
        staging: Staging,
        owner: Owner,
        known: Known,
        tell: Tell,
    ) -> None:
        self.staging, self.objects, self.owner, self.tell = staging, staging.objects, owner, tell
        self.known, self.count, self.passing = known, 0, staging.home
        self.settled: dict[str, Stamp] = {}
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
        sent = {name: (version, self.known.get(name)) for name, version in versions.items()}
        self.staging.write_note(sent=True, held={k: v for k, v in sent.items() if v[1]})
        self.staging.passing()

    def upload(self) -> None:
        """Upload what has changed, in an order in which whatever is remote can be resumed.

        What a run's lists name is there before they are, and deleted after they have changed.

        Raises
        ------
        Unsettled
            If a run is left out, since its checkpoint cannot be had.
        """
        if self.owner.taken is not None:
            raise self.owner.taken
        folder, self.passing = self.staging.folder, self.staging.passing()
        runs = {path.parent.name: stamp(path.parent) for path in sorted(folder.glob(f"*/{RUN}"))}
        study, left_out = self._keep_all(self.staging.names(without=runs)), []
        self._put(study, study)
        self._delete(
            name
            for name, made_of in self.known.items()
            if made_of is not None and name not in study and name.partition("/")[0] not in runs
        )
        for run, when in runs.items():
            if self.settled.get(run) == when:
                continue
            try:
                if self._upload_run(run):
                    self.settled[run] = when
            except Unsettled:
                left_out.append(run)
        if left_out:
            raise Unsettled(f"the checkpoint of {left_out[0]} is not whole")

    def _upload_run(self, run: str) -> bool:
        """Upload a run, and return whether it has ended."""
        files = self._snapshot(run)
        record, parts, *manifests = (f"{run}/{name}" for name in LISTS)
        rows = [name for name in files if name.startswith(f"{run}/rounds.parquet/")]
        others = files.keys() - {record, parts, *manifests, *rows}
        ended = _read(files.get(record)).get("status") != "running"
        mine = [name for name in self.known if name.startswith(f"{run}/") and name not in files]
        self._delete(name for name in mine if name in manifests)  # the run begins anew
        for names in (others, rows, [parts], [] if ended else [record], manifests, [record]):
            self._put(files, names)
        self._delete(name for name in mine if name == parts or _DELETED.search(name))
        return ended

    def _snapshot(self, run: str) -> Snapshot:
        """Keep the files of a run as they are at one moment.

        Raises
        ------
        Unsettled
            If that cannot be had.
        """
        # What lists others is looked at first: what it lists was there before.
        lists = [f"{run}/{name}" for name in LISTS]
        for attempt in range(TRIES):
            if attempt:
                time.sleep(WAIT_S)
            files = self._keep_all(lists)
            files |= self._keep_all(name for name in self.staging.names(run) if name not in lists)
            if self._is_whole(run, files):
                return files
        raise Unsettled(run)

    def _is_whole(self, run: str, files: Snapshot) -> bool:
        """Return whether all that a run's manifests list is kept, and they list that still."""
        for name in (RUN, *MANIFESTS):
            kept, path = files.get(f"{run}/{name}"), self.staging.folder / run / name
            if (kept and kept[0]) != (stamp(path) if path.exists() else None):
                return False
        newest, before = (_read(files.get(f"{run}/{name}")) for name in MANIFESTS)
        # where tables were compacted, the parts of the checkpoint before are gone
        manifests = [newest] if newest.get("compacted") else [newest, before]
        return all(_has_all(files, run, manifest) for manifest in manifests)

    def _keep_all(self, names: Iterable[str]) -> Snapshot:
        """Keep files; those that have been deleted since they were listed are left out."""
        files = {}
        for name in names:
            with suppress(FileNotFoundError):
                files[name] = self._keep(name)
        return files

    def _keep(self, name: str) -> tuple[Stamp, Path]:
        """Return the stamp of a file, and where it stays as it is until it is uploaded."""
        path = self.staging.folder / name
        now = stamp(path)
        if self.known.get(name) == now:
            return now, path
        self.count += 1
        kept = self.passing / str(self.count)
        if path.suffix not in _GROWING:
            with suppress(OSError):  # the disk may have no links
                os.link(path, kept, follow_symlinks=False)
                return stamp(kept), kept
        with opened(path) as file, kept.open("wb") as copy:
            shutil.copyfileobj(file, copy)
        return now, kept

    def _put(self, files: Snapshot, names: Iterable[str]) -> None:
        """Upload files that are not remote."""
        new = {
            name: files[name]
            for name in names
            if name in files and self.known.get(name) != files[name][0]
        }
        self.known |= dict.fromkeys(new)  # until they are there nobody knows what is
        self.objects.put({name: kept for name, (_, kept) in new.items()})
        self.known |= {name: made_of for name, (made_of, _) in new.items()}

    def _delete(self, names: Iterable[str]) -> None:
        gone = [name for name in names if name in self.known]
        self.objects.delete(gone)
        for name in gone:
            del self.known[name]

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


def _read(kept: tuple[Stamp, Path] | None) -> dict[str, Any]:
    """Return what a JSON file that is kept says; empty if that cannot be read."""
    try:
        said = read_json(kept[1]) if kept else {}
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _has_all(files: Snapshot, run: str, manifest: Mapping[str, Any]) -> bool:
    def has(folder: str, names: Iterable[str]) -> bool:
        return all(f"{run}/{folder}/{name}" in files for name in names)

    compacted = manifest.get("compacted", {})
    return has("checkpoint", manifest.get("files", {})) and all(
        has(f"{table}.parquet", parts)
        or (table in compacted and has(f"{table}.parquet", compacted[table]))
        for table, parts in manifest.get("tables", {}).items()
    )
