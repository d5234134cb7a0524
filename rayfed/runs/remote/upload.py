"""Uploads a snapshot in the order that counts, so that whatever is remote can be resumed.

What a run's records list is there before they are, and deleted after they have changed:

1. files that nothing remote refers to yet: arrays and parts, those of rounds last; other outputs;
2. ``parts.jsonl`` and ``run.json`` of a run that goes on;
3. the manifests of checkpoints;
4. ``run.json`` of a run that has ended;
5. what nothing refers to any more is deleted, and stand-ins take their names.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import chain
from pathlib import Path

from rayfed.core.announced import PARTS
from rayfed.runs.remote.names import MANIFESTS, OWNER, RUN, file_of, is_sealed, stand_in
from rayfed.runs.remote.objects import Objects
from rayfed.runs.remote.snapshot import Snapshot, Snapshots

Known = dict[str, str | None]
"""The objects that are remote, by name, with the digests of their content where these are known."""


class Uploads:
    """Uploads snapshots of a study.

    Parameters
    ----------
    objects : Objects
        Where to.
    known : dict
        What is there; it is kept up to date.
    """

    def __init__(self, objects: Objects, known: Known) -> None:
        self.objects, self.known = objects, known

    def needs(self, name: str, digest: str) -> bool:
        """Return whether a file has to be uploaded."""
        return self.known.get(name) != digest

    def study(self, snapshot: Snapshot, runs: Container[str]) -> None:
        """Upload the files that belong to no run; those that are gone here are deleted."""
        self._put(snapshot, snapshot)
        gone = [
            name for name, digest in self.known.items()
            if digest is not None and name not in snapshot and name != OWNER
            and name.partition("/")[0] not in runs
        ]  # fmt: skip
        self._delete(gone)

    def runs(self, snapshots: Mapping[str, Snapshot], source: Snapshots) -> list[str]:
        """Upload runs, by the names of their folders, and return those that have ended."""
        every: Snapshot = dict(chain.from_iterable(held.items() for held in snapshots.values()))
        records = [f"{run}/{RUN}" for run in snapshots]
        manifests = [f"{run}/{name}" for name in MANIFESTS for run in snapshots]
        rows = [name for name in every if "/rounds.parquet/" in name]
        parts = [f"{run}/{PARTS}" for run in snapshots]
        leading = {*records, *manifests, *rows, *parts}
        ended = {
            name for name in records
            if source.text(every.get(name), name).get("status") != "running"
        }  # fmt: skip
        self._put(every, (name for name in every if name not in leading))
        self._put(every, rows)
        self._put(every, parts)
        self._put(every, (name for name in records if name not in ended))
        self._put(every, manifests)
        self._put(every, ended)
        self._clean(snapshots)
        return [name.removesuffix(f"/{RUN}") for name in ended]

    def _put(self, snapshot: Snapshot, names: Iterable[str]) -> None:
        """Upload files that are not remote; a sealed one never replaces another."""
        files: dict[str, Path] = {}
        digests: dict[str, str] = {}
        for name in names:
            held = snapshot.get(name)
            if held is None or not self.needs(name, held.digest):
                continue
            target = name
            if name in self.known and is_sealed(name):
                target = stand_in(name, held.digest)
            if self.known.get(target) == held.digest:
                continue
            assert held.link is not None  # `needs` said so when the snapshot was taken
            files[target], digests[target] = held.link, held.digest
        self.known |= dict.fromkeys(files)  # until they are there nobody knows what is
        self.objects.put(files)
        self.known |= digests

    def _clean(self, snapshots: Mapping[str, Snapshot]) -> None:
        """Delete what runs do not hold any more, manifests first, and settle stand-ins."""
        mine = [name for name in self.known if name.partition("/")[0] in snapshots]
        gone = [name for name in mine if not _is_wanted(name, snapshots)]
        manifests = [name for name in gone if name.endswith(MANIFESTS)]
        self._delete(manifests)
        self._delete([name for name in gone if name not in manifests])
        for name in mine:
            file, digest = file_of(name)
            if digest is not None and name in self.known:
                if self.known.get(file) != digest:
                    self.known[file] = None
                    self.objects.copy(name, file)
                    self.known[file] = digest
                self._delete([name])

    def _delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        if gone:
            self.objects.delete(gone)
            for name in gone:
                del self.known[name]


def _is_wanted(name: str, snapshots: Mapping[str, Snapshot]) -> bool:
    """Return whether an object of a run holds what is in its snapshot, or is not ours."""
    file, digest = file_of(name)
    held = snapshots[name.partition("/")[0]].get(file)
    if digest is not None:
        return held is not None and held.digest == digest
    return held is not None or not (is_sealed(file) or file.endswith((*MANIFESTS, PARTS)))
