"""One run: the tables and arrays of its folder, each read on first access."""

from __future__ import annotations

import copy
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import pyarrow as pa

from rayfed.core import leases
from rayfed.core.announced import parts_of
from rayfed.core.arrays import Array
from rayfed.core.columns import Better, Column
from rayfed.core.entries import Damaged
from rayfed.core.errors import clipped
from rayfed.core.parquet import columns_in, fields_of, read, read_first, read_parts, read_where
from rayfed.core.run_state import damage, read_record, state
from rayfed.core.summary import network_of
from rayfed.report.read.outputs import Fit, LabelCounts, Pulls, Walked, read_as
from rayfed.report.read.usage import Summed, Usage, by_speed, summed

COMMUNICATIONS = "communications"
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error,
)  # fmt: skip
"""Errors of reading damaged files."""
FIRST_EVENTS = 120_000
"""Most events that are listed one by one."""
_SUMMARY = ("usage.parquet", "density.parquet")
_TRIES = 6
_PAUSE_S = 0.05
_TABLES = ("rounds", "events", "personal")
_OTHERS = ("events", "personal", "clients", "away", "fit", "held", "walk", "graph")
_EVENT = ["round", "ask", "client"]
_WAIT = ["client", "wait_s", "awaited", "start_s", "end_s"]
_T = TypeVar("_T")


