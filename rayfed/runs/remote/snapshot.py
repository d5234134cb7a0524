"""What a result folder holds at one moment, kept while it is uploaded.

Files of results are replaced by renaming and never change in place, so that a hard link keeps what
a file held, even if the run deletes it meanwhile. Only logs and lists of parts grow.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rayfed.core.entries import Entry
from rayfed.core.files import read_json
from rayfed.runs.remote.names import LEADING, MANIFESTS, RUN, is_passing

TRIES, WAIT_S = 20, 0.01
"""Looks at a run whose files change meanwhile: a checkpoint is settled within milliseconds."""

_Stamp: TypeAlias = tuple[int, int, int]


class Unsettled(Exception):
    """A run changed at every look, or its checkpoint is damaged."""


@dataclass(frozen=True)
class Held:
    """A file of a snapshot.

    Parameters
    ----------
    digest : str
    link : Path, optional
        Where its content is kept; None if it was not needed.
    """

    digest: str
    link: Path | None


Snapshot: TypeAlias = Mapping[str, Held]
"""The files of a run or of the study, by the names that they have in the result folder."""


class Snapshots:
    """Takes snapshots of a result folder.

    Parameters
    ----------
    folder : Path
        The result folder.
    links : Path
        A folder for hard links, on the same disk; what is in it is deleted.
    needed : callable
        Whether the content of a file of this name and digest has to be kept.
    """

    def __init__(self, folder: Path, links: Path, needed: Callable[[str, str], bool]) -> None:
        self.folder, self.links, self.needed = folder, links, needed
        self.digests: dict[str, tuple[_Stamp, str]] = {}
        self.count = 0
        self.clear()

    def clear(self) -> None:
        """Delete what is kept."""
        shutil.rmtree(self.links, ignore_errors=True)
        self.links.mkdir(parents=True)

    def runs(self) -> list[str]:
        """Return the names of the folders of runs."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{RUN}"))

    def of_study(self) -> Snapshot:
        """Return the files that belong to no run."""
        return dict(self._held(self._names("", without=set(self.runs()))))

    def of_run(self, run: str) -> Snapshot:
        """Return the files of a run; what its records list is among them, as it was written.

        Raises
        ------
        Unsettled
            If it cannot be had.
        """
        # What refers to others is looked at first: what it refers to was there before.
        leading = [f"{run}/{name}" for name in LEADING]
        for attempt in range(TRIES):
            if attempt:
                time.sleep(WAIT_S)
            found = dict(self._held(leading))
            found |= self._held(name for name in self._names(run) if name not in leading)
            if self._is_settled(run, found):
                return found
        raise Unsettled(run)

    def text(self, held: Held | None, name: str) -> dict[str, Any]:
        """Return what a JSON file of a snapshot says; empty if that cannot be read."""
        if held is None:
            return {}
        try:
            said = read_json(held.link or self.folder / name)
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def _is_settled(self, run: str, found: Snapshot) -> bool:
        """Return whether all that the manifests of a run list is in a snapshot."""
        newest, before = (
            self.text(found.get(f"{run}/{name}"), f"{run}/{name}") for name in MANIFESTS
        )
        if newest.get("compacted"):  # of the checkpoint before, the parts of tables are gone
            return self._is_whole(run, found, newest)
        return self._is_whole(run, found, newest) and self._is_whole(run, found, before)

    def _is_whole(self, run: str, found: Snapshot, manifest: Mapping[str, Any]) -> bool:
        files = {f"{run}/checkpoint/{k}": v for k, v in manifest.get("files", {}).items()}
        if not _match(found, files):
            return False
        compacted = manifest.get("compacted", {})
        return all(
            _match(found, parts_of(run, table, parts))
            or (table in compacted and _match(found, parts_of(run, table, compacted[table])))
            for table, parts in manifest.get("tables", {}).items()
        )

    def _names(self, inside: str, without: Container[str] = ()) -> Iterator[str]:
        """Yield the names of files in a folder.

        Rows of rounds are listed before those of other tables, which are written first, so that
        none lacks its events.
        """
        for home, folders, files in os.walk(self.folder / inside):
            place = Path(home).relative_to(self.folder)
            kept = (name for name in folders if not is_passing(name) and name not in without)
            folders[:] = sorted(kept, key=lambda name: name != "rounds.parquet")
            yield from ((place / name).as_posix() for name in files if not is_passing(name))

    def _held(self, names: Iterable[str]) -> Iterator[tuple[str, Held]]:
        for name in names:
            with suppress(FileNotFoundError):  # deleted since it was listed
                yield name, self._hold(name)

    def _hold(self, name: str) -> Held:
        path, known = self.folder / name, self.digests.get(name)
        before = _stamp(path)
        if known is not None and known[0] == before and not self.needed(name, known[1]):
            return Held(known[1], None)
        link, linked = self._keep(path)
        stamp = _stamp(link) if linked else before
        if known is None or known[0] != stamp or not linked:
            known = stamp, Entry.of(link).digest
            if linked or _stamp(path) == before:  # else it changed while it was copied
                self.digests[name] = known
        return Held(known[1], link)

    def _keep(self, path: Path) -> tuple[Path, bool]:
        """Return a file with what another holds, and whether it is a link."""
        self.count += 1
        link = self.links / str(self.count)
        if path.suffix not in (".txt", ".jsonl"):  # these grow
            with suppress(OSError):  # the disk may have no links
                os.link(path, link)
                return link, True
        shutil.copyfile(path, link)  # raises FileNotFoundError if it is gone
        return link, False


def parts_of(run: str, table: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a table's parts by their names in the result folder."""
    return {f"{run}/{table}.parquet/{name}": entry for name, entry in parts.items()}


def _match(found: Snapshot, entries: Mapping[str, Any]) -> bool:
    return all(
        name in found and found[name].digest == entry["digest"] for name, entry in entries.items()
    )


def _stamp(path: Path) -> _Stamp:
    facts = path.stat()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
