"""The checkpoints of one run: the newest one and the one before.

A checkpoint is a manifest, the server's arrays, and parts with the clients' arrays. The manifest is
published last. It holds the sizes and digests of the other files and of all parts of the tables
that were there, so that `Checkpoints.read` can tell a sound checkpoint from a damaged one.

Of the clients' arrays a checkpoint adds the rows that have changed and keeps the parts of the
others: rows of later parts replace those of earlier ones. What is rewritten is little: parts that
are mostly out of date, and small parts once there are many. A part holds about `PIECE` bytes or a
single client, and no more than a few are in memory at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rayfed.clients.store import PIECE, StateRows
from rayfed.core.announced import Parts
from rayfed.core.arrays import Array, Ints
from rayfed.core.entries import Damaged, Entry, check, described, entries, is_unchanged, sealed
from rayfed.core.errors import RunFailed
from rayfed.core.files import read_json
from rayfed.core.inside import opened
from rayfed.engine.state import Row, RunState
from rayfed.engine.stopping import LastEvaluation
from rayfed.engine.timeline import Timeline
from rayfed.executors.base import merged, share
from rayfed.runs.files import store

MANIFESTS = ("manifest.json", "previous.json")
"""The manifest of the newest checkpoint and of the one before."""

FORMAT = 2
"""Version of the content of checkpoints; 1 where a manifest does not state it."""
_OLDER = ("flight.", "pending.", "examined.")
_MEMORIES = frozenset(f"state.{name}" for name in ("memory", "cache", "c", "h", "y"))
"""Server memories, of which clients of format 1 kept unweighted parts."""
_OTHER_FORMAT = (
    "an earlier version of rayfed wrote the tasks, measures or memories of this checkpoint; "
    "run the study again from the start"
)
_MOST_SMALL = 8
_SMALL = PIECE // 2
_PREFIXES = {
    "state": "state.", "selection": "selection.", "step_state": "lengths.", "personal": "own.",
    "correction": "correction.", "ahead": "ahead.", "channel": "channel.",
    "energy": "energy.", "batteries": "batteries.", "control": "control.",
}  # fmt: skip
"""Fields of a state that are named arrays, with the beginnings of their names in a checkpoint."""


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint.

    Parameters
    ----------
    moment : RunState
        The state between two rounds.
    clients : iterator of dict
        State of disjoint clients, which is read piece by piece.
    tables : mapping
        The parts of each table, by name.
    row : dict, optional
        Of a run that has ended, its last row without what only the end has added; the tables may
        hold that.
    """

    moment: RunState
    clients: Iterator[StateRows]
    tables: Parts
    row: Row | None = None


