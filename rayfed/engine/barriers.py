"""Clocks of methods without a server: nodes wait for their neighbours alone.

T_i(k) is the time at which node i has its mixed model of step k. Node j finishes computing step
k + 1 at F_j = T_j(k) + c_j, and its message reaches i after l_ji seconds. A node that is away sits
the step out: its neighbours notice that at once, and it waits for them as if it mixed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rayfed.core.arrays import Bools, Floats, Ints
from rayfed.topology.base import Routes
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


def arcs(
    graph: Graph,
    links: tuple[Floats, Floats, Floats],
    message_bytes: float,
    routes: Routes | None = None,
) -> Arcs:
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
    routes : Routes, optional
        Latency of the links, which is added, and their bandwidth, which limits the rate too.
    """
    latency, down, up = links
    ends = graph.arcs
    sender, receiver = ends[np.lexsort(ends.T)].T
    sent, received = np.bincount(sender), np.bincount(receiver)
    rate = np.minimum(up[sender] / sent[sender], down[receiver] / received[receiver])
    seconds = latency[sender] + latency[receiver]
    if routes is not None:
        on_the_way, bandwidth = routes.of(sender, receiver)
        seconds, rate = seconds + on_the_way, np.minimum(rate, bandwidth)
    seconds = seconds + message_bytes * 8e-6 / rate
    return Arcs(sender, receiver, seconds)


def alone_s(
    links: tuple[Floats, Floats, Floats],
    sender: int,
    receiver: int,
    message_bytes: float,
    routes: Routes | None = None,
) -> float:
    """Return the seconds of a message that shares neither connection; arguments as for `arcs`."""
    latency, down, up = links
    seconds, rate = float(latency[sender] + latency[receiver]), min(up[sender], down[receiver])
    if routes is not None:
        on_the_way, bandwidth = routes.of(np.array([sender]), np.array([receiver]))
        seconds, rate = seconds + float(on_the_way[0]), min(rate, bandwidth[0])
    return seconds + message_bytes * 8e-6 / float(rate)


class StepEnd(NamedTuple):
    """The end of a step.

    Parameters
    ----------
    over_s : (N,) array of float
        T_i(k + 1).
    heard : (A,) array of bool
        Messages that were sent and mixed.
    missed : int
        Messages between active nodes that came too late.
    last : (N,) array of int
        The node whose message or notice comes last, after F_i; the least id at a tie, and -1 where
        none does. With a patience its receiver may have gone on before.
    """

    over_s: Floats
    heard: Bools
    missed: int
    last: Ints


def after_step(
    ready_s: Floats, done_s: Floats, arcs: Arcs, *, overlap: bool, active: Bools | None = None,
    patience_s: float = math.inf,
) -> StepEnd:  # fmt: skip
    """Return the end of a step.

    Parameters
    ----------
    ready_s : (N,) array of float
        T_i(k).
    done_s : (N,) array of float
        F_i(k + 1). For nodes that sit the step out, the time at which their neighbours notice.
    arcs : Arcs
        Of the graph of the step.
    overlap : bool
        Whether messages leave before the step, at T_j(k), and travel while nodes compute; they
        leave at F_j if not.
    active : (N,) array of bool, optional
        Nodes that send and mix; all if None. The others wait as if they mixed.
    patience_s : float
        Seconds after F_i for which an active node waits at most. A message that comes at that
        instant is in time.

    Examples
    --------
    Two linked nodes that compute 1 s and 3 s, with messages of half a second:

    >>> pair = Arcs(np.array([1, 0]), np.array([0, 1]), np.full(2, 0.5))
    >>> done_s = np.array([1.0, 3.0])
    >>> after_step(np.zeros(2), done_s, pair, overlap=False).over_s.tolist()
    [3.5, 3.0]
    >>> after_step(np.zeros(2), done_s, pair, overlap=True).over_s.tolist()
    [1.0, 3.0]
    >>> after_step(np.zeros(2), done_s, pair, overlap=False, patience_s=2.0).over_s.tolist()
    [3.0, 3.0]
    """
    active = np.ones(len(ready_s), np.bool_) if active is None else active
    sent_s = ready_s if overlap else done_s
    arrival_s = sent_s[arcs.sender] + arcs.seconds
    known_s = np.where(active[arcs.sender], arrival_s, done_s[arcs.sender])
    over_s = done_s.copy()
    np.maximum.at(over_s, arcs.receiver, known_s)
    binding = np.flatnonzero(known_s == over_s[arcs.receiver])[::-1]  # the least id comes last
    last = np.full(len(over_s), -1)
    last[arcs.receiver[binding]] = arcs.sender[binding]
    if arcs.latency is not None and len(over_s) > 1:
        notified_s, notifier = _notified(sent_s, done_s, active, arcs.latency)
        last = np.where(notified_s > over_s, notifier, last)
        over_s = np.maximum(over_s, notified_s)
    last = np.where(over_s > done_s, last, -1)
    over_s = np.where(active, np.minimum(over_s, done_s + patience_s), over_s)
    both = active[arcs.sender] & active[arcs.receiver]
    heard = both & (arrival_s <= over_s[arcs.receiver])
    return StepEnd(over_s, heard, int(both.sum() - heard.sum()), last)


def _notified(
    sent_s: Floats, done_s: Floats, active: Bools, latency: Floats
) -> tuple[Floats, Ints]:
    """Return when nodes (N,) know of all others whether these send to them, and the last one."""
    notes_s = np.where(active, sent_s + latency, -np.inf)
    *_, second, last = np.lexsort((-np.arange(len(notes_s)), notes_s))
    others = np.full(len(notes_s), last)
    others[last] = second
    note_s, leave_s = notes_s[others] + latency, np.where(active, -np.inf, done_s)
    left = int(np.argmax(leave_s))
    return np.maximum(note_s, leave_s[left]), np.where(leave_s[left] > note_s, left, others)