class Caching:
    """Base of objects that hold values computed from them."""

    def cached(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return the value of a key, made at the first call; do not change it."""
        if key not in self._values_by_key:
            self._values_by_key[key] = make()
        made: _T = self._values_by_key[key]
        return made

    @cached_property
    def _values_by_key(self) -> dict[Hashable, Any]:
        return {}


@dataclass(frozen=True)
class RunRecord(Caching):
    """One run: an algorithm under one seed.

    Tables that it did not record are empty or None; those of a damaged run all are.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    info : dict
        Content of its ``run.json``.
    name : str
        Name of the algorithm on the page: its label, with the setting if several settings share
        a label.
    """

    folder: Path
    info: dict[str, Any]
    name: str

    @classmethod
    def read(cls, folder: Path, info: dict[str, Any], name: str) -> RunRecord:
        """Read a run, and the parts of it that are not covered by digests."""
        run = cls(folder, info, name)
        if info.get("damaged"):
            return run
        why = damage(folder, info)
        if why is None:
            try:
                for table in ("numbers", *(() if "identity" in info else _OTHERS)):
                    getattr(run, table)
                return run
            except Damaged as error:
                why = str(error)
            except UNREADABLE as error:
                why = f"it cannot be read ({clipped(error, 120)})"
        return cls(folder, _as_damaged(info, why), name)

    @classmethod
    def of_rounds(
        cls, folder: Path, info: dict[str, Any], name: str, rounds: pd.DataFrame
    ) -> RunRecord:
        """Return a run with these rounds only; no file is read."""
        nothing = pd.DataFrame()
        values = {"usage": Usage(rounds, nothing, None)}
        table = pa.table({name: column.to_numpy() for name, column in rounds.items()})
        known = {"rounds": rounds, "_rounds": table, "columns": {}, "clients": nothing}
        known["_values_by_key"] = values
        return cls(folder, info, name)._with(known)

    def renamed(self, name: str, info: dict[str, Any] | None = None) -> RunRecord:
        """Return the same run by another name; values of its tables are computed once for both.

        Without another `info` it is the same object each time.
        """
        if info is not None:
            return copy.copy(self)._with({"name": name, "info": info, "_values_by_key": {}})
        about = {"name": name, "_values_by_key": self._values_by_key}
        return self.cached(("renamed", name), lambda: copy.copy(self)._with(about))

    def _with(self, known: Mapping[str, Any]) -> RunRecord:
        """Keep some values as `cached_property` keeps them."""
        self.__dict__.update(known)
        return self

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row a round; views of many runs take `length`, `recorded` and `history` instead."""
        return _frame(self._rounds, ())

    @property
    def length(self) -> int:
        """Number of `rounds`."""
        return 0 if self._rounds is None else self._rounds.num_rows

    @property
    def recorded(self) -> Sequence[str]:
        """The columns of `rounds`."""
        return () if self._rounds is None else self._rounds.column_names

    @cached_property
    def numbers(self) -> Mapping[str, Array]:
        """The columns of `rounds` that are numbers or booleans."""
        columns = () if self._rounds is None else zip(self.recorded, self._rounds, strict=True)
        return {name: values.to_numpy() for name, values in columns if _is_numeric(values)}

    @property
    def extents(self) -> Mapping[str, tuple[float, float]]:
        """Least and largest finite value after round 0 of each column of numbers with any value.

        They are infinite where only round 0 has one.
        """
        return self.cached("extents", self._extents)

    def _extents(self) -> dict[str, tuple[float, float]]:
        if not self.numbers:
            return {}
        values = np.array([*self.numbers.values()], np.float64)
        known = np.isfinite(values)
        trained = known & (self.numbers["round"] > 0) if "round" in self.numbers else known
        low = values.min(axis=1, initial=np.inf, where=trained).tolist()
        high = values.max(axis=1, initial=-np.inf, where=trained).tolist()
        every = zip(self.numbers, known, zip(low, high, strict=True), strict=True)
        return {name: extent for name, of, extent in every if of.any()}

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """Declarations of the columns of ``rounds``; none in files of earlier versions."""
        return {} if self._rounds is None else columns_in(self._rounds.schema)

    def better(self, column: str) -> Better | None:
        """Return the direction in which a column of ``rounds`` is better."""
        declared = self.columns.get(column)
        return better_by_name(column) if declared is None else declared.better

    @cached_property
    def _rounds(self) -> pa.Table | None:
        table = self._parts("rounds")
        if table is None or "round" not in table.column_names:
            return table
        rounds = table["round"].to_numpy()
        if (np.diff(rounds) > 0).all():
            return table
        last = np.unique(rounds[::-1], return_index=True)[1]  # see `_frame`
        return table.take(pa.array(len(rounds) - 1 - last))

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row for each client and Ask: figures read its summary, or the first events."""
        return _frame(self._parts("events"), _EVENT)

    @cached_property
    def first_events(self) -> pd.DataFrame:
        """The first `FIRST_EVENTS` events, or a few more."""
        if "events" in self.__dict__:  # they are read already
            return self.events
        return _frame(self._parts("events", lambda parts: read_first(parts, FIRST_EVENTS)), _EVENT)

    @cached_property
    def waits(self) -> pd.DataFrame:
        """The columns of events by which nodes wait in gossip in steps; empty without them.

        These are ``client``, ``wait_s``, ``awaited``, ``start_s`` and ``end_s``.
        """
        if "skew_s" not in self.recorded:  # only steps have it: other events are not read again
            return pd.DataFrame(columns=_WAIT)
        frame = _frame(self._parts("events", lambda parts: read_parts(parts, _WAIT)), ())
        return frame if {*_WAIT} <= {*frame} else pd.DataFrame(columns=_WAIT)

    def events_of(self, client: int) -> pd.DataFrame:
        """Return ``round, ask, client, status`` of all events of a client; empty without any."""

        def of(parts: list[Path]) -> pa.Table | None:
            return read_where(parts, "client", client, [*_EVENT, "status"])

        return _frame(self._parts("events", of), _EVENT)

    @cached_property
    def personal(self) -> pd.DataFrame:
        """Evaluations of the clients' personal models."""
        return _frame(self._parts("personal"), ["round", "client"])

    @cached_property
    def clients(self) -> pd.DataFrame:
        """A row for each client that took part."""
        return _frame(self._output("clients.parquet"), ["client"])

    @cached_property
    def away(self) -> pd.DataFrame | None:
        """``client, start_s, end_s``: when clients were unavailable, recorded at the end."""
        away = _frame(self._output("away.parquet"), ["client", "start_s"])
        return away if "client" in away else None

    @cached_property
    def fit(self) -> Fit | None:
        """Predictions of the final model for some rows; None if there is no picture of it."""
        return self._values(Fit, "fit.npz", "the fit of a run")

    @cached_property
    def pulls(self) -> Pulls | None:
        """Local models of the clients; None unless recorded by the measure ``path``."""
        if "model_0" not in self.recorded:
            return None
        return self._values(Pulls, "model.npz", "the model of a run", "measure.path.")

    @cached_property
    def held(self) -> LabelCounts | None:
        """Labels of the clients; None if targets are numbers, or they were not counted."""
        return self._values(LabelCounts, "labels.npz", "the labels of clients")

    @cached_property
    def walk(self) -> Walked | None:
        """The walk of its server; None if there is none, or the run has not ended."""
        return self._graphs("walk.npz", "the walk of a run")

    @cached_property
    def graph(self) -> Walked | None:
        """The graphs of gossip; None if there is none, or the run has not ended."""
        return self._graphs("graph.npz", "the graphs of a run")

    def _graphs(self, file: str, about: str) -> Walked | None:
        """Return recorded graphs, with links between places among their clients."""
        found = self._values(Walked, file, about)
        if found is None:
            return None
        return replace(found, links=np.searchsorted(found.clients, found.links))

    @property
    def usage(self) -> Usage:
        """Use of its clients' time, computing and traffic."""
        return self.cached(
            "usage", lambda: Usage(self.rounds, self.clients, self._summed(), self.baseline)
        )

    def _summed(self) -> Summed | None:
        if not self.length:
            return None
        if all(self._is_whole(name) for name in _SUMMARY):
            return Summed(*(_frame(read(self.folder / name), ()) for name in _SUMMARY))
        return summed(self.rounds, self.events, self.clients, self.away, network_of(self.info))

    @cached_property
    def _paths(self) -> dict[str, list[Path]]:
        return {} if self.info.get("damaged") else parts_of(self.folder, _TABLES, self.info)

    def _parts(
        self, table: str, of: Callable[[list[Path]], pa.Table | None] = read_parts
    ) -> pa.Table | None:
        def once() -> pa.Table | None:
            try:
                parts = self._paths.get(table)
                return of(parts) if parts else None
            except (OSError, ValueError):  # other parts replaced them
                self.__dict__.pop("_paths", None)
                raise

        return _retried(once, self.folder)

    def _is_whole(self, name: str) -> bool:
        """Return whether the run has a summary, which an ended run lists among its files."""
        files = self.info.get("files")
        if files:
            return name in files
        try:
            fields_of(self.folder / name)
        except UNREADABLE:
            return False
        return True

    def _path(self, name: str) -> Path | None:
        """Return a file that is written at the end of a run, if the run has announced it.

        Those of versions that noted no identity may have more than they list.
        """
        files = self.info.get("files") or {}
        ended = self.status != "running" and not self.info.get("damaged")
        path = self.folder / name
        announced = ended and (name in files or "identity" not in self.info)
        return path if announced and path.is_file() else None

    def _output(self, name: str) -> pa.Table | None:
        path = self._path(name)
        return None if path is None else read(path)

    def _values(self, kind: type[_T], name: str, what: str, prefix: str = "") -> _T | None:
        path = self._path(name)
        return None if path is None else read_as(kind, path, what, prefix)

    @cached_property
    def client_names(self) -> dict[int, str]:
        """Names of clients by id, with the fault of faulty ones.

        Honest ones have none if the data do not name them.
        """
        names: dict[int, str] = {}
        if "name" in self.clients:
            names = dict(zip(self.clients["client"].tolist(), self.clients["name"], strict=True))
        return names | {i: f"{names.get(i, i)} ({fault})" for i, fault in self.faults.items()}

    @cached_property
    def faults(self) -> dict[int, str]:
        """The faults of clients by id; known when the run has ended."""
        if "fault" not in self.clients:
            return {}
        faulty = self.clients[self.clients["fault"] != ""]
        return dict(zip(faulty["client"].tolist(), faulty["fault"], strict=True))

    @cached_property
    def clients_by_speed(self) -> pd.DataFrame:
        """A row a client that is known of, the fastest first; see `usage.by_speed`."""
        return by_speed(self.clients, self.usage.asked)

    def called(self, clients: Iterable[Any]) -> list[int | str]:
        """Return the names of clients in the data, or their ids."""
        return [self.client_names.get(int(client), int(client)) for client in clients]

    @property
    def label(self) -> str:
        """The label of its algorithm."""
        return str(self.info["label"])

    @property
    def setting(self) -> str:
        """The name of its setting in a grid, its case or its trial; empty without."""
        return setting_of(self.info)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.info.get("seed", 0))

    @property
    def status(self) -> str:
        """Return ``running``, ``finished`` or ``failed``."""
        return str(self.info.get("status", "running"))

    @cached_property
    def state(self) -> str:
        """Its status, refined by `run_state.state` where it has not ended."""
        return state(self.folder, self.status)

    @property
    def begun(self) -> bool:
        """Whether it has a round behind it, or has ended without."""
        return self.status != "running" or self.length > 1

    @property
    def baseline(self) -> bool:
        """Whether it is a reference that is not ranked."""
        return bool(self.info.get("baseline", False))

    @property
    def history(self) -> Mapping[str, Array]:
        """The columns of numbers with the clocks as totals; see `curves.history`."""
        return self.cached("history", self._history)

    def _history(self) -> dict[str, Array]:
        found = dict(self.numbers)
        names = ("participants", "bytes_down", "bytes_up", COMMUNICATIONS, "energy_j")
        known = {name: found[name] for name in names if name in found}
        held = {name: np.where(np.isnan(values), 0, values) for name, values in known.items()}
        if {"bytes_down", "bytes_up"} <= set(held):
            held["bytes"] = held["bytes_down"] + held["bytes_up"]
        if "bytes_up" in held:
            held.setdefault(COMMUNICATIONS, held["bytes_up"] > 0)
        totals = {"bytes": "bytes", "updates": "participants", "bytes_up": "bytes_up"}
        totals |= {COMMUNICATIONS: COMMUNICATIONS, "energy_j": "energy_j"}
        sums = {total: held[source].cumsum() for total, source in totals.items() if source in held}
        return found | sums

    @property
    def asked(self) -> int:
        """Number of tasks that its clients started; 0 without recorded events."""
        asked = self.usage.asked
        return int(asked["asked"].sum()) if len(asked) else 0


