"""Layout: the hosts of clients, their nodes, and the parts of a request for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Ints
from rayfed.core.classes import SLACK, balanced, busiest, classes
from rayfed.core.tree import EVERY, Class

OUTSIDE = -1
"""The host of clients that live at none of a layout."""


@dataclass(frozen=True)
class HostRequest:
    """Part of a request for one host: the host, the indices of its clients, and its request."""

    host: int
    index: Ints
    request: Request


@dataclass(frozen=True)
class Layout:
    """Which host has which client.

    Parameters
    ----------
    owned : sequence of sequences of (residue, modulus)
        The residue classes of each host.
    sizes : sequence of int
        How many processes compute at each host.
    within : sequence of (residue, modulus)
        The classes of all hosts together.
    """

    owned: Sequence[Sequence[Class]]
    sizes: Sequence[int]
    within: Sequence[Class] = EVERY

    @classmethod
    def even(cls, clients: int, sizes: Sequence[int], within: Sequence[Class] = EVERY) -> Layout:
        """Return a layout with about equally many of the clients 0 to N-1 at each process."""
        return cls(classes(clients, sizes, within), sizes, within)

    @cached_property
    def _owner(self) -> tuple[int, Ints]:
        """The finest modulus, and the host of each residue under it."""
        fine = max(modulus for owned in self.owned for _, modulus in owned)
        table = np.full(fine, OUTSIDE, dtype=np.int64)
        for host, owned in enumerate(self.owned):
            for residue, modulus in owned:
                table[residue::modulus] = host
        return fine, table

    def hosts(self, ids: Ints) -> Ints:
        """Return the host of each client, `OUTSIDE` for those of other classes."""
        fine, table = self._owner
        return table[ids % fine]

    def split(self, request: Request, *, movable: bool) -> list[HostRequest]:
        """Return the parts of a request, by host.

        Parameters
        ----------
        request : Request
            If it names classes, it is dealt within these.
        movable : bool
            Whether clients may be asked anywhere, since they keep no state there. Then they are
            shared out evenly if hosts would be loaded unequally.
        """
        ids, layout, dealt = request.ids, self, request.classes is not None
        if request.classes is not None:
            layout = self._dealt(ids, request.classes)
        hosts = layout.hosts(ids)
        loads = self._loads(hosts)
        movable &= not dealt and len(ids) * SLACK > sum(self.sizes)
        if movable and busiest(loads, self.sizes) > SLACK:
            layout, dealt = self._dealt(ids, self.within), True
            hosts = layout.hosts(ids)
            loads = self._loads(hosts)
        parts = []
        for host in [host for host, load in enumerate(loads) if load]:
            index = np.flatnonzero(hosts == host)
            owned = list(layout.owned[host]) if dealt else None
            parts.append(HostRequest(host, index, request.part(index, owned)))
        return parts

    def _loads(self, hosts: Ints) -> list[int]:
        """Count the clients of each host, given the host of each client."""
        counts: list[int] = np.bincount(hosts, minlength=len(self.sizes)).tolist()
        return counts

    def _dealt(self, ids: Ints, within: Sequence[Class]) -> Layout:
        return Layout(balanced(ids, self.sizes, within), self.sizes, within)


def needed(part: Request, send: Mapping[str, Array]) -> tuple[Request, Mapping[str, Array]]:
    """Restrict the downloads of a request to those of one host's clients.

    Parameters
    ----------
    part : Request
        For the clients of one host.
    send : mapping of str to array
        Downloads of the clients of all hosts; stacks, if the request names their rows.

    Examples
    --------
    >>> none = np.zeros(2, dtype=np.int64)
    >>> part = Request("algorithm", "train", {}, np.array([4, 7]), np.ones(2), none, none, 1, 0,
    ...     rows=np.array([0, 2]))
    >>> part, send = needed(part, {"x": np.array([[0.0], [1.0], [2.0]])})
    >>> part.rows.tolist(), send["x"].tolist()
    ([0, 1], [[0.0], [2.0]])
    """
    if part.rows is None:
        return part, send
    versions, rows = np.unique(part.rows, return_inverse=True)
    return replace(part, rows=rows), {name: stack[versions] for name, stack in send.items()}


def host_count(clients: int, clients_per_actor: int | str, cpus: int) -> int:
    """Return the number of processes that host the clients of a run.

    Parameters
    ----------
    clients : int
        Number N of clients.
    clients_per_actor : int or "auto"
        How many clients each of them hosts; "auto" takes one process to a CPU.
    cpus : int
        CPUs of the cluster.

    Examples
    --------
    >>> host_count(20, 3, 2), host_count(20, "auto", 2)
    (7, 2)
    """
    if isinstance(clients_per_actor, int):
        return -(-clients // clients_per_actor)
    return min(cpus, clients)


def actors_by_node(
    count: int, cpus: Mapping[str, float], here: Mapping[str, int], most: Mapping[str, int]
) -> dict[str, int]:
    """Return the number of client actors to start on each node that has none yet.

    Parameters
    ----------
    count : int
        Actors that are wanted in all.
    cpus : mapping of str to float
        CPUs of each node.
    here : mapping of str to int
        Actors that nodes have already; these get no more.
    most : mapping of str to int
        Actors that a node can take at most, where there is such a limit.

    Examples
    --------
    Actors are shared out as the CPUs are; of those that left with a node, a new one gets its share:

    >>> actors_by_node(6, {"a": 4, "b": 2}, {}, {})
    {'a': 4, 'b': 2}
    >>> actors_by_node(6, {"a": 4, "c": 4}, {"a": 4}, {})
    {'c': 2}
    """
    new = {node: n for node, n in cpus.items() if n > 0 and node not in here}
    capacity = {node: most.get(node, count) for node in new}
    if here:  # not all that others left, unless that is its share
        total = sum(cpus.values())
        capacity = {
            node: min(n, math.ceil(count * new[node] / total)) for node, n in capacity.items()
        }
    placed = dict.fromkeys(new, 0)
    for _ in range(count - sum(here.values())):
        able = [node for node in new if placed[node] < capacity[node]]
        if not able:
            break
        placed[max(able, key=lambda node: new[node] / (placed[node] + 1))] += 1
    return {node: n for node, n in placed.items() if n}
