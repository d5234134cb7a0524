"""The result folder of one run: rows as they happen, checkpoints, what was run.

Parquet files cannot be appended to, so ``rounds.parquet``, ``events.parquet`` and
``personal.parquet`` are folders of parts with one schema. Everything is written under a temporary
name and renamed, so that a reader or a crash never meets half a file.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.core.arrays import Array
from rayfed.engine.measures.personal import COLUMNS, Thinning
from rayfed.engine.state import STATUS, Events, Row, RunState
from rayfed.engine.stopping import LastEvaluation
from rayfed.executors.base import merged

EVENTS = pa.schema(
    [
        ("round", pa.int64()), ("ask", pa.int64()), ("client", pa.int64()),
        ("start_s", pa.float64()), ("compute_s", pa.float64()), ("end_s", pa.float64()),
        ("status", pa.dictionary(pa.int8(), pa.string())), ("loss", pa.float64()),
        ("steps", pa.int64()),
    ]
)  # fmt: skip
OWN = pa.schema(
    [("round", pa.int64()), ("client", pa.int64()), *((name, pa.float64()) for name in COLUMNS)]
)
_TEXT = ("algorithm", "label")
_WHOLE = (
    "seed", "round", "participants", "dropped", "late", "bytes_down", "bytes_up", "local_steps",
)  # fmt: skip


def rounds_schema(row: Row) -> pa.Schema:
    """Return the schema of the rounds of a run from its first row."""
    kinds = {**dict.fromkeys(_TEXT, pa.string()), **dict.fromkeys(_WHOLE, pa.int64())}
    return pa.schema([(name, kinds.get(name, pa.float64())) for name in row])


class Table:
    """A folder of Parquet parts to which rows are added; a part is named after its first row.

    Parameters
    ----------
    folder : Path
        As ``rounds.parquet``.
    make : callable
        From what was added to an Arrow table.
    """

    def __init__(self, folder: Path, make: Callable[[list[Any]], pa.Table]) -> None:
        self.folder, self.make = folder, make
        self.waiting: list[Any] = []
        self.rows = 0
        self.written = 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, item: Any, rows: int = 1) -> None:
        """Keep rows until the next `flush`."""
        self.waiting.append(item)
        self.rows += rows

    def flush(self) -> None:
        """Write the rows that wait as one part."""
        if self.rows == self.written:
            return
        write_parquet(self.make(self.waiting), self.folder / f"part-{self.written:012d}.parquet")
        self.waiting, self.written = [], self.rows

    def cut(self, rows: int) -> None:
        """Forget everything after the first `rows` rows; a part must end there."""
        for part in self.folder.glob("*"):
            if part.suffix != ".parquet" or int(part.stem.split("-")[1]) >= rows:
                part.unlink()
        self.waiting, self.rows, self.written = [], rows, rows

    def compact(self, change: Callable[[pa.Table], pa.Table] = lambda whole: whole) -> None:
        """Put all parts into one, whose rows may be chosen anew."""
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
    def mend(folder: Path) -> None:
        """Put back what a crash in the middle of `compact` left."""
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
        ``<results>/<label>-seed<k>``; made where it is missing.
    every_s : float
        Wall-clock seconds after which rows that wait are written.
    thinning : Thinning, optional
        Which evaluations of the clients' own models are kept; None where clients have none.
    """

    def __init__(
        self, folder: Path, every_s: float = 0.9, thinning: Thinning | None = None
    ) -> None:
        self.folder, self.every_s, self.thinning = folder, every_s, thinning
        self.checkpoints = folder / "checkpoint"
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        # In the order in which they are written: no row may lack what belongs to its round.
        makes: dict[str, Callable[[list[Any]], pa.Table]] = {
            "events": _events_table, "personal": _own_table, "rounds": _rounds_table,
        }  # fmt: skip
        if thinning is None:
            del makes["personal"]
        self.tables = {}
        for name, make in makes.items():
            Table.mend(folder / f"{name}.parquet")
            self.tables[name] = Table(folder / f"{name}.parquet", make)
        self.rounds, self.events = self.tables["rounds"], self.tables["events"]
        self.flushed = time.monotonic()

    def clear(self) -> None:
        """Begin from nothing; without its manifest a checkpoint is none."""
        (self.checkpoints / "manifest.json").unlink(missing_ok=True)
        for table in self.tables.values():
            table.cut(0)
        for old in self.checkpoints.iterdir():
            old.unlink()

    def add(
        self, row: Row, events: Sequence[Events], own: Mapping[str, Array] | None = None
    ) -> None:
        """Add a row and its events; write if the last write is long ago.

        Parameters
        ----------
        own : mapping of str to (K,) array, optional
            What the newest evaluation told of the clients' own models, of this round or before.
        """
        self.rounds.add(row)
        for part in events:
            self.events.add(part, len(part["client"]))
        number = row["round"]
        kept = self.thinning is not None and self.thinning.keeps(number, last=number)
        if kept and own and own["round"][0] == number:
            self.tables["personal"].add(own, len(own["client"]))
        if time.monotonic() - self.flushed > self.every_s:
            self.flush()

    def flush(self) -> None:
        """Write everything that waits."""
        for table in self.tables.values():
            table.flush()
        self.flushed = time.monotonic()

    def last_row(self) -> Row:
        """Return the last row that is written."""
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

    def finish(self, own: Mapping[str, Array] | None = None) -> None:
        """Compact the tables.

        Parameters
        ----------
        own : mapping of str to (K,) array, optional
            What the last evaluation told of the clients' own models; it stays, whichever go.
        """
        self.flush()
        self.rounds.compact()
        self.events.compact()
        if self.thinning and own:
            self.tables["personal"].compact(partial(_thinned, self.thinning, own))

    # -- checkpoints -----------------------------------------------------------------------

    def save(self, moment: RunState, changed: Mapping[str, Array]) -> None:
        """Write a checkpoint; its manifest is renamed into place last.

        Parameters
        ----------
        moment : RunState
            The state between two rounds.
        changed : mapping
            Client state rows that changed since the last checkpoint.
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
        """Return the last checkpoint and cut the tables back to it; None where there is none."""
        manifest = self._manifest()
        if not manifest:
            return None
        for name, table in self.tables.items():
            table.cut(manifest[name])
        with np.load(self.checkpoints / manifest["server"], allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays.files}
        window = sorted((k for k in held if k.startswith("window.")), key=lambda k: int(k[7:]))
        moment = RunState(
            round=manifest["round"],
            time_s=manifest["time_s"],
            state=_within(held, "state."),
            selection=_within(held, "selection."),
            lengths=_within(held, "lengths."),
            window=tuple(held[k] for k in window),
            last=LastEvaluation(**manifest["last"]),
            personal=_within(held, "own."),
            examined=_within(held, "examined."),
        )
        return moment, self._clients(manifest["clients"])

    def checkpoint_round(self) -> int | None:
        """Return the round of the last checkpoint."""
        return self._manifest().get("round")

    def _manifest(self) -> dict[str, Any]:
        path = self.checkpoints / "manifest.json"
        if not path.exists():
            return {}
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return manifest

    def _add_part(self, parts: list[str], changed: Mapping[str, Array], round: int) -> list[str]:
        """Write changed rows as a part of their own; put many parts together."""
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
    """Put state rows together; a later part replaces the rows of an earlier one."""
    kept: list[dict[str, Array]] = []
    for k, part in enumerate(parts):
        later = [p["ids"] for p in parts[k + 1 :]]
        stays = ~np.isin(part["ids"], np.concatenate([[], *later]))
        kept.append({name: rows[stays] for name, rows in part.items()})
    return merged(kept)


def _within(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}


def _rounds_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=rounds_schema(rows[0]))


def _events_table(events: list[Events]) -> pa.Table:
    if not events:
        return EVENTS.empty_table()
    columns = {name: np.concatenate([e[name] for e in events]) for name in EVENTS.names}
    status = pa.DictionaryArray.from_arrays(columns["status"].astype(np.int8), list(STATUS))
    arrays = [status if name == "status" else pa.array(c) for name, c in columns.items()]
    return pa.Table.from_arrays(arrays, schema=EVENTS)


def _own_table(parts: list[Mapping[str, Array]]) -> pa.Table:
    if not parts:
        return OWN.empty_table()
    columns = {name: np.concatenate([part[name] for part in parts]) for name in OWN.names}
    return pa.Table.from_pydict(columns, schema=OWN)


def _thinned(thinning: Thinning, own: Mapping[str, Array], whole: pa.Table) -> pa.Table:
    """Add the last evaluation where it is missing, and thin; a second time nothing changes."""
    last = int(own["round"][0])
    if last not in whole["round"].to_numpy():
        whole = pa.concat_tables([whole, _own_table([own])])
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
