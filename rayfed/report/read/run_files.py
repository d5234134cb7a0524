"""What a run has written: its tables, outputs and summary, each read when it is first asked for."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.core.announced import parts_of
from rayfed.core.columns import Column
from rayfed.core.entries import Damaged
from rayfed.core.files import read_arrays, reading
from rayfed.core.parquet import columns_in, read, read_first, read_parts, read_where
from rayfed.core.summary import CLOCKS, NEEDED, STATUS, Summary, network_of, summarised

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FILES = ("usage.parquet", "density.parquet")
"""The tables of a summary, in a run's folder."""
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile, zlib.error,
)  # fmt: skip
"""What readers of files that are not what was written raise."""
FIRST_EVENTS = 120_000
"""So many events are told one by one."""
_TRIES = 6
_PAUSE_S = 0.05
_TABLES = ("rounds", "events", "personal")
_OTHERS = ("events", "personal", "clients", "away", "fit", "held", "walk")
_NO_ROWS = pd.DataFrame()
_EVENT = ["round", "ask", "client"]
_T = TypeVar("_T")


def arrays(
    path: Path, kind: type[DataclassInstance], what: str, prefix: str = ""
) -> dict[str, Any]:
    """Return what a file holds for the fields of a dataclass: arrays, and single values as such.

    The names of the arrays are those of the fields, behind a prefix.
    """
    with reading(path, what):
        held = read_arrays(path)
        found = {field.name: held[prefix + field.name] for field in fields(kind)}
        return {name: value if value.ndim else value.item() for name, value in found.items()}


@dataclass(frozen=True, eq=False)
class Walked:
    """The graphs of a walk.

    Parameters
    ----------
    round, graph : (F,) array of int
        Rounds, and the index of the graph in each.
    clients : (K,) array of int
        Clients whose links are recorded.
    links : (E, 2) array of int
        Links, as indices into `clients`; those of graph g from ``starts[g]`` to
        ``starts[g + 1]``.
    starts : (G + 1,) array of int
    places : (G, K, 2) array
        Positions in metres; empty if unknown.
    lambda_2 : (G,) array
        Second eigenvalue of the walk on each graph; NaN if not computed.
    law : (G, N) array
        Stationary law on each graph; (G, 0) if not computed, NaN if not unique.
    """

    round: npt.NDArray[np.int64]
    graph: npt.NDArray[np.int64]
    clients: npt.NDArray[np.int64]
    links: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    places: npt.NDArray[np.float64]
    lambda_2: npt.NDArray[np.float64]
    law: npt.NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> Walked | None:
        """Read a walk, which is written at the end of a run."""
        if not path.is_file():
            return None
        values = arrays(path, cls, "the walk of a run")
        values["links"] = np.searchsorted(values["clients"], values["links"])
        return cls(**values)

    def links_of(self, graph: int) -> npt.NDArray[Any]:
        """Return the links (E, 2) of one graph."""
        return self.links[self.starts[graph] : self.starts[graph + 1]]

    @property
    def changes(self) -> bool:
        """Whether the graph changed."""
        return len(self.lambda_2) > 1


class Summed(NamedTuple):
    """What clients did.

    Parameters
    ----------
    usage : DataFrame
        A row for each client; see ``USAGE`` in `rayfed.engine.columns`.
    density : DataFrame
        A row for each cell of the heat maps; see ``DENSITY`` there.
    """

    usage: pd.DataFrame
    density: pd.DataFrame


def summed(
    rounds: pd.DataFrame,
    events: pd.DataFrame,
    clients: pd.DataFrame,
    away: pd.DataFrame | None = None,
    network: Mapping[str, Any] | None = None,
) -> Summed | None:
    """Return the summary of a run from its tables; None if there are no rounds or no events.

    Parameters are those of `rayfed.core.summary.summarised`, as frames.
    """
    if not len(events) or "time_s" not in rounds:
        return None
    tables = {"rounds": rounds, "events": events, "clients": clients}
    arrays = {
        name: {c: frame[c].to_numpy() for c in NEEDED[name] if c in frame}
        for name, frame in tables.items()
    }
    texts = events["status"].astype(str)
    arrays["events"]["status"] = texts.map({text: k for k, text in enumerate(STATUS)}).to_numpy()
    gone = None if away is None else {c: away[c].to_numpy() for c in NEEDED["away"]}
    found = summarised(arrays["rounds"], arrays["events"], arrays["clients"], gone, network)
    return _framed(found)