def record_of(folder: Path) -> dict[str, Any]:
    """Return the content of ``run.json``, with defaults for label, status and seed."""
    held = read_record(folder)
    if held.get("damaged"):
        label, _, seed = folder.name.rpartition("-seed")
        known = {"label": label or folder.name, "seed": int(seed) if seed.isdecimal() else 0}
        return _as_damaged(known, held["reason"])
    return {"label": folder.name, "status": "running", **held, "seed": int(held.get("seed") or 0)}


def setting_of(info: Mapping[str, Any]) -> str:
    """Return the name of a run's setting; earlier versions listed its keys and values."""
    value = info.get("setting")
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return str(value) if value else ""


def _as_damaged(info: dict[str, Any], what: str) -> dict[str, Any]:
    reason = f"damaged: {what}; rayfed resume mends it"
    return info | {"status": "failed", "reason": reason, "damaged": True}


def _frame(table: pa.Table | None, keys: Sequence[str]) -> pd.DataFrame:
    """Return a table as a frame sorted by keys, keeping the last row of duplicates.

    Earlier versions did not announce parts: while theirs are compacted, a row may exist twice.
    """
    if table is None:
        return pd.DataFrame()
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    present = [key for key in keys if key in frame]
    if not present:
        return frame
    first = frame[present[0]]
    if len(present) == 1 and first.is_unique and first.is_monotonic_increasing:
        return frame
    frame = frame.drop_duplicates(present, keep="last")
    return frame.sort_values(present, kind="stable").reset_index(drop=True)


def _is_numeric(values: pa.ChunkedArray) -> bool:
    kind = values.type
    known = pa.types.is_boolean(kind) and not values.null_count  # else Arrow makes them objects
    return known or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _retried(read: Callable[[], _T], run: Path) -> _T:
    """Retry reading parts of a run, which a process that writes it may replace meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return read()
        except (Damaged, OSError, ValueError):  # Arrow's are among these
            if leases.is_orphaned(run):
                break
            time.sleep(_PAUSE_S)
    return read()


def better_by_name(column: str) -> Better | None:
    """Return the direction in which an undeclared column is better."""
    if column.endswith("accuracy"):
        return "higher"
    return "lower" if column.endswith(("loss", "loss_gap")) else None
