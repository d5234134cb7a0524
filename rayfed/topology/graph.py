"""Graphs of clients at one moment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.spatial import cKDTree

Down: TypeAlias = Callable[[Ints, Ints], Bools]
"""``down(low, high) -> (E,) bool``: which links between clients low < high are down."""
_SQUARE = 0.7  # side of a square in units of the range: its diagonal is 0.99 of the range
_EXACT = 2.0**53  # integers up to here are exact as floats


class Graph:
    """An undirected graph without loops on the clients 0 to N - 1.

    Parameters
    ----------
    count : int
        Number N of clients.
    positions : (N, 2) array, optional
        Positions of the clients, in metres.

    Attributes
    ----------
    directed : bool
        Whether a client may send to another one that does not send back; see `Directed`.
    """

    directed: ClassVar[bool] = False

    def __init__(self, count: int, positions: Floats | None = None) -> None:
        self.count, self.positions = count, positions

    @property
    def links(self) -> Ints:
        """The links (E, 2), each once with the lower id first, in ascending order."""
        return self.listed().links

    @property
    def arcs(self) -> Ints:
        """The arcs (A, 2), sender and receiver: both directions of every link."""
        return np.concatenate([self.links[:, ::-1], self.links])

    def neighbours(self, client: int) -> Ints:
        """Return the neighbours of a client, ascending, without itself."""
        raise NotImplementedError

    def degrees(self, ids: Ints) -> Ints:
        """Return the number of links (K,) of each client."""
        raise NotImplementedError

    def components(self) -> Ints:
        """Return the connected component (N,) of each client, from 0, in any order."""
        return components(self.count, self.links)

    def without(self, down: Down) -> Graph:
        """Return the graph without the links that are down."""
        raise NotImplementedError

    def plus(self, links: Ints) -> Graph:
        """Return the graph with additional links (E, 2), none of which it has."""
        return Augmented(self, links)

    @property
    def matrix(self) -> csr_array[Any]:
        """The adjacency matrix (N, N): 1.0 for a link."""
        return self.listed().matrix

    def listed(self) -> EdgeList:
        """Return the same graph as an explicit list of links."""
        return self._listed

    def distance(self, one: int, other: int) -> float:
        """Return the distance of two clients, in metres.

        Raises
        ------
        ValueError
            If the graph has no positions.
        """
        if self.positions is None:
            raise ValueError("the clients of this graph have no positions")
        return float(np.hypot(*(self.positions[one] - self.positions[other])))

    @property
    def _pairs(self) -> Ints:
        """The links (E, 2), each once, in any order."""
        raise NotImplementedError

    @cached_property
    def _listed(self) -> EdgeList:
        return EdgeList(self.count, self._pairs, self.positions)


class EdgeList(Graph):
    """A graph given by the list of its links.

    Parameters
    ----------
    count : int
        Number N of clients.
    links : (E, 2) array of int
        In any order; duplicates and loops are dropped.
    positions : (N, 2) array, optional
        In metres.

    Examples
    --------
    >>> path = EdgeList(3, np.array([[1, 0], [1, 2]]))
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
        """The links (E, 2), each once with the lower id first, in ascending order."""
        return self._links

    def without(self, down: Down) -> EdgeList:
        """Return the graph without the links that are down."""
        links = self.links
        return EdgeList(self.count, links[~down(links[:, 0], links[:, 1])], self.positions)

    def listed(self) -> Self:
        """Return itself."""
        return self

    @cached_property
    def matrix(self) -> csr_array[Any]:
        """The adjacency matrix (N, N): 1.0 for a link."""
        from scipy.sparse import csr_array  # imported late: not needed for walks alone

        ones = np.ones(len(self._ends))
        return csr_array((ones, self._ends, self._starts), shape=(self.count, self.count))


