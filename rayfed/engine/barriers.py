"""Clocks of methods without a server: nodes wait for their neighbours alone.

T_i(k) is the time at which node i has its mixed model of step k. Node j finishes computing step
k + 1 at F_j = T_j(k) + c_j, and its message reaches i after l_ji seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.topology.graph import Graph


class Arcs(NamedTuple):
    """Messages of a step on a graph, by receiver, then by sender.

    Parameters
    ----------
    sender, receiver : (A,) array of int
    seconds : (A,) array of float
        Seconds that a message takes.
    latency : (N,) array of float, optional
        Latency of the nodes, if every node waits for all others: those that do not send to it
        notify it of that, without bytes.
    """

    sender: Ints
    receiver: Ints
    seconds: Floats
    latency: Floats | None = None


def arcs(graph: Graph, links: tuple[Floats, Floats, Floats], message_bytes: float) -> Arcs:
    """Return the arcs of a graph with the times of messages.

    The sender's upload is shared evenly by all that it sends, the receiver's download by all that
    it receives: l_ji = lat_j + lat_i + bytes / min(up_j / out_j, down_i / in_i) (the model of O.
    Marfoq, C. Xu, G. Neglia, R. Vidal, "Throughput-Optimal Topology Design for Cross-Silo Federated
    Learning", NeurIPS 2020, equation 3).

    Parameters
    ----------
    graph : Graph
        Of N nodes.
    links : tuple of three (N,) arrays
        Latency in seconds, and Mbit/s down and up; inf if unlimited.
    message_bytes : float
        Bytes of a message.
    """
    latency, down, up = links
    ends = graph.arcs
    sender, receiver = ends[np.lexsort(ends.T)].T
    sent, received = np.bincount(sender), np.bincount(receiver)
    rate = np.minimum(up[sender] / sent[sender], down[receiver] / received[receiver])
    seconds = latency[sender] + latency[receiver] + message_bytes * 8e-6 / rate
    return Arcs(sender, receiver, seconds)


def after_step(ready_s: Floats, compute_s: Floats, arcs: Arcs, *, overlap: bool) -> Floats:
    """Return T_i(k + 1), (N,).

    Parameters
    ----------
    ready_s : (N,) array of float
        T_i(k).
    compute_s : (N,) array of float
        c_i(k + 1).
    arcs : Arcs
        Of the graph of the step.
    overlap : bool
        Whether messages leave before the step, at T_j(k), and travel while nodes compute; they
        leave at F_j if not.

    Examples
    --------
    Two linked nodes that compute 1 s and 3 s, with messages of half a second:

    >>> pair = Arcs(np.array([1, 0]), np.array([0, 1]), np.full(2, 0.5))
    >>> after_step(np.zeros(2), np.array([1.0, 3.0]), pair, overlap=False).tolist()
    [3.5, 3.0]
    >>> after_step(np.zeros(2), np.array([1.0, 3.0]), pair, overlap=True).tolist()
    [1.0, 3.0]
    """
    done_s = ready_s + compute_s
    sent_s = ready_s if overlap else done_s
    after = done_s.copy()
    np.maximum.at(after, arcs.receiver, sent_s[arcs.sender] + arcs.seconds)
    if arcs.latency is not None and len(after) > 1:
        notified_s = sent_s + arcs.latency
        *_, second, last = np.argsort(notified_s)
        others_s = np.full(len(after), notified_s[last])
        others_s[last] = notified_s[second]
        after = np.maximum(after, others_s + arcs.latency)
    return after
