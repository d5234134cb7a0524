"""Mixing matrices: the weights with which nodes of a graph average what their neighbours send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.topology.graph import Graph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MixingRule: TypeAlias = Literal["symmetric", "uniform", "lazy"]


def mixing(graph: Graph, mass: Floats, rule: MixingRule = "symmetric") -> csr_array[Any]:
    """Return the mixing matrix W of a graph; its rows add up to 1.

    Parameters
    ----------
    graph : Graph
        Of N nodes.
    mass : (N,) array of float
        Weight m_i > 0 of each node.
    rule : "symmetric", "uniform" or "lazy"
        With S_i the sum of the masses of i and its neighbours, w_ij = m_j / max(S_i, S_j) and the
        rest at i ("symmetric"): m'W = m', so that mixing keeps the mean by mass. With equal masses
        these are the weights of L. Xiao, S. Boyd, S.-J. Kim, "Distributed Average Consensus with
        Least-Mean-Square Deviation", 2007, section 3.1; on the complete graph it is the mean by
        mass. "uniform" is w_ij = m_j / S_i, which keeps the mean by m_i S_i in place of m_i; "lazy"
        is (I + W) / 2 of the symmetric one.

    Returns
    -------
    csr_array (N, N)
        Columns ascend in each row, the diagonal included, so that a product with it adds up in the
        order of ids.

    Examples
    --------
    >>> from rayfed.topology.graph import EdgeList
    >>> mixing(EdgeList(3, [[0, 1], [1, 2]]), np.ones(3)).toarray().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
    """
    from scipy.sparse import csr_array  # imported late, as everywhere

    ends = np.concatenate([graph.links, graph.links[:, ::-1]])
    i, j = np.concatenate([ends, np.arange(graph.count).repeat(2).reshape(-1, 2)]).T
    total = np.bincount(i, mass[j], graph.count)
    largest = total[i] if rule == "uniform" else np.maximum(total[i], total[j])
    weights = np.where(i == j, mass[i] / total[i] if rule == "uniform" else 0.0, mass[j] / largest)
    if rule != "uniform":
        weights[i == j] = 1 - np.bincount(i, np.where(i == j, 0.0, weights), graph.count)
    if rule == "lazy":
        weights = 0.5 * (weights + (i == j))
    order = np.lexsort((j, i))
    starts = np.searchsorted(i[order], np.arange(graph.count + 1))
    return csr_array((weights[order], j[order], starts), shape=(graph.count, graph.count))
