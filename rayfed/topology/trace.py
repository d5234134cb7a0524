"""Links read from a file, for good or over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.files import of_epoch, read_frame, reading
from rayfed.core.names import in_column
from rayfed.core.plugins import FilePath
from rayfed.core.tables import bound
from rayfed.topology.base import Routes, Series, Topology
from rayfed.topology.graph import Directed, EdgeList, Graph

if TYPE_CHECKING:
    import pandas as pd

CLOCKS = ("time", "round")
_ENDS = ("u", "v")
"""Columns of the ends of links, whose cells are ids or names."""
_WAY = ("latency_s", "mbps")
"""Columns of the way between them."""
_GRAPHS = (".graphml", ".gml")


@dataclass(frozen=True, kw_only=True)
class TopologyTrace(Topology):
    """Links from a CSV file with the columns u and v, or from a GraphML or GML file.

    With a column ``time``, rows with the same time are the links of the graph from that time until
    the next; the first graph also applies before. With a column ``round`` the graphs follow the
    rounds. Without either the graph never changes.

    Parameters
    ----------
    path : str
        The file, relative to the scenario. ``time`` is in virtual seconds, ``u`` and ``v`` are
        client ids from 0, or names that the data give the clients. In GraphML and GML the nodes are
        clients in the order of the file, unless their names are ids. Links may have a ``latency_s``
        and ``mbps``, the seconds and the Mbit/s of a message on the way, without a server.
    directed : bool
        Whether a link is an arc from u to v; it goes in both directions if not.
    """

    name: ClassVar[str] = "trace"

    path: FilePath
    directed: bool = False

    _names: tuple[str, ...] = field(default=(), init=False, repr=False)

    def named(self, names: Sequence[str]) -> TopologyTrace:
        """Return the topology of clients with these names."""
        return bound(self, names)

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
        return _Frames(kind, count, _read(Path(self.path), count, self._names))


class _Frames(Series):
    """Graphs by their start (T,), ascending, with the rows of their links in the same order."""

    def __init__(self, kind: type[EdgeList], count: int, links: _Links) -> None:
        self._kind, self._count, self._links = kind, count, links
        self._starts, first = np.unique(links.moments, return_index=True)
        self._ends = [*first.tolist(), len(links.ends)]
        self.frames = len(self._starts)

    def epoch(self, round: int, time_s: float) -> int:
        now = time_s if self._links.clock == "time" else round
        return max(0, int(np.searchsorted(self._starts, now, side="right")) - 1)

    def draw(self, epoch: int, attempt: int) -> Graph:
        return self._kind(self._count, self._links.ends[self._rows(epoch)])

    def routes(self, epoch: int) -> Routes | None:
        if self._links.latency_s is None and self._links.mbps is None:
            return None
        rows = self._rows(epoch)
        u, v = self._links.ends[rows].T
        latency_s, mbps = (
            np.full(len(u), default) if values is None else values[rows]
            for values, default in ((self._links.latency_s, 0.0), (self._links.mbps, np.inf))
        )
        codes = u * self._count + v
        if not self._kind.directed:
            codes = np.concatenate([codes, v * self._count + u])
            latency_s, mbps = np.tile(latency_s, 2), np.tile(mbps, 2)
        order = np.argsort(codes, kind="stable")
        return Routes(self._count, codes[order], latency_s[order], mbps[order])

    def _rows(self, epoch: int) -> slice:
        return slice(self._ends[epoch], self._ends[epoch + 1])


class _Links(NamedTuple):
    """Links (E, 2) by the moment at which their graph begins, on the clock of a column.

    All are at moment 0 where the graph never changes.
    """

    clock: str
    moments: Floats
    ends: Ints
    latency_s: Floats | None
    mbps: Floats | None


def _read(path: Path, count: int, names: Sequence[str]) -> _Links:
    """Return the links of a file."""
    frame = _frame(path)
    clock = next((name for name in CLOCKS if name in frame), "")
    others = set(frame.columns) - {*CLOCKS, *_ENDS, *_WAY}
    if not {*_ENDS} <= set(frame.columns) or (others and not clock):
        text = f"has the columns {', '.join(frame.columns)}"
        raise ScenarioError(str(path), f"{text}; give u and v, with time or round if links change")
    _number(frame, names)
    for row, problem in _wrong(frame, clock, count):
        raise ScenarioError(str(path), f"row {row + 1}: {problem}")
    moments = frame[clock].to_numpy(dtype=np.float64) if clock else np.zeros(len(frame))
    epoch = of_epoch(float(moments.min())) if clock == "time" else ""
    if epoch:
        text = f"begins at {moments.min():g} s, which {epoch}"
        raise ScenarioError(str(path), f"{text}; subtract the time at which the trace begins")
    order = np.argsort(moments, kind="stable")
    ends = np.stack([_as_numbers(frame, end) for end in _ENDS], axis=1)
    latency_s, mbps = (_as_numbers(frame, k)[order] if k in frame else None for k in _WAY)
    return _Links(clock, moments[order], ends.astype(np.int64)[order], latency_s, mbps)


def _frame(path: Path) -> pd.DataFrame:
    frame = _of_graph(path) if path.suffix in _GRAPHS else read_frame(path, _ENDS)
    if not len(frame):
        raise ScenarioError(str(path), "has no links; give at least one")
    return frame


def _of_graph(path: Path) -> pd.DataFrame:
    """Return the links of a GraphML or GML file as rows."""
    import networkx as nx  # imported late: needed only to read such files
    import pandas as pd

    with reading(path, "a graph"):
        graph = nx.read_graphml(path) if path.suffix == ".graphml" else nx.read_gml(path)
    numbered = {str(name) for name in graph} == {*map(str, range(len(graph)))}
    place = {name: int(name) if numbered else k for k, name in enumerate(graph)}
    rows = [
        {"u": place[u], "v": place[v], **{k: about[k] for k in _WAY if k in about}}
        for u, v, about in graph.edges(data=True)
    ]
    return pd.DataFrame(rows)


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
    for name in (clock, *_WAY):
        if name not in frame:
            continue
        values = _as_numbers(frame, name)
        wrong = ~(values > 0) if name == "mbps" else ~(np.isfinite(values) & (values >= 0))
        remedy = "give a number above 0" if name == "mbps" else "give a number of at least 0"
        for row in _where(wrong):
            yield row, f"{name} is '{frame[name][row]}'; {remedy}"
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
