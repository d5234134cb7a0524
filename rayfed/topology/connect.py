"""Connectivity: the components of a graph, and links that connect them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.rng import Key
from rayfed.topology.graph import Graph, tree_of

_FEW = 4  # points that a triangulation of the plane needs


@dataclass(frozen=True)
class Components:
    """The connected components of a graph.

    Parameters
    ----------
    count : int
        Number of components.
    labels : (N,) array of int
        Component of each client; components are ordered by their lowest id.
    """

    count: int
    labels: Ints

    def smallest(self) -> Ints:
        """Return the clients of the smallest component, ascending."""
        return np.flatnonzero(self.labels == np.bincount(self.labels).argmin())

    def largest(self) -> Ints:
        """Return the clients of the largest component, ascending."""
        return np.flatnonzero(self.labels == np.bincount(self.labels).argmax())


def components_of(graph: Graph) -> Components:
    """Return the connected components of a graph."""
    labels = graph.components()
    count = int(labels.max()) + 1
    lowest = np.empty(count, dtype=np.int64)
    lowest[labels[::-1]] = np.arange(graph.count)[::-1]  # later assignments overwrite earlier ones
    return Components(count, np.argsort(np.argsort(lowest))[labels])


def connected(graph: Graph, components: Components, key: Key, epoch: int) -> Graph:
    """Return the graph with the fewest additional links that make it connected.

    With positions these are the shortest links (a minimum spanning tree of the components).
    Without, a random client of each smaller component is linked with a random one of the largest.

    Parameters
    ----------
    graph : Graph
    components : Components
        Components of the graph.
    key, epoch
        Key and epoch of the draws.
    """
    if graph.positions is None:
        return graph.plus(_drawn(components, key, epoch))
    return graph.plus(_shortest(graph.positions, components))


def _drawn(components: Components, key: Key, epoch: int) -> Ints:
    main = components.largest()
    others = [c for c in range(components.count) if c != components.labels[main[0]]]
    partner = key.integers(others, np.full(len(others), len(main)), 1, round=epoch)[:, 0]
    links = []
    for part, index in zip(others, partner.tolist(), strict=True):
        members = np.flatnonzero(components.labels == part)
        member = key.integers([part], [len(members)], 1, round=epoch, ask=1)[0, 0]
        links.append((members[member], main[index]))
    return np.array(links, dtype=np.int64)


def _shortest(positions: Floats, components: Components) -> Ints:
    """Return the links of a minimum spanning tree of the components; ties go to the first link."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    links = _candidates(positions, components)
    lengths = np.hypot(*(positions[links[:, 0]] - positions[links[:, 1]]).T)
    links = links[np.lexsort((links[:, 1], links[:, 0], lengths))]
    one, other = np.sort(components.labels[links], axis=1).T
    first = np.unique(one * components.count + other, return_index=True)[1]  # of each pair
    size = (components.count, components.count)
    ends = one[first].astype(np.int32), other[first].astype(np.int32)  # as SciPy 1.15 takes them
    tree = minimum_spanning_tree(coo_array((1.0 + first, ends), shape=size))
    return links[tree.data.astype(np.int64) - 1]


def _candidates(positions: Floats, components: Components) -> Ints:
    """Return links (E, 2) between components that include a minimum spanning tree.

    A link of the tree is the shortest that leaves some set of components; choose the set without
    the largest one. If the link ends in the largest, it is the shortest from its start. If not, it
    is the shortest between two sets of clients outside the largest, hence an edge of their Delaunay
    triangulation: the circle around it is empty, since a client within would make a shorter link.
    """
    main = components.largest()
    rest = np.flatnonzero(components.labels != components.labels[main[0]])
    _, nearest = tree_of(positions[main]).query(positions[rest])
    links = rest[_triangulated(positions[rest])]
    links = links[components.labels[links[:, 0]] != components.labels[links[:, 1]]]
    return np.concatenate([np.stack([rest, main[nearest]], axis=1), links])


def _triangulated(positions: Floats) -> Ints:
    """Return the edges (E, 2) of the Delaunay triangulation; all pairs of fewer than 4 points."""
    if len(positions) < _FEW:
        return np.stack(np.triu_indices(len(positions), 1), axis=1)
    from scipy.spatial import Delaunay

    # joggled, so that collinear or coinciding clients have a triangulation
    corners = Delaunay(positions, qhull_options="QJ").simplices.astype(np.int64)
    return np.concatenate([corners[:, [0, 1]], corners[:, [0, 2]], corners[:, [1, 2]]])
