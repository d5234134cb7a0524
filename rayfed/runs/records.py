"""The result folder of one run: its tables, its checkpoints and its log.

Parquet files cannot be appended to, so ``rounds.parquet``, ``events.parquet`` and
``personal.parquet`` are folders of parts with one schema. Every file is written under a temporary
name and then renamed, so that neither a reader nor a crash leaves half a file.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.core.arrays import Array
from rayfed.core.columns import Column, by_name
from rayfed.core.parquet import schema
from rayfed.engine import columns
from rayfed.engine.measures.personal import Thinning
from rayfed.engine.state import STATUS, Events, Row, RunState
from rayfed.engine.stopping import LastEvaluation
from rayfed.executors.base import merged

EVENTS = schema(columns.EVENTS)
PERSONAL = schema(columns.OWN_MODELS)


class Table:
    """A folder of Parquet parts to which rows are added; a part is named after its first row.

    Parameters
    ----------
    folder : Path
        The folder, such as ``rounds.parquet``; it is made if it does not exist.
    make : callable
        Turns the list of added items into an Arrow table.
    """

    def __init__(self, folder: Path, make: Callable[[list[Any]], pa.Table]) -> None:
        self.folder, self.make = folder, make
        self.waiting: list[Any] = []
        self.rows = 0
        self.written = 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, item: Any, rows: int = 1) -> None:
        """Keep an item of so many rows until the next `flush`."""
        self.waiting.append(item)
        self.rows += rows

    def flush(self) -> None:
        """Write the rows that wait as one part."""
        if self.rows == self.written:
            return
        write_parquet(self.make(self.waiting), self.folder / f"part-{self.written:012d}.parquet")
        self.waiting, self.written = [], self.rows

    def cut(self, rows: int) -> None:
        """Delete all rows after the first `rows`; a part must end there."""
        for part in self.folder.glob("*"):
            if part.suffix != ".parquet" or int(part.stem.split("-")[1]) >= rows:
                part.unlink()
        self.waiting, self.rows, self.written = [], rows, rows

    def compact(self, change: Callable[[pa.Table], pa.Table] = lambda whole: whole) -> None:
        """Merge all parts into one, after `change` has been applied to the whole table."""
        self.flush()
        new, old = (self.folder.with_suffix(s) for s in (".new", ".old"))
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        whole = pq.read_table(self.folder) if self.rows else self.make([])
        write_parquet(change(whole), new / f"part-{0:012d}.parquet")
        self.folder.rename(old)
        new.rename(self.folder)
        shutil.rmtree(old)

    @staticmethod
    def recover(folder: Path) -> None:
        """Restore a folder after a crash in the middle of `compact`."""
        new, old = folder.with_suffix(".new"), folder.with_suffix(".old")
        if not folder.exists() and old.exists():
            old.rename(folder)
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


class Records:
    """Writes the folder of one run.

    Parameters
    ----------
    folder : Path
        ``<results>/<label>-seed<k>``; it is made if it does not exist.
    every_s : float
        Wall-clock seconds after which waiting rows are written.
    thinning : Thinning, optional
        Which evaluations of the clients' own models are kept; None if clients have none.
    declared : iterable of Column
        Columns of ``rounds`` that the plug-ins of the run declare.
    """

    def __init__(
        self,
        folder: Path,
        every_s: float = 0.9,
        thinning: Thinning | None = None,
        declared: Iterable[Column] = (),
    ) -> None:
        self.folder, self.every_s, self.thinning = folder, every_s, thinning
        self.checkpoints = folder / "checkpoint"
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        # A row of `rounds` is written last, so that no row lacks its events or personal models.
        makes: dict[str, Callable[[list[Any]], pa.Table]] = {
            "events": _events_table, "personal": _personal_table, "rounds": RoundsTable(declared),
        }  # fmt: skip
        if thinning is None:
            del makes["personal"]
        self.tables = {}
        for name, make in makes.items():
            Table.recover(folder / f"{name}.parquet")
            self.tables[name] = Table(folder / f"{name}.parquet", make)
        self.rounds, self.events = self.tables["rounds"], self.tables["events"]
        self.flushed = time.monotonic()

    def clear(self) -> None:
        """Delete all rows and checkpoints."""
        # The manifest goes first: without it, what is left of a checkpoint is never read.
        (self.checkpoints / "manifest.json").unlink(missing_ok=True)
        for table in self.tables.values():
            table.cut(0)
        for old in self.checkpoints.iterdir():
            old.unlink()

    def add(
        self, row: Row, events: Sequence[Events], personal: Mapping[str, Array] | None = None
    ) -> None:
        """Add a row and its events; write if the last write was more than `every_s` ago.

        Parameters
        ----------
        row : dict
            A row of ``rounds``.
        events : sequence of mapping of str to (K,) array
            Rows of ``events``, one mapping for each Ask of the round.
        personal : mapping of str to (K,) array, optional
            Rows of ``personal`` from the newest evaluation, of this round or an earlier one.
        """
        self.rounds.add(row)
        for part in events:
            self.events.add(part, len(part["client"]))
        number = row["round"]
        kept = self.thinning is not None and self.thinning.keeps(number, last=number)
        if kept and personal and personal["round"][0] == number:
            self.tables["personal"].add(personal, len(personal["client"]))
        if time.monotonic() - self.flushed > self.every_s:
            self.flush()

    def flush(self) -> None:
        """Write all waiting rows."""
        for table in self.tables.values():
            table.flush()
        self.flushed = time.monotonic()

    def last_row(self) -> Row:
        """Return the last row of ``rounds`` that is written."""
        parts = sorted(self.rounds.folder.glob("part-*.parquet"))
        table = pq.read_table(parts[-1])
        row: Row = table.slice(table.num_rows - 1).to_pylist()[0]
        return row

    def log(self, line: str) -> None:
        """Add a line to the run's log."""
        log(self.folder, line)

    def status(self, record: Mapping[str, Any]) -> None:
        """Replace ``run.json``."""
        status(self.folder, record)

    def finish(self, personal: Mapping[str, Array] | None = None) -> None:
        """Compact the tables.

        Parameters
        ----------
        personal : mapping of str to (K,) array, optional
            Rows of ``personal`` from the last evaluation, which are always kept.
        """
        self.flush()
        self.rounds.compact()
        self.events.compact()
        if self.thinning and personal:
            self.tables["personal"].compact(partial(_thinned, self.thinning, personal))

    # -- checkpoints -----------------------------------------------------------------------

    def save(self, moment: RunState, changed: Mapping[str, Array]) -> None:
        """Write a checkpoint; its manifest is renamed into place last.

        Parameters
        ----------
        moment : RunState
            The state between two rounds.
        changed : mapping of str to array
            ``ids`` (K,) of the clients whose state has changed since the last checkpoint, and the
            rows of each of their arrays.
        """
        self.flush()
        parts = list(self._manifest().get("clients", []))
        if len(changed["ids"]):
            parts = self._add_part(parts, changed, moment.round)
        server = f"server-{moment.round}.npz"
        arrays = {f"state.{k}": v for k, v in moment.state.items()}
        arrays |= {f"selection.{k}": v for k, v in moment.selection.items()}
        arrays |= {f"lengths.{k}": v for k, v in moment.lengths.items()}
        arrays |= {f"window.{k}": v for k, v in enumerate(moment.window)}
        arrays |= {f"own.{k}": v for k, v in moment.personal.items()}
        arrays |= {f"examined.{k}": v for k, v in moment.examined.items()}
        write_npz(self.checkpoints / server, arrays)
        manifest = {
            "round": moment.round, "time_s": moment.time_s, "server": server, "clients": parts,
            **{name: table.rows for name, table in self.tables.items()},
            "last": asdict(moment.last),
        }  # fmt: skip
        write_text(self.checkpoints / "manifest.json", json.dumps(manifest))
        for old in self.checkpoints.iterdir():
            if old.name not in {"manifest.json", server, *parts}:
                old.unlink()

    def load(self) -> tuple[RunState, dict[str, Array]] | None:
        """Return the last checkpoint and cut the tables back to it; None if there is none.

        Returns
        -------
        RunState
            The state between two rounds.
        dict of str to array
            ``ids`` (K,) of the clients that have state, and the rows of each of their arrays.
        """
        manifest = self._manifest()
        if not manifest:
            return None
        for name, table in self.tables.items():
            table.cut(manifest[name])
        with np.load(self.checkpoints / manifest["server"], allow_pickle=False) as arrays:
            server = {name: arrays[name] for name in arrays.files}
        window = _with_prefix(server, "window.")
        moment = RunState(
            round=manifest["round"],
            time_s=manifest["time_s"],
            state=_with_prefix(server, "state."),
            selection=_with_prefix(server, "selection."),
            lengths=_with_prefix(server, "lengths."),
            window=tuple(window[str(k)] for k in range(len(window))),
            last=LastEvaluation(**manifest["last"]),
            personal=_with_prefix(server, "own."),
            examined=_with_prefix(server, "examined."),
        )
        return moment, self._clients(manifest["clients"])

    def checkpoint_round(self) -> int | None:
        """Return the round of the last checkpoint, None if there is none."""
        return self._manifest().get("round")

    def _manifest(self) -> dict[str, Any]:
        path = self.checkpoints / "manifest.json"
        if not path.exists():
            return {}
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return manifest

    def _add_part(self, parts: list[str], changed: Mapping[str, Array], round: int) -> list[str]:
        """Write changed rows as a new part; merge the parts if there are many."""
        name = f"clients-{round}.npz"
        if len(parts) >= 8:
            changed, parts = newest([self._clients(parts), changed]), []
        write_npz(self.checkpoints / name, dict(changed))
        return [*parts, name]

    def _clients(self, parts: Sequence[str]) -> dict[str, Array]:
        loaded = []
        for name in parts:
            with np.load(self.checkpoints / name, allow_pickle=False) as arrays:
                loaded.append({k: arrays[k] for k in arrays.files})
        return newest(loaded)


