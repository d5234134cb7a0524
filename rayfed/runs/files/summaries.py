"""``usage.parquet`` and ``density.parquet``: activity of clients, summed up during a run.

They are written anew as the run goes, and once more at its end, from its tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.parquet import fields_of, read, schema, table, values
from rayfed.core.summary import (
    CLOCKS,
    DENSITY,
    NEEDED,
    USAGE,
    Ranking,
    Summary,
    Sums,
    network_of,
    pieces,
    summarised,
)
from rayfed.engine.clock import StepCounter
from rayfed.engine.run import Run
from rayfed.engine.state import Row
from rayfed.runs.files import store

SUMMARIES = ("usage.parquet", "density.parquet")
_PATIENCE = 50.0
_MOST = 1024
"""Clients that others are ranked among; of more, so many with evenly spaced ids."""


class Summaries:
    """Keeps the summary of a run that goes on.

    Parameters
    ----------
    folder : Path
        Of the run.
    bands : callable
        Returns the band (K,) of clients (K,).
    network : mapping
        ``clients.network`` of the scenario.
    events : sequence of str
        Columns that ``events`` has in the run.

    Attributes
    ----------
    patience : float
        So many times as long as writing takes passes until they are written again.
    """

    def __init__(
        self,
        folder: Path,
        bands: Callable[[Ints], Ints],
        network: Mapping[str, Any],
        events: Sequence[str],
    ) -> None:
        self.folder, self.bands, self.network = folder, bands, network
        self.events = [name for name in NEEDED["events"] if name in events]
        self.patience = _PATIENCE
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.sums = Sums(self.bands, self.network)
        self.waiting: list[tuple[Sequence[Row], Mapping[str, Array]]] = []
        self.next = 0.0
        for name in SUMMARIES:
            store.remove(self.folder / name)

    def add(self, rows: Sequence[Row], events: Mapping[str, Array]) -> None:
        """Add rows of ``rounds``, and all rows of ``events`` of these rounds by column.

        They wait until `publish`: the end of a run sums up its tables, so that a short one needs no
        sums on the way.
        """
        if rows:
            self.waiting.append((rows, events))

    def _sum(self) -> None:
        """Add the waiting rows to the sums."""
        for rows, events in self.waiting:
            wanted = [name for name in NEEDED["rounds"] if name in rows[0]]
            self.sums.add(
                {name: np.array([row[name] for row in rows]) for name in wanted},
                {name: events[name] for name in self.events if events},
            )
        self.waiting = []

    def again(self) -> None:
        """Begin anew with the rows that are written."""
        self.clear()
        rounds, events = _read(self.folder, "rounds"), _read(self.folder, "events")
        if rounds:
            for rows, tasks in pieces(rounds, events):
                self.sums.add(rows, tasks)

    def publish(self) -> None:
        """Write them, unless the last writing was recent for its duration."""
        self._sum()
        began = time.monotonic()
        if began >= self.next and self.sums.grids:
            write(self.folder, Summary(*self.sums.tables()))
            now = time.monotonic()
            self.next = now + self.patience * (now - began)


def bands_of(run: Run) -> Callable[[Ints], Ints]:
    """Return a function from clients to their bands of equal speed rank."""
    clients = run.federation.clients

    def known(ids: Ints) -> tuple[Bools, Floats, Ints]:
        rows = None if run.training.algorithm.centralised else StepCounter(run).rows(ids)
        return clients.straggles(ids), clients.mean_seconds_per_step(ids, rows), ids

    @cache
    def ranking() -> Ranking:
        count = min(clients.count, _MOST)
        return Ranking(*known(np.linspace(0, clients.count - 1, count).astype(np.int64)))

    return lambda ids: ranking().of(*known(ids))


def finish(folder: Path, record: Mapping[str, Any], **made: pa.Table) -> None:
    """Write both tables of a run that has ended from the files of its folder.

    Parameters
    ----------
    folder : Path
        Of the run, with all other tables; one that failed lacks those of the end.
    record : mapping
        What its ``run.json`` says.
    **made : pyarrow.Table
        Tables that need not be read.
    """
    rounds, events, clients, away = (
        _columns(name, made[name]) if name in made else _read(folder, name) for name in NEEDED
    )
    if len(rounds.get("round", ())):
        found = summarised(rounds, events, clients, away or None, network_of(record))
        write(folder, found)


def write(folder: Path, found: Summary) -> None:
    """Write both tables, each whole or not at all."""
    density = {**found.density, "clock": (found.density["clock"], list(CLOCKS))}
    made = table(found.usage, schema(USAGE)), table(density, schema(DENSITY))
    for name, held in zip(SUMMARIES, made, strict=True):
        store.publish(folder / name, partial(pq.write_table, held))


def _read(folder: Path, name: str) -> dict[str, Array]:
    """Return the columns of a table that a summary is made from; none without any part."""
    path = folder / f"{name}.parquet"
    parts = sorted(path.glob("part-*")) if path.is_dir() else [path]
    if not parts or not parts[0].is_file():
        return {}
    known = fields_of(parts[0])
    return _columns(name, read(path, [each for each in NEEDED[name] if each in known.names]))


def _columns(name: str, held: pa.Table) -> dict[str, Array]:
    return {each: values(held, each) for each in NEEDED[name] if each in held.column_names}