def _framed(found: Summary) -> Summed:
    clocks = np.array(CLOCKS, dtype=object)[found.density["clock"]]
    return Summed(pd.DataFrame(found.usage), pd.DataFrame({**found.density, "clock": clocks}))


@dataclass(frozen=True)
class Fit:
    """Predictions of a final model for some rows, as in ``fit.npz``.

    Parameters
    ----------
    kind : str
        "curve", "numbers" or "classes".
    text : str
        Description of a curve, as the object of a sentence.
    square : bool
        Whether both axes have the same scale.
    points : (n, 2) array
    curve : (m, 2) array
    counts : (c, c) array
    """

    kind: str
    text: str
    square: bool
    points: npt.NDArray[Any]
    curve: npt.NDArray[Any]
    counts: npt.NDArray[Any]


@dataclass(frozen=True)
class LabelCounts:
    """The labels that clients hold, as in ``labels.npz``.

    Parameters
    ----------
    clients : (K,) array of int
        Ids of clients.
    counts : (K, c) array of int
        Training rows of each client and class.
    """

    clients: npt.NDArray[Any]
    counts: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Pulls:
    """Where clients would take a model of two numbers, as the measure ``path`` keeps it.

    Parameters
    ----------
    rounds : (R,) array of int
        Rounds after which local work was looked at.
    clients : (K,) array of int
        Ids of clients.
    starts : (R, 2) array
        The server's model after these rounds.
    ends : (R, K, 2) array
        Where the local work of each client ended.
    box : (2, 2) array
        Lower and upper ends of both axes of the map.
    map : (n, n) array
        F over the second number down and the first across.
    """

    rounds: npt.NDArray[Any]
    clients: npt.NDArray[Any]
    starts: npt.NDArray[Any]
    ends: npt.NDArray[Any]
    box: npt.NDArray[Any]
    map: npt.NDArray[Any]

    @property
    def lowest(self) -> npt.NDArray[Any]:
        """The place (2,) of the least F on the map."""
        up, across = np.unravel_index(int(np.nanargmin(self.map)), self.map.shape)
        steps = np.array([across, up]) / (len(self.map) - 1)
        return np.asarray(self.box[0] + steps * (self.box[1] - self.box[0]))


