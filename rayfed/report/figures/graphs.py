"""Graphs of clients: places of nodes, and lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.report.read.outputs import Walked


def places(recorded: Walked, graphs: Ints) -> tuple[list[list[float]], list[list[float]]]:
    """Return the places of clients on each graph in metres, or so that links have one length."""
    if recorded.places.size:
        where = recorded.places[graphs].round(1)
    else:
        where = _laid_out(len(recorded.clients), recorded.links)[None].round(4)
    return where[..., 0].tolist(), where[..., 1].tolist()


def _laid_out(count: int, links: Floats) -> Floats:
    """Return places (K, 2) by Kamada and Kawai (1989), of all links that there ever were."""
    import networkx as nx  # imported late: needed only without places

    graph = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(links.tolist())
    steps = dict(nx.all_pairs_shortest_path_length(graph))
    far = 1 + max(max(row.values()) for row in steps.values())  # between parts
    lengths = {i: {j: steps[i].get(j, far) for j in range(count)} for i in range(count)}
    places = nx.kamada_kawai_layout(graph, dist=lengths)
    return np.array([places[k] for k in range(count)])


def pairs(x: Sequence[float], y: Sequence[float], ends: Sequence[int]) -> dict[str, Any]:
    """Return lines between pairs of clients, given one after the other."""
    both = list(zip(ends[::2], ends[1::2], strict=True))
    return {
        axis: [value for i, j in both for value in (at[i], at[j], None)]
        for axis, at in (("x", x), ("y", y))
    }
