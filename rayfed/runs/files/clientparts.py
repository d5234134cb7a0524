"""The clients' state in checkpoints: files of rows, of which later ones replace earlier ones.

A checkpoint adds the rows that have changed and keeps the files of the others. What is rewritten is
little: files that are mostly out of date, and small files once there are many. A file holds
about `PIECE` bytes or a single client, and no more than a few are in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np

from rayfed.clients.store import PIECE, StateRows
from rayfed.core.arrays import Array, Ints
from rayfed.executors.base import merged, share
from rayfed.runs.files.store import publish_npz

_MOST_SMALL = 8
_SMALL = PIECE // 2


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
        with np.load(folder / name, allow_pickle=False) as arrays:
            ids = arrays["ids"]
        size = (folder / name).stat().st_size
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
    kept, fresh = list(parts), []
    for rows in changed:
        if len(rows["ids"]):
            kept = [_without(part, rows["ids"]) for part in kept]
            fresh.append(_write(folder, rows, round))
    if not fresh:
        return kept
    rewritten = _to_rewrite(kept, fresh)
    for rows in live_rows(folder, rewritten):
        fresh.append(_write(folder, rows, round))
    return [part for part in kept if part not in rewritten] + fresh


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


def _to_rewrite(kept: Sequence[PartFile], fresh: Sequence[PartFile]) -> list[PartFile]:
    """Return parts to rewrite: stale ones, and small ones if there are many."""
    small = [part for part in (*kept, *fresh) if part.bytes < _SMALL]
    many = len(small) > _MOST_SMALL
    return [part for part in kept if part.stale or (many and part.bytes < _SMALL)]


def _without(part: PartFile, ids: Ints) -> PartFile:
    """Return a part whose rows of some clients are out of date."""
    out_of_date = np.isin(part.live, ids)
    return replace(part, live=part.live[~out_of_date]) if out_of_date.any() else part


def _write(folder: Path, rows: StateRows, round: int) -> PartFile:
    names = (f"clients-{round}-{k}.npz" for k in count())
    name = next(name for name in names if not (folder / name).exists())
    publish_npz(folder / name, rows, durable=True)
    ids = np.array(rows["ids"])  # not a view of what travelled with it
    return PartFile(name, (folder / name).stat().st_size, len(ids), ids)


def _load(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}