def log(folder: Path, line: str) -> None:
    """Add a line to the log of a run's folder."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    with (folder / "log.txt").open("a", encoding="utf-8") as lines:
        lines.write(f"{stamp} {line}\n")


def status(folder: Path, record: Mapping[str, Any]) -> None:
    """Replace ``run.json`` in a run's folder."""
    write_text(folder / "run.json", json.dumps(record, indent=1, default=str) + "\n")


def newest(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Merge the state rows of clients; rows of a later part replace those of an earlier one."""
    kept: list[dict[str, Array]] = []
    for k, part in enumerate(parts):
        later = [p["ids"] for p in parts[k + 1 :]]
        newest_rows = ~np.isin(part["ids"], np.concatenate([[], *later]))
        kept.append({name: rows[newest_rows] for name, rows in part.items()})
    return merged(kept)


def _with_prefix(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}


class RoundsTable:
    """Makes the table of rounds from rows; the keys of the first row are its columns.

    Parameters
    ----------
    declared : iterable of Column
        Columns that the plug-ins of the run declare.
    """

    def __init__(self, declared: Iterable[Column] = ()) -> None:
        tables_own = (column for group in columns.ROUNDS.values() for column in group)
        self.declared = by_name((*tables_own, *declared))
        self.schema: pa.Schema | None = None

    def __call__(self, rows: list[Row]) -> pa.Table:
        """Return rows as a table."""
        if self.schema is None:
            self.schema = schema(self.declared.get(name, Column(name)) for name in rows[0])
        return pa.Table.from_pylist(rows, schema=self.schema)


def _events_table(events: list[Events]) -> pa.Table:
    if not events:
        return EVENTS.empty_table()
    arrays = {name: np.concatenate([part[name] for part in events]) for name in EVENTS.names}
    status = pa.DictionaryArray.from_arrays(arrays["status"].astype(np.int8), list(STATUS))
    fields = [status if name == "status" else pa.array(a) for name, a in arrays.items()]
    return pa.Table.from_arrays(fields, schema=EVENTS)


def _personal_table(parts: list[Mapping[str, Array]]) -> pa.Table:
    if not parts:
        return PERSONAL.empty_table()
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in PERSONAL.names}
    return pa.Table.from_pydict(arrays, schema=PERSONAL)


def _thinned(thinning: Thinning, newest: Mapping[str, Array], whole: pa.Table) -> pa.Table:
    """Add the newest evaluation if it is missing, then thin; applying it twice changes nothing."""
    last = int(newest["round"][0])
    if last not in whole["round"].to_numpy():
        whole = pa.concat_tables([whole, _personal_table([newest])])
    return whole.filter(thinning.of(whole["round"].to_numpy(), last))


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a Parquet file under a temporary name, then rename it."""
    waiting = path.with_suffix(".tmp")
    pq.write_table(table, waiting)
    os.replace(waiting, path)


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write named arrays, never pickled objects, then rename."""
    waiting = path.with_suffix(".tmp")
    with waiting.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    os.replace(waiting, path)


def write_text(path: Path, text: str) -> None:
    """Write a text file under a temporary name, then rename it."""
    waiting = path.with_name(path.name + ".tmp")
    waiting.write_text(text, encoding="utf-8")
    os.replace(waiting, path)
