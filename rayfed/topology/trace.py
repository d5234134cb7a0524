"""Links over time, read from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.files import of_epoch, read_frame
from rayfed.core.names import in_column
from rayfed.core.plugins import FilePath
from rayfed.topology.base import Series, Topology
from rayfed.topology.graph import Directed, EdgeList, Graph

if TYPE_CHECKING:
    import pandas as pd

CLOCKS = ("time", "round")
_ENDS = ("u", "v")
"""Columns of the ends of links, whose cells are ids or names."""


@dataclass(frozen=True, kw_only=True)
class TopologyTrace(Topology):
    """Links over time, from a CSV file with the columns time, u and v.

    Rows with the same time are the links of the graph from that time until the next; the first
    graph also applies before. With a column ``round`` in place of ``time`` the graphs follow the
    rounds.

    Parameters
    ----------
    path : str
        The file, relative to the scenario. ``time`` is in virtual seconds, ``u`` and ``v`` are
        client ids from 0, or names that the data give the clients.
    directed : bool
        Whether a row is an arc from u to v; a link in both directions if not.
    """

    name: ClassVar[str] = "trace"

    path: FilePath
    directed: bool = False

    _names: tuple[str, ...] = field(default=(), init=False, repr=False)

    def named(self, names: Sequence[str]) -> TopologyTrace:
        """Return the topology of clients with these names."""
        bound = replace(self)
        object.__setattr__(bound, "_names", tuple(names))
        return bound

    @classmethod
    def example(cls, folder: Path) -> TopologyTrace:
        """Return a trace of two graphs of 12 clients, for checks; see `rayfed.testing.examples`."""
        rows = [f"{t},{i},{(i + 1 + t // 30) % 12}" for t in (0, 30) for i in range(12)]
        file = folder / "contacts.csv"
        file.write_text("\n".join(["time,u,v", *rows]), encoding="utf-8")
        return cls(path=str(file))

    def series(self, count: int, seed: int) -> Series:
        """Read the file."""
        kind = Directed if self.directed else EdgeList
        return _Frames(kind, count, *_read(Path(self.path), count, self._names))


class _Frames(Series):
    """Graphs by their start (T,), ascending, with links (E, 2) in the same order."""

    def __init__(
        self, kind: type[EdgeList], count: int, clock: str, moments: Floats, links: Ints
    ) -> None:
        self._kind = kind
        self._count, self._clock, self._links = count, clock, links
        self._starts, self._first = np.unique(moments, return_index=True)
        self.frames = len(self._starts)

    def epoch(self, round: int, time_s: float) -> int:
        now = time_s if self._clock == "time" else round
        return max(0, int(np.searchsorted(self._starts, now, side="right")) - 1)

    def draw(self, epoch: int, attempt: int) -> Graph:
        ends = [*self._first.tolist(), len(self._links)]
        return self._kind(self._count, self._links[ends[epoch] : ends[epoch + 1]])


def _read(path: Path, count: int, names: Sequence[str]) -> tuple[str, Floats, Ints]:
    """Return the clock's column, the moment of each row (E,), ascending, and its link (E, 2)."""
    frame = _frame(path)
    clock = next((name for name in CLOCKS if name in frame), None)
    if clock is None or not {*_ENDS} <= set(frame.columns):
        text = f"has the columns {', '.join(frame.columns)}"
        raise ScenarioError(str(path), f"{text}; give time (or round), u and v")
    _number(frame, names)
    for row, problem in _wrong(frame, clock, count):
        raise ScenarioError(str(path), f"row {row + 1}: {problem}")
    moments = frame[clock].to_numpy(dtype=np.float64)
    epoch = of_epoch(float(moments.min())) if clock == "time" else ""
    if epoch:
        text = f"begins at {moments.min():g} s, which {epoch}"
        raise ScenarioError(str(path), f"{text}; subtract the time at which the trace begins")
    order = np.argsort(moments, kind="stable")
    links = np.stack([_as_numbers(frame, end) for end in _ENDS], axis=1)
    return clock, moments[order], links.astype(np.int64)[order]


def _frame(path: Path) -> pd.DataFrame:
    frame = read_frame(path, _ENDS)
    if not len(frame):
        raise ScenarioError(str(path), "has no rows; give at least one below the header")
    return frame


def _number(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Put ids in place of names, if the ends of links are given by these."""
    import pandas as pd  # imported late: needed only to read files

    if not names:
        return
    cells = frame[list(_ENDS)].to_numpy(dtype=object).ravel()
    numbers = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(np.float64)
    ids, bad = in_column(cells.tolist(), numbers, names)
    if bad is not None:  # the first of them is named by `_wrong`
        ids = np.where(np.isnan(ids), cells, ids)
    frame[list(_ENDS)] = ids.reshape(-1, 2)


def _wrong(frame: pd.DataFrame, clock: str, count: int) -> Iterator[tuple[int, str]]:
    """Yield the invalid rows, counted from 0, with the problem of each."""
    moments = _as_numbers(frame, clock)
    for row in _where(~(np.isfinite(moments) & (moments >= 0))):
        yield row, f"{clock} is '{frame[clock][row]}'; give a number of at least 0"
    u, v = (_as_numbers(frame, end) for end in _ENDS)
    for end, ids in zip(_ENDS, (u, v), strict=True):
        for row in _where(~((ids >= 0) & (ids < count) & (ids % 1 == 0))):
            text = f"{end} is '{frame[end][row]}'"
            yield row, f"{text}; ids are whole numbers from 0 to {count - 1}, or names in the data"
    for row in _where(u == v):
        yield row, f"links client {frame['u'][row]} with itself; drop the row"


def _as_numbers(frame: pd.DataFrame, name: str) -> Floats:
    """Return the cells of a column as numbers (E,), NaN where they are none."""
    import pandas as pd  # imported late: needed only to read files

    numbers: Floats = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)
    return numbers


def _where(wrong: Bools) -> list[int]:
    rows: list[int] = np.flatnonzero(wrong).tolist()
    return rows