@dataclass(frozen=True, eq=False)
class Recorded:
    """The files of a run; of one that goes on its tables alone.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    info : mapping
        Content of its ``run.json``, whose files are as they were written.
    """

    folder: Path
    info: Mapping[str, Any]

    @classmethod
    def of_rounds(cls, folder: Path, info: Mapping[str, Any], rounds: pd.DataFrame) -> Recorded:
        """Return a run of which these rounds are told and nothing else; no file is read."""
        made = cls(folder, info)
        known = {"rounds": rounds, "columns": {}, "clients": _NO_ROWS, "summed": None}
        made.__dict__.update(known)  # as `cached_property` keeps them
        return made

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row a round; empty if missing."""
        return _frame(self._rounds, ["round"])

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """Declarations of the columns of ``rounds``; none in files of earlier versions."""
        return {} if self._rounds is None else columns_in(self._rounds.schema)

    @cached_property
    def _rounds(self) -> pa.Table | None:
        return self._parts("rounds")

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row for each client and Ask; empty if missing."""
        return _frame(self._parts("events"), _EVENT)

    @cached_property
    def first_events(self) -> pd.DataFrame:
        """The first `FIRST_EVENTS` events, or a few more."""
        if "events" in self.__dict__:  # they are read already
            return self.events
        return _frame(self._parts("events", lambda parts: read_first(parts, FIRST_EVENTS)), _EVENT)

    def events_of(self, client: int) -> pd.DataFrame:
        """Return ``round, ask, client, status`` of all events of a client; empty without any."""

        def of(parts: list[Path]) -> pa.Table | None:
            return read_where(parts, "client", client, [*_EVENT, "status"])

        return _frame(self._parts("events", of), _EVENT)

    @cached_property
    def personal(self) -> pd.DataFrame:
        """Evaluations of the clients' own models; empty if there are none."""
        return _frame(self._parts("personal"), ["round", "client"])

    @cached_property
    def clients(self) -> pd.DataFrame:
        """A row for each client that took part; empty if missing."""
        return _frame(self._output("clients.parquet"), ["client"])

    @cached_property
    def away(self) -> pd.DataFrame | None:
        """When clients were unavailable; None if not recorded, which happens at the end."""
        away = _frame(self._output("away.parquet"), ["client", "start_s"])
        return away if "client" in away else None

    @cached_property
    def fit(self) -> Fit | None:
        """Predictions of the final model for some rows; None if there is no picture of it."""
        return self._values("fit.npz", Fit, "the fit of a run")

    @cached_property
    def pulls(self) -> Pulls | None:
        """Where clients would take its model; None unless the measure ``path`` has told."""
        if "model_0" not in self.rounds:
            return None
        return self._values("model.npz", Pulls, "the model of a run", "measure.path.")

    @cached_property
    def held(self) -> LabelCounts | None:
        """Labels of the clients; None if targets are numbers, or they were not counted."""
        return self._values("labels.npz", LabelCounts, "the labels of clients")

    @cached_property
    def walk(self) -> Walked | None:
        """The walk of its server; None if there is none, or the run has not ended."""
        return Walked.read(self._path("walk.npz"))

    @cached_property
    def summed(self) -> Summed | None:
        """What its clients did; None if it has no events."""
        written = [self.folder / name for name in FILES if self._is_whole(name)]
        if len(written) == len(FILES):
            return Summed(*(_frame(read(path), ()) for path in written))
        return summed(self.rounds, self.events, self.clients, self.away, network_of(self.info))

    def read(self) -> None:
        """Read everything that is not known to be as it was written."""
        retried(lambda: self.rounds)
        for name in () if "identity" in self.info else _OTHERS:
            getattr(self, name)

    @cached_property
    def _paths(self) -> dict[str, list[Path]]:
        return parts_of(self.folder, _TABLES, self.info)

    def _parts(
        self, table: str, of: Callable[[list[Path]], pa.Table | None] = read_parts
    ) -> pa.Table | None:
        def once() -> pa.Table | None:
            try:
                parts = self._paths[table]
                return of(parts) if parts else None
            except (OSError, ValueError):  # they were replaced by others
                self.__dict__.pop("_paths", None)
                raise

        return retried(once)

    def _is_whole(self, name: str) -> bool:
        """Return whether a summary is there: of a run that ended it is among its files."""
        files = self.info.get("files")
        if files:
            return name in files
        return _readable(self.folder / name)

    def _path(self, name: str) -> Path:
        return self.folder / name if _has_output(self.info, name) else self.folder / "none"

    def _output(self, name: str) -> pa.Table | None:
        path = self._path(name)
        return read(path) if path.is_file() else None

    def _values(self, name: str, kind: type[_T], what: str, prefix: str = "") -> _T | None:
        path = self._path(name)
        if not path.is_file():
            return None
        return kind(**arrays(path, kind, what, prefix))  # type: ignore[arg-type]


def _has_output(info: Mapping[str, Any], name: str) -> bool:
    """Return whether a run has announced a file that is written at its end.

    Those of versions that noted no identity may have more than they list.
    """
    ended = info.get("status") != "running"
    return ended and (name in (info.get("files") or {}) or "identity" not in info)


def _readable(path: Path) -> bool:
    """Return whether there is a file that is whole, of a run that goes on."""
    try:
        pq.read_metadata(path)
    except UNREADABLE:
        return False
    return True


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


def retried(read: Callable[[], _T]) -> _T:
    """Retry reading if a part is renamed or deleted meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return read()
        except (Damaged, OSError, ValueError):  # Arrow's are among these
            time.sleep(_PAUSE_S)
    return read()
