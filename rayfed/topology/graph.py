"""A graph of clients at one moment: who is linked with whom."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.spatial import cKDTree

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Down: TypeAlias = Callable[[Ints, Ints], Bools]
"""``down(low, high) -> (E,) bool``: which links between clients low < high have failed."""


class Graph:
    """An undirected graph without loops on the clients 0 to N - 1.

    Parameters
    ----------
    count : int
        Number N of clients.
    positions : (N, 2) array, optional
        Where the clients are, in metres.
    """

    def __init__(self, count: int, positions: Floats | None = None) -> None:
        self.count, self.positions = count, positions

    @property
    def links(self) -> Ints:
        """Every link (E, 2) once, the lower id first, in ascending order."""
        raise NotImplementedError

    def neighbours(self, client: int) -> Ints:
        """Return who is linked with a client, ascending, without itself."""
        raise NotImplementedError

    def degrees(self, ids: Ints) -> Ints:
        """Return the number of links (K,) of each client."""
        raise NotImplementedError

    def without(self, down: Down) -> Graph:
        """Return the graph without the links that have failed."""
        raise NotImplementedError

    @property
    def matrix(self) -> csr_array[Any]:
        """The adjacency matrix (N, N): 1.0 for a link."""
        return self.listed().matrix

    def listed(self) -> Listed:
        """Return the same graph with all links in one list."""
        return Listed(self.count, self.links, self.positions)

    def distance(self, one: int, other: int) -> float:
        """Return the metres between two clients.

        Raises
        ------
        ValueError
            If nobody knows where they are.
        """
        if self.positions is None:
            raise ValueError("the clients of this graph have no positions")
        return float(np.hypot(*(self.positions[one] - self.positions[other])))


class Listed(Graph):
    """A graph given by all of its links.

    Parameters
    ----------
    count : int
        Number N of clients.
    links : (E, 2) array of int
        In any order; repeated links count once, loops not at all.
    positions : (N, 2) array, optional
        In metres.

    Examples
    --------
    >>> path = Listed(3, np.array([[1, 0], [1, 2]]))
    >>> path.neighbours(1).tolist(), path.degrees(np.arange(3)).tolist()
    ([0, 2], [1, 2, 1])
    """

    def __init__(self, count: int, links: npt.ArrayLike, positions: Floats | None = None) -> None:
        super().__init__(count, positions)
        ends = np.asarray(links, dtype=np.int64).reshape(-1, 2)
        ends = ends[ends[:, 0] != ends[:, 1]]
        codes = _distinct(np.minimum(*ends.T) * count + np.maximum(*ends.T))
        low = codes // count
        high = codes - low * count
        both = np.sort(np.concatenate([codes, high * count + low]))
        self._links = np.stack([low, high], axis=1)
        self._starts = np.searchsorted(both, np.arange(count + 1) * count)
        self._ends = both - np.repeat(np.arange(count) * count, np.diff(self._starts))

    def neighbours(self, client: int) -> Ints:
        """Return a slice of the list."""
        return self._ends[self._starts[client] : self._starts[client + 1]]

    def degrees(self, ids: Ints) -> Ints:
        """Return the lengths (K,) of the clients' slices."""
        return self._starts[np.asarray(ids) + 1] - self._starts[ids]

    @property
    def links(self) -> Ints:
        """Every link (E, 2) once, the lower id first, in ascending order."""
        return self._links

    def without(self, down: Down) -> Listed:
        """Return the graph with the other links."""
        links = self.links
        return Listed(self.count, links[~down(links[:, 0], links[:, 1])], self.positions)

    def plus(self, links: npt.ArrayLike) -> Listed:
        """Return the graph with more links (E, 2)."""
        more = np.asarray(links, dtype=np.int64).reshape(-1, 2)
        return Listed(self.count, np.concatenate([self.links, more]), self.positions)

    def listed(self) -> Self:
        """Return itself."""
        return self

    @cached_property
    def matrix(self) -> csr_array[Any]:
        """The adjacency matrix (N, N): 1.0 for a link."""
        from scipy.sparse import csr_array  # here: who only walks stays small

        ones = np.ones(len(self._ends))
        return csr_array((ones, self._ends, self._starts), shape=(self.count, self.count))


class Near(Graph):
    """A graph that links clients within a range; a question costs its neighbourhood alone.

    Parameters
    ----------
    positions : (N, 2) array
        In metres.
    range_m : float
        Clients at this distance or nearer are linked.
    down : callable, optional
        Which of these links have failed.
    """

    positions: Floats

    def __init__(self, positions: Floats, range_m: float, down: Down | None = None) -> None:
        super().__init__(len(positions), positions)
        self.range_m, self.down = range_m, down

    def neighbours(self, client: int) -> Ints:
        """Ask the tree for the points in range."""
        found = self._tree.query_ball_point(self.positions[client], self.range_m)
        ids = np.sort(np.array(found, dtype=np.int64))
        return self._up(client, ids[ids != client])

    def degrees(self, ids: Ints) -> Ints:
        """Ask the tree how many points are in range."""
        if self.down is not None:
            return np.array([len(self.neighbours(int(i))) for i in ids], dtype=np.int64)
        around = self._tree.query_ball_point(self.positions[ids], self.range_m, return_length=True)
        return np.asarray(around, dtype=np.int64) - 1

    @property
    def links(self) -> Ints:
        """Every link (E, 2) once, the lower id first, in ascending order."""
        return self.listed().links

    def without(self, down: Down) -> Near:
        """Return the graph in which these links are known to have failed."""
        return Near(self.positions, self.range_m, down)

    def listed(self) -> Listed:
        """Return the same graph with all links in one list."""
        pairs = self._tree.query_pairs(self.range_m, output_type="ndarray")
        graph = Listed(self.count, pairs, self.positions)
        return graph if self.down is None else graph.without(self.down)

    @cached_property
    def _tree(self) -> cKDTree[Any]:
        from scipy.spatial import cKDTree

        return cKDTree(self.positions)

    def _up(self, client: int, ids: Ints) -> Ints:
        if self.down is None:
            return ids
        return ids[~self.down(np.minimum(ids, client), np.maximum(ids, client))]


def _distinct(codes: Ints) -> Ints:
    """Return numbers (E,) once each, ascending; `numpy.unique` hashes and is slower here."""
    found = np.sort(codes)
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found
