"""Walks by a user's transition matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.files import check_room, read_arrays, reading
from rayfed.core.plugins import FilePath
from rayfed.topology.graph import Graph
from rayfed.topology.walks.metropolis import Walk

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csr_array

    from rayfed.topology.base import Graphs

_SURE = 1e-9  # largest deviation of a row sum from 1
_FORMATS = ("csr", "csc", "coo", "dia")
_INDEX, _TEXT = 32, 8  # bytes for a row or column of a sparse matrix, and for one of a text


@dataclass(frozen=True, kw_only=True)
class Matrix(Walk):
    """Moves by a transition matrix from a file.

    A move along a link that does not exist at the time is replaced by staying. If the matrix is
    reversible, its stationary law remains stationary. Its moves must lead from every client to
    every other, unless the topology's `disconnected` is "allow".

    Parameters
    ----------
    path : str
        A CSV file of N rows of N numbers without a header, or a sparse matrix (N, N) as
        ``scipy.sparse.save_npz`` writes it; relative to the scenario. Row i holds the
        probabilities of the moves from client i.
    """

    name: ClassVar[str] = "matrix"

    path: FilePath

    @classmethod
    def example(cls, folder: Path) -> Matrix:
        """Return a lazy walk on a ring of 12 clients, for checks; see `rayfed.testing.examples`."""
        stay = np.eye(12)
        moves = 0.5 * stay + 0.25 * (np.roll(stay, 1, axis=1) + np.roll(stay, -1, axis=1))
        file = folder / "moves.csv"
        np.savetxt(file, moves, delimiter=",")
        return cls(path=str(file))

    def chances(self, graph: Graph, source: Ints, target: Ints) -> Floats:
        """Return the entries of the matrix."""
        codes, entries = self._entries
        wanted = np.asarray(source) * self._matrix.shape[0] + target
        place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        return np.asarray(np.where(codes[place] == wanted, entries[place], 0.0))

    def check(self, graphs: Graphs) -> None:
        """Refuse a matrix of the wrong size, moves without links, and unreachable clients."""
        size = self._matrix.shape
        if size != (graphs.count, graphs.count):
            text = f"is {size[0]} by {size[1]}, but there are {graphs.count} clients"
            raise ScenarioError(self.path, f"{text}; give a row and a column for each")
        pair = None if graphs.topology.disconnected == "allow" else _unreachable(self._matrix)
        if pair is not None:
            text = f"no moves lead from client {pair[0]} to {pair[1]}"
            raise ScenarioError(self.path, f"{text}; add some, or set disconnected to allow")
        if not graphs.fixed:
            return
        # entries that are neither staying nor moves along links
        entries = self._matrix.tocoo()
        linked = np.isin(_codes(entries), _codes(graphs.of(0).matrix.tocoo()))
        for i, j in zip(entries.row[~linked], entries.col[~linked], strict=True):
            if i != j:
                text = f"client {i} moves to {j}, but no link joins them"
                raise ScenarioError(self.path, f"{text}; set the entry to 0 and add it to another")

    @cached_property
    def _matrix(self) -> csr_array[Any]:
        made = _read(Path(self.path))
        for problem in _problems(made):
            raise ScenarioError(self.path, problem)
        return made

    @cached_property
    def _entries(self) -> tuple[Ints, Floats]:
        """Codes ``i N + j`` of the entries, ascending, and the entries."""
        entries = self._matrix.tocoo()
        codes = _codes(entries)
        order = np.argsort(codes)
        return codes[order], entries.data[order]


def _codes(entries: coo_array[Any]) -> Ints:
    """Return ``i N + j`` of the entries (E,) of a matrix (N, N)."""
    return np.asarray(entries.row.astype(np.int64) * entries.shape[0] + entries.col)


def _unreachable(matrix: csr_array[Any]) -> tuple[int, int] | None:
    """Return clients i and j such that no moves lead from i to j; None if there are none."""
    from scipy.sparse.csgraph import breadth_first_order

    for moves, back in ((matrix, False), (matrix.T.tocsr(), True)):
        reached = breadth_first_order(moves, 0, return_predecessors=False)
        missed = np.setdiff1d(np.arange(matrix.shape[0]), reached)
        if len(missed):
            return (int(missed[0]), 0) if back else (0, int(missed[0]))
    return None


def _read(path: Path) -> csr_array[Any]:
    from scipy.sparse import csr_array

    with reading(path, "a matrix", "give numbers alone"):
        if path.suffix != ".npz":
            made: csr_array[Any] = csr_array(_table(path))
        else:
            data, where, shape = _sparse(read_arrays(path))
            check_room(_INDEX * sum(shape), str(path), "its rows and columns", "give fewer")
            made = csr_array((data, where), shape=shape)
    made.sum_duplicates()
    made.eliminate_zeros()
    return made


def _sparse(held: Mapping[str, Array]) -> tuple[Floats, tuple[Ints, Ints], tuple[int, int]]:
    """Return entries (E,), their rows and columns (E,), and the shape of a matrix.

    SciPy trusts the indices of a file, and writes outside its arrays where they are wrong.

    Parameters
    ----------
    held : mapping of str to array
        What ``scipy.sparse.save_npz`` writes.

    Raises
    ------
    ValueError
        If it is of another format, or entries are no numbers or lie outside of the matrix.
    """
    form, data = held["format"].item(), held["data"]
    form = form.decode() if isinstance(form, bytes) else form
    if form not in _FORMATS:
        raise ValueError(f"it is of format {form!r}; save matrix.tocsr()")
    if data.dtype.kind not in "biuf":
        raise ValueError(f"entries of type {data.dtype}")
    rows, columns = _indices(held, "shape").tolist()
    if form == "coo":
        where = _indices(held, "row"), _indices(held, "col")
    elif form == "dia":
        column = np.broadcast_to(np.arange(data.shape[1]), data.shape)
        row = column - _indices(held, "offsets")[:, None]
        inside = (row >= 0) & (row < rows) & (column < columns)  # others are no entries
        data, where = data[inside], (row[inside], column[inside])
    else:
        inner, count = _indices(held, "indices"), np.diff(_indices(held, "indptr"))
        if len(count) != (rows if form == "csr" else columns) or (count < 0).any():
            raise ValueError("its indptr does not fit its shape")
        outer = np.repeat(np.arange(len(count)), count) if count.sum() == len(inner) else inner[:0]
        where = (outer, inner) if form == "csr" else (inner, outer)
    if not data.shape == where[0].shape == where[1].shape:
        raise ValueError("it has other numbers of entries and of places")
    for index, size in zip(where, (rows, columns), strict=True):
        if len(index) and not 0 <= index.min() <= index.max() < size:
            raise ValueError(f"an entry lies outside of its {rows} rows and {columns} columns")
    return data.astype(np.float64), where, (rows, columns)


def _indices(held: Mapping[str, Array], name: str) -> Ints:
    """Return whole numbers (n,) by their name."""
    if held[name].dtype.kind not in "iu" or held[name].ndim != 1:
        raise ValueError(f"its {name} is no list of whole numbers")
    return held[name].astype(np.int64)


def _table(path: Path) -> Floats:
    """Return the numbers of a CSV file; raises on an empty one, where NumPy only warns."""
    check_room(_TEXT * path.stat().st_size, str(path), "its numbers", "give a sparse matrix")
    with path.open(encoding="utf-8") as file:
        rows = [row for row in file if row.strip()]
    if not rows:
        raise ValueError("it is empty")
    return np.loadtxt(rows, delimiter=",", ndmin=2)


def _problems(matrix: csr_array[Any]) -> list[str]:
    """Return the problems of a matrix that is not a transition matrix."""
    rows = matrix.tocoo().row
    bad = np.flatnonzero(~(np.isfinite(matrix.data) & (matrix.data >= 0)))
    if len(bad):
        entry = matrix.data[bad[0]]
        return [f"the row of client {rows[bad[0]]} holds {entry:g}; probabilities are 0 to 1"]
    sums = np.asarray(matrix.sum(axis=1))
    bad = np.flatnonzero(np.abs(sums - 1.0) > _SURE)
    return [f"the row of client {i} sums to {sums[i]:.12g}; make it sum to 1" for i in bad[:1]]