class Directed(EdgeList):
    """A graph of arcs, each from a sender to a receiver; as a graph it links both ends.

    A link that is down takes both of its arcs with it. Components are those within which every
    client reaches every other along arcs.

    Parameters
    ----------
    count : int
        Number N of clients.
    arcs : (A, 2) array of int
        Sender and receiver, in any order; duplicates and loops are dropped.

    Examples
    --------
    >>> line = Directed(3, [[0, 1], [1, 2]])
    >>> line.arcs.tolist(), line.links.tolist(), len(set(line.components().tolist()))
    ([[0, 1], [1, 2]], [[0, 1], [1, 2]], 3)
    """

    directed: ClassVar[bool] = True

    def __init__(self, count: int, arcs: npt.ArrayLike) -> None:
        super().__init__(count, arcs)
        ends = np.asarray(arcs, dtype=np.int64).reshape(-1, 2)
        ends = ends[ends[:, 0] != ends[:, 1]]
        codes = _distinct(ends[:, 0] * count + ends[:, 1])
        self._arcs = np.stack([codes // count, codes % count], axis=1)

    @property
    def arcs(self) -> Ints:
        """The arcs (A, 2), sender and receiver, in ascending order."""
        return self._arcs

    def components(self) -> Ints:
        """Return the strongly connected component (N,) of each client, from 0, in any order."""
        return components(self.count, self._arcs, directed=True)

    def without(self, down: Down) -> Directed:
        """Return the graph without the arcs of links that are down."""
        low, high = self._arcs.min(axis=1), self._arcs.max(axis=1)
        return Directed(self.count, self._arcs[~down(low, high)])

    def plus(self, links: Ints) -> Directed:
        """Return the graph with additional links (E, 2), as arcs in both directions."""
        return Directed(self.count, np.concatenate([self._arcs, links, links[:, ::-1]]))


class Augmented(Graph):
    """A graph with a few additional links; queries are passed on to the graph.

    Parameters
    ----------
    graph : Graph
    links : (E, 2) array of int
        Additional links, none of which the graph has.
    """

    def __init__(self, graph: Graph, links: Ints) -> None:
        super().__init__(graph.count, graph.positions)
        self._graph, self._more = graph, EdgeList(graph.count, links)

    def neighbours(self, client: int) -> Ints:
        """Return the neighbours in both parts, ascending."""
        around, more = self._graph.neighbours(client), self._more.neighbours(client)
        return np.sort(np.concatenate([around, more])) if len(more) else around

    def degrees(self, ids: Ints) -> Ints:
        """Return the sum of the degrees in both parts."""
        return self._graph.degrees(ids) + self._more.degrees(ids)

    def components(self) -> Ints:
        """Return the component (N,) of each client, merged by the additional links."""
        return contracted(self._graph.components(), *self._more.links.T)

    def without(self, down: Down) -> Graph:
        """Return the graph without the links that are down in both parts."""
        return Augmented(self._graph.without(down), self._more.without(down).links)

    @property
    def _pairs(self) -> Ints:
        """The links (E, 2), each once."""
        return np.concatenate([self._graph.links, self._more.links])


class Near(Graph):
    """A graph that links clients within a range; a query computes only the neighbourhood.

    Parameters
    ----------
    positions : (N, 2) array
        In metres.
    range_m : float
        Largest distance of linked clients, in metres.
    down : callable, optional
        Which links are down.
    """

    positions: Floats

    def __init__(self, positions: Floats, range_m: float, down: Down | None = None) -> None:
        super().__init__(len(positions), positions)
        self.range_m, self.down = range_m, down

    def neighbours(self, client: int) -> Ints:
        """Return the clients in range, found by a k-d tree."""
        return np.sort(self._around(np.array([client]))[1])

    def degrees(self, ids: Ints) -> Ints:
        """Return the clients in range, found by a k-d tree."""
        return np.bincount(self._around(ids)[0], minlength=len(ids))

    def components(self) -> Ints:
        """Return the connected component (N,) of each client, without listing all links.

        Clients in the same small square are certainly in range, so linking one client per square
        connects most of them. All links are computed only for the clients that this leaves
        outside the largest component.
        """
        corner = self.positions.min(axis=0)
        column, row = np.floor((self.positions - corner).T / (_SQUARE * self.range_m))
        rows = row.max() + 1.0
        if rows * (column.max() + 1.0) > _EXACT:
            return components(self.count, self._pairs)
        firsts, square = _grouped((column * rows + row).astype(np.int64))
        across = tree_of(self.positions[firsts]).query_pairs(self.range_m, output_type="ndarray")
        others = np.flatnonzero(firsts[square] != np.arange(self.count))
        inside = np.stack([others, firsts[square[others]]], axis=1)
        links = np.concatenate([inside, firsts[across]])
        labels = components(self.count, links[self._up(*links.T)])
        rest = np.flatnonzero(labels != np.bincount(labels).argmax())
        at, target = self._around(rest)
        return contracted(labels, rest[at], target)

    def without(self, down: Down) -> Near:
        """Return the graph without the links that are down."""
        return Near(self.positions, self.range_m, down)

    @cached_property
    def _tree(self) -> cKDTree[Any]:
        return tree_of(self.positions)

    @property
    def _pairs(self) -> Ints:
        """The links (E, 2), each once with the lower id first."""
        pairs: Ints = self._tree.query_pairs(self.range_m, output_type="ndarray")
        return pairs[self._up(*pairs.T)]

    def _around(self, ids: Ints) -> tuple[Ints, Ints]:
        """Return all links of some clients: index into ids (E,) and neighbour (E,)."""
        if not len(ids):
            return ids, ids
        tree = tree_of(self.positions[ids])
        distances = tree.sparse_distance_matrix(self._tree, self.range_m, output_type="ndarray")
        at, target = distances["i"], distances["j"]
        other = ids[at] != target
        at, target = at[other], target[other]
        up = self._up(ids[at], target)
        return at[up], target[up]

    def _up(self, source: Ints, target: Ints) -> Bools:
        """Return which of the links (E,) between clients in range are up."""
        if self.down is None:
            return np.ones(len(source), dtype=np.bool_)
        return ~self.down(np.minimum(source, target), np.maximum(source, target))


def components(count: int, links: Ints, *, directed: bool = False) -> Ints:
    """Return the connected component (N,) of each of N = count clients, from 0, in any order.

    Those of directed links are strongly connected.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(links)), links.T), shape=(count, count))
    return np.asarray(connected_components(graph, directed, "strong")[1], dtype=np.int64)


def contracted(labels: Ints, source: Ints, target: Ints) -> Ints:
    """Return components (N,) after merging those that links (E,) connect."""
    links = np.stack([labels[source], labels[target]], axis=1)
    return components(int(labels.max()) + 1, links)[labels]


def tree_of(points: Floats) -> cKDTree[Any]:
    """Return a k-d tree of points (n, 2), built for few queries: half the cost, same answers."""
    from scipy.spatial import cKDTree  # imported late: not needed for walks alone

    return cKDTree(points, balanced_tree=False, compact_nodes=False)


def _grouped(codes: Ints) -> tuple[Ints, Ints]:
    """Return an index of each distinct value (n,), and the value that each element (E,) has."""
    order = np.argsort(codes)  # several times as fast as `numpy.unique`, which sorts stably
    ordered = codes[order]
    new = np.append(True, ordered[1:] != ordered[:-1])
    which = np.empty(len(codes), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    return order[new], which


def _distinct(codes: Ints) -> Ints:
    """Return the distinct values, ascending; `numpy.unique` hashes and is slower here."""
    ordered = np.sort(codes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
