"""Connectivity: the parts of a graph, and the links that join them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.rng import Key
from rayfed.topology.graph import Graph, tree_of

_FEW = 4  # a triangulation of the plane needs so many points


@dataclass(frozen=True)
class Parts:
    """The connected components of a graph.

    Parameters
    ----------
    count : int
        How many there are.
    labels : (N,) array of int
        The part of each client, numbered by the lowest id in it.
    """

    count: int
    labels: Ints

    def smallest(self) -> Ints:
        """Return the clients of the smallest part, ascending."""
        return np.flatnonzero(self.labels == np.bincount(self.labels).argmin())

    def largest(self) -> Ints:
        """Return the clients of the largest part, ascending."""
        return np.flatnonzero(self.labels == np.bincount(self.labels).argmax())


def parts(graph: Graph) -> Parts:
    """Return the connected components of a graph."""
    labels = graph.components()
    count = int(labels.max()) + 1
    lowest = np.empty(count, dtype=np.int64)
    lowest[labels[::-1]] = np.arange(graph.count)[::-1]  # the last assignment stays
    return Parts(count, np.argsort(np.argsort(lowest))[labels])


def joined(graph: Graph, found: Parts, key: Key, epoch: int) -> Graph:
    """Return a graph with the fewest links more that make it connected.

    With positions these are the shortest ones (a minimum spanning tree of the parts). Without,
    all links are equally long: a client of each smaller part is linked with one of the largest,
    both drawn.

    Parameters
    ----------
    graph : Graph
    found : Parts
        Its components.
    key, epoch
        Of the draws.
    """
    if graph.positions is None:
        return graph.plus(_drawn(found, key, epoch))
    return graph.plus(_shortest(graph.positions, found))


def _drawn(found: Parts, key: Key, epoch: int) -> Ints:
    main = found.largest()
    others = [c for c in range(found.count) if c != found.labels[main[0]]]
    who = key.integers(others, np.full(len(others), len(main)), 1, round=epoch)[:, 0]
    links = []
    for part, index in zip(others, who.tolist(), strict=True):
        members = np.flatnonzero(found.labels == part)
        member = key.integers([part], [len(members)], 1, round=epoch, ask=1)[0, 0]
        links.append((members[member], main[index]))
    return np.array(links, dtype=np.int64)


def _shortest(positions: Floats, found: Parts) -> Ints:
    """Return the links of a minimum spanning tree of the parts; of equally long ones the first."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    links = _candidates(positions, found)
    lengths = np.hypot(*(positions[links[:, 0]] - positions[links[:, 1]]).T)
    links = links[np.lexsort((links[:, 1], links[:, 0], lengths))]
    one, other = np.sort(found.labels[links], axis=1).T
    first = np.unique(one * found.count + other, return_index=True)[1]  # of each pair of parts
    size = (found.count, found.count)
    tree = minimum_spanning_tree(coo_array((1.0 + first, (one[first], other[first])), shape=size))
    return links[tree.data.astype(np.int64) - 1]


def _candidates(positions: Floats, found: Parts) -> Ints:
    """Return links (E, 2) between parts among which are those of a minimum spanning tree.

    Such a link is the shortest that leaves some of the parts; let the largest not be one of them.
    If it ends in the largest, it is the shortest from its start. If not, it is the shortest
    between two sets of clients outside the largest, hence an edge of their Delaunay triangulation:
    the circle around it is empty, since a client within would make a shorter link.
    """
    main = found.largest()
    rest = np.flatnonzero(found.labels != found.labels[main[0]])
    _, nearest = tree_of(positions[main]).query(positions[rest])
    links = rest[_triangulated(positions[rest])]
    links = links[found.labels[links[:, 0]] != found.labels[links[:, 1]]]
    return np.concatenate([np.stack([rest, main[nearest]], axis=1), links])


def _triangulated(positions: Floats) -> Ints:
    """Return the edges (E, 2) of the Delaunay triangulation; all pairs of few points."""
    if len(positions) < _FEW:
        return np.stack(np.triu_indices(len(positions), 1), axis=1)
    from scipy.spatial import Delaunay

    # joggled: clients on one line, or in one place, have a triangulation too
    corners = Delaunay(positions, qhull_options="QJ").simplices.astype(np.int64)
    return np.concatenate([corners[:, [0, 1]], corners[:, [0, 2]], corners[:, [1, 2]]])
