"""Mixing matrices: weights of the messages of neighbours on a graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats
from rayfed.core.machine import caches
from rayfed.topology.graph import Graph

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_NARROW = 64  # columns; shorter pieces of rows are not read at the speed of the memory
MixingRule: TypeAlias = Literal["symmetric", "uniform", "lazy", "push"]

MOST = 20_000
"""Largest number of products with a mixing matrix of more than `_DENSE` nodes, for `evenness`."""
_DENSE = 128  # nodes up to which squares of the matrix are faster than so many products
_SETTLED = 1e-12


def mixing(graph: Graph, mass: Floats, rule: MixingRule = "symmetric") -> csr_array[Any]:
    """Return the mixing matrix W of a graph: w_ij is the weight of the message of j at i.

    Parameters
    ----------
    graph : Graph
        Of N nodes.
    mass : (N,) array of float
        Weight m_i > 0 of each node.
    rule : "symmetric", "uniform", "lazy" or "push"
        With S_i the sum of the masses of i and its neighbours, w_ij = m_j / max(S_i, S_j) and the
        rest at i ("symmetric"): m'W = m', so that mixing keeps the mean by mass. With equal masses
        these are the Metropolis weights of L. Xiao, S. Boyd, S. Lall, "A Scheme for Robust
        Distributed Sensor Fusion Based on Average Consensus", IPSN 2005; on the complete graph it
        is the mean by mass. "uniform" is w_ij = m_j / S_i, which keeps the mean by m_i S_i in place
        of m_i; "lazy" is (I + W) / 2 of the symmetric one. All their rows add up to 1.
        With arcs, S_i is a sum over the senders to i, and "symmetric" and "lazy" do not apply.
        "push" is w_ij = m_j / (m_i (1 + d_j)) with d_j the number of receivers of j, which j knows
        alone: m'W = m', but rows do not add up to 1. With equal masses columns do: these are the
        weights of push-sum, D. Kempe, A. Dobra, J. Gehrke, "Gossip-Based Computation of Aggregate
        Information", FOCS 2003.

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

    j, i = np.concatenate([graph.arcs, np.arange(graph.count).repeat(2).reshape(-1, 2)]).T
    if rule == "push":
        weights = mass[j] / (mass[i] * np.bincount(j)[j])
    else:
        total = np.bincount(i, mass[j], graph.count)
        largest = total[i] if rule == "uniform" else np.maximum(total[i], total[j])
        weights = mass[j] / largest
    if rule in ("symmetric", "lazy"):
        others = np.where(i == j, 0.0, weights)
        weights[i == j] = 1 - np.bincount(i, others, graph.count)
    if rule == "lazy":
        weights = 0.5 * (weights + (i == j))
    order = np.lexsort((j, i))
    starts = np.searchsorted(i[order], np.arange(graph.count + 1))
    return csr_array((weights[order], j[order], starts), shape=(graph.count, graph.count))


def with_missing(w: csr_array[Any], heard: Bools, rule: MixingRule) -> csr_array[Any]:
    """Return a mixing matrix (N, N) for messages some of which did not come.

    Under "symmetric" and "lazy" the weight of a missing message stays at home: it is added to that
    of the node's own. If messages are missing in both directions of a link, the mean by mass stays
    as it is. Under "uniform" the others share it, so that a node takes the mean of what came.

    Parameters
    ----------
    w : csr_array (N, N)
        The matrix of all messages, made by `mixing`.
    heard : (A,) array of bool
        Messages that came, by receiver, then by sender.
    rule : "symmetric", "uniform" or "lazy"
        The rule of `w`.
    """
    from scipy.sparse import csr_array

    count, data = w.shape[0], w.data.copy()
    rows = np.arange(count).repeat(np.diff(w.indptr))
    came, own = np.ones(w.nnz, np.bool_), rows == w.indices
    came[~own] = heard
    if rule == "uniform":
        data /= np.bincount(rows, data * came, count)[rows]
    else:
        data[own] = 1 - np.bincount(rows, data * (came & ~own), count)
    starts = np.searchsorted(rows[came], np.arange(count + 1))
    return csr_array((data[came], w.indices[came], starts), shape=w.shape)


def product(
    w: csr_array[Any], rows: Array, others: Array | None = None, out: Array | None = None
) -> Array:
    """Return W times rows (N,) or (N, p), every number added up in the order of the row of W.

    Long rows are multiplied in pieces of columns that stay in the cache, since each row is read
    once for every link.

    Parameters
    ----------
    w : csr_array (K, N) or (N, N)
    rows : (N, ...) array
        With `others`, only the first of them.
    others : array, optional
        The other rows.
    out : (K, ...) array, optional
        What the product is written to. It may be `rows` if there are K of them.
    """
    width = max(_NARROW, 2 * caches().own // max(1, w.shape[1] * rows.itemsize))
    out = np.empty((w.shape[0], *rows.shape[1:]), rows.dtype) if out is None else out
    parts = [rows] if others is None else [rows, others]
    for start in range(0, rows.shape[1] if rows.ndim > 1 else 1, width):
        piece = (slice(None), slice(start, start + width))[: rows.ndim]
        out[piece] = w @ np.concatenate([part[piece] for part in parts])
    return out


def evenness(w: csr_array[Any], mass: Floats) -> float:
    """Return how evenly the models of nodes enter the mean if mixing is repeated.

    The influence r_i of node i is its weight in the mean by mass after many steps with W. With
    shares q_i of the mass, q'W^k converges to the left eigenvector of W for 1 where there is one.
    The evenness is 1 / sum_i r_i^2 / q_i, the effective sample size of L. Kish, "Survey Sampling",
    1965, as a share of the nodes: 1 if W preserves the mean by mass, and q_i if node i alone has
    influence.

    Parameters
    ----------
    w : csr_array (N, N)
        Rows that add up to 1.
    mass : (N,) array of float

    Returns
    -------
    float
        NaN if q'W^k has not settled after `MOST` products.

    Examples
    --------
    >>> from rayfed.topology.graph import EdgeList
    >>> star = EdgeList(4, [[0, 1], [0, 2], [0, 3]])
    >>> round(evenness(mixing(star, np.ones(4), "uniform"), np.ones(4)), 3)
    0.893
    """
    share = mass / mass.sum()
    influence = _repeated(w, share)
    if influence is None:
        return math.nan
    held = share > 0
    return float(1 / np.sum(influence[held] ** 2 / share[held]))


def _repeated(w: csr_array[Any], share: Floats) -> Floats | None:
    """Return the limit (N,) of q'W^k for shares q (N,); None if it has not settled."""
    close = _SETTLED / len(share)
    if len(share) > _DENSE:
        backwards, influence = w.T.tocsr(), share
        for _ in range(MOST):
            before, influence = influence, np.asarray(backwards @ influence)
            if np.allclose(influence, before, rtol=0, atol=close):
                return influence
        return None
    from scipy.sparse import diags_array  # imported late, as everywhere here

    power, influence = w, share  # sparse: bits of dense products depend on the processor
    for _ in range(64):  # W^(2^k); rows are scaled, since errors of their sums would double
        before, influence = influence, np.asarray(power.T @ share)
        if np.allclose(influence, before, rtol=0, atol=close):
            return influence
        power = power @ power
        power = diags_array(1 / power.sum(axis=1)) @ power
    return None