class Checkpoints:
    """Writes and reads the checkpoints of a run.

    Parameters
    ----------
    folder : Path
        Who writes there has made it.
    identities : sequence of str
        Digests of what decides the results of the run, that of now first. Checkpoints with another
        one are damaged; with none, any are read.
    """

    def __init__(self, folder: Path, identities: Sequence[str] = ()) -> None:
        self.folder, self.identities = folder, identities
        self.changes = 0
        self.parts: list[PartFile] = []

    def forget(self) -> None:
        """Delete all checkpoints."""
        for name in (*MANIFESTS, *store.names(self.folder)):
            # Manifests go first: without them, what is left of a checkpoint is never read.
            store.remove(self.folder / name)

    def save(self, moment: RunState, changed: Iterable[StateRows], tables: Parts) -> None:
        """Write a checkpoint and keep the one before; its manifest is published last.

        Parameters
        ----------
        moment : RunState
            The state between two rounds.
        changed : iterable of dict
            State of the clients for which it has changed since the last checkpoint, in pieces.
        tables : mapping
            The parts of each table, which are on the disk already.
        """
        before = self._manifest(MANIFESTS[0]) or {}
        self.parts = add_parts(self.folder, self._parts_of(before), changed, moment.round)
        clients = [part.name for part in self.parts]
        server = f"server-{moment.round}.npz"
        store.publish_npz(self.folder / server, _arrays(moment), durable=True)
        held = before.get("files", {})
        fresh = [server, *(name for name in clients if name not in held)]
        files = {name: held[name] for name in clients if name in held}
        manifest = {
            "format": FORMAT, "round": moment.round, "time_s": moment.time_s, "server": server,
            "clients": clients,
            "tables": {name: described(parts) for name, parts in tables.items()},
            "files": files | described({name: Entry.of(self.folder / name) for name in fresh}),
            "identity": self.identities[0] if self.identities else None,
            "window": len(moment.window), "last": asdict(moment.last), "updates": moment.updates,
            "changes": self.changes,
        }  # fmt: skip
        if before and before["round"] != moment.round:
            self._publish(MANIFESTS[1], before)
        self._publish(MANIFESTS[0], manifest)
        self._clean()

    def read(self, name: str, folder: Path) -> Checkpoint | None:
        """Return the checkpoint of a manifest; None if there is none.

        Parameters
        ----------
        name : str
            One of `MANIFESTS`.
        folder : Path
            Of the run, with its tables.

        Raises
        ------
        Damaged
            If something is not as it was written.
        """
        manifest = self._manifest(name)
        if manifest is None:
            return None
        made = manifest.get("identity")
        if made is not None and self.identities and made not in self.identities:
            raise Damaged(f"{name} is of another run")
        if manifest.get("changes", 0) > self.changes:
            text = f"round {manifest['round']}: run.json lacks changes of settings that were made"
            raise RunFailed(f"{text}; restore it, or run the study anew")
        try:
            check(self.folder, entries(manifest["files"]))
            compacted = manifest.get("compacted", {})
            tables = {
                table: _sound(folder / f"{table}.parquet", parts, compacted.get(table))
                for table, parts in manifest["tables"].items()
            }
            if not {manifest["server"], *manifest["clients"]} <= manifest["files"].keys():
                raise Damaged(f"{name} is not what was written")
            moment = _moment(manifest, _load(self.folder / manifest["server"]))
            clients = live_rows(self.folder, self._parts_of(manifest))
            return Checkpoint(moment, clients, tables, manifest.get("row"))
        except (KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{name} lacks {error}") from error

    def settle(self, name: str) -> None:
        """Make the checkpoint of a manifest the newest, and delete files that belong to none."""
        if name != MANIFESTS[0]:
            self._publish(MANIFESTS[0], self._manifest(name) or {})
        self._clean()

    def compacted(self, tables: Parts, compacted: Parts, row: Row) -> None:
        """Note that tables are about to be replaced by others.

        Parameters
        ----------
        tables, compacted : mapping
            The parts of each table that are there, and those that will be.
        row : dict
            The last row, without what only the end of the run adds.
        """
        manifest = self._manifest(MANIFESTS[0])
        if manifest is not None:
            now, then = (
                {name: described(parts) for name, parts in found.items()}
                for found in (tables, compacted)
            )
            noted = {"tables": now, "compacted": then, "row": row}
            self._publish(MANIFESTS[0], manifest | noted)

    def round(self) -> int | None:
        """Return the round of the newest checkpoint, None if there is none that can be read."""
        return self._newest().get("round")

    def identity(self) -> str | None:
        """Return the identity digest of the newest checkpoint's run; None if unknown."""
        return self._newest().get("identity")

    def _newest(self) -> dict[str, Any]:
        with suppress(Damaged):
            return self._manifest(MANIFESTS[0]) or {}
        return {}

    def _manifest(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        try:
            manifest = read_json(path, results=True)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Damaged(f"{name} is not what was written") from error
        if not isinstance(manifest, dict) or not is_unchanged(manifest):
            raise Damaged(f"{name} is not what was written")
        return manifest

    def _publish(self, name: str, manifest: Mapping[str, Any]) -> None:
        store.publish_text(self.folder / name, json.dumps(sealed(manifest)), durable=True)

    def _clean(self) -> None:
        """Delete the files that belong to no checkpoint."""
        current = set(MANIFESTS)
        for name in MANIFESTS:
            try:
                current |= set((self._manifest(name) or {}).get("files", {}))
            except Damaged:
                store.remove(self.folder / name)
        for name in store.names(self.folder):
            if name not in current:
                store.remove(self.folder / name)

    def _parts_of(self, manifest: Mapping[str, Any]) -> list[PartFile]:
        """Return the parts of the clients' state; read anew if they are not those known."""
        names = manifest.get("clients", [])
        if [part.name for part in self.parts] != names:
            self.parts = read_parts(self.folder, names)
        return self.parts


def _sound(folder: Path, parts: Any, compacted: Any) -> Mapping[str, Entry]:
    """Return the existing parts of a table: those of the checkpoint, or their successors.

    Raises
    ------
    Damaged
        If neither are as they were written.
    """
    wanted = entries(parts)
    try:
        check(folder, wanted)
    except Damaged:
        if compacted is None:
            raise
        wanted = entries(compacted)
        check(folder, wanted)
    return wanted


def _arrays(moment: RunState) -> dict[str, Array]:
    arrays = {
        f"{prefix}{name}": values
        for field, prefix in _PREFIXES.items()
        for name, values in getattr(moment, field).items()
    }
    # the newest iterate is the model itself, which is not written twice
    arrays |= {f"window.{k}": v for k, v in enumerate(moment.window) if v is not moment.state["x"]}
    if moment.timeline is not None:
        arrays |= {f"timeline.{k}": v for k, v in moment.timeline.arrays().items()}
    for name, known in moment.measured.items():
        arrays |= {f"measured.{name}/{k}": v for k, v in known.items()}
    return arrays


def _moment(manifest: Mapping[str, Any], server: Mapping[str, Array]) -> RunState:
    named = {field: _with_prefix(server, prefix) for field, prefix in _PREFIXES.items()}
    window = _with_prefix(server, "window.")
    iterates = manifest.get("window", len(window))  # earlier versions wrote all of them
    timeline = _with_prefix(server, "timeline.")
    tasks = [name for name in timeline if name.startswith("works.")]
    unsized = bool(tasks) and "works.up_bytes" not in tasks
    unweighted = manifest.get("format", 1) < FORMAT and not _MEMORIES.isdisjoint(server)
    if unsized or unweighted or any(name.startswith(_OLDER) for name in server):
        raise RunFailed(f"round {manifest['round']}: {_OTHER_FORMAT}")
    return RunState(
        round=manifest["round"],
        time_s=manifest["time_s"],
        window=tuple(window.get(str(k), named["state"]["x"]) for k in range(iterates)),
        last=LastEvaluation(**manifest["last"]),
        measured=_measured(_with_prefix(server, "measured.")),
        updates=manifest["updates"],
        timeline=Timeline.of(timeline) if timeline else None,
        **named,
    )


def _measured(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the state of each measure."""
    measures = dict.fromkeys(name.partition("/")[0] for name in arrays)
    return {name: _with_prefix(arrays, f"{name}/") for name in measures}


def _with_prefix(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}


@dataclass(frozen=True, eq=False)
class PartFile:
    """One file of rows.

    Parameters
    ----------
    name : str
    bytes : int
        Its size.
    rows : int
        Clients in it.
    live : (K,) array of int
        Those of them that no later part holds.
    """

    name: str
    bytes: int
    rows: int
    live: Ints

    @property
    def stale(self) -> bool:
        """Whether at least half of its rows are out of date."""
        return 2 * len(self.live) <= self.rows


def read_parts(folder: Path, names: Sequence[str]) -> list[PartFile]:
    """Return the parts of these names, the earliest first; reads ids alone."""
    parts: list[PartFile] = []
    later = np.empty(0, dtype=np.int64)
    for name in reversed(names):
        with opened(folder / name) as file, np.load(file, allow_pickle=False) as arrays:
            ids = arrays["ids"]
            size = os.fstat(file.fileno()).st_size
        parts.insert(0, PartFile(name, size, len(ids), ids[~np.isin(ids, later)]))
        later = np.union1d(later, ids)
    return parts


def add_parts(
    folder: Path, parts: Sequence[PartFile], changed: Iterable[StateRows], round: int
) -> list[PartFile]:
    """Write state that has changed, and return the parts that hold the state of all clients.

    Parameters
    ----------
    folder : Path
    parts : sequence of PartFile
        Those of the checkpoint before; their files stay as they are.
    changed : iterable of dict
        State of disjoint clients.
    round : int
        Number of the last round, after which files are named.
    """
    current, fresh = list(parts), []
    for rows in changed:
        if len(rows["ids"]):
            current = [_without(part, rows["ids"]) for part in current]
            fresh.append(_write(folder, rows, round))
    if not fresh:
        return current
    rewritten = _to_rewrite(current, fresh)
    for rows in live_rows(folder, rewritten):
        fresh.append(_write(folder, rows, round))
    return [part for part in current if part not in rewritten] + fresh


def live_rows(folder: Path, parts: Sequence[PartFile]) -> Iterator[StateRows]:
    """Yield the rows of parts that no later part holds, about `PIECE` bytes at a time."""
    held: list[StateRows] = []
    size = 0
    for part in parts:
        if not len(part.live):
            continue
        rows = _load(folder / part.name)
        if len(part.live) < part.rows:
            rows = share(rows, np.isin(rows["ids"], part.live))
        more = sum(values.nbytes for values in rows.values())
        if held and size + more > PIECE:
            yield merged(held)
            held, size = [], 0
        held.append(rows)
        size += more
    if held:
        yield merged(held)


def _to_rewrite(current: Sequence[PartFile], fresh: Sequence[PartFile]) -> list[PartFile]:
    """Return parts to rewrite: stale ones, and small ones if there are many."""
    small = [part for part in (*current, *fresh) if part.bytes < _SMALL]
    many = len(small) > _MOST_SMALL
    return [part for part in current if part.stale or (many and part.bytes < _SMALL)]


def _without(part: PartFile, ids: Ints) -> PartFile:
    """Return a part without the live rows of some clients."""
    out_of_date = np.isin(part.live, ids)
    return replace(part, live=part.live[~out_of_date]) if out_of_date.any() else part


def _write(folder: Path, rows: StateRows, round: int) -> PartFile:
    names = (f"clients-{round}-{k}.npz" for k in count())
    name = next(name for name in names if not (folder / name).exists())
    store.publish_npz(folder / name, rows, durable=True)
    ids = np.array(rows["ids"])  # not a view of what travelled with it
    return PartFile(name, (folder / name).stat().st_size, len(ids), ids)


def _load(path: Path) -> dict[str, Array]:
    with opened(path) as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)
