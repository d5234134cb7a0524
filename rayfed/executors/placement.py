"""Placement: how many processes host the clients, and on which nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping


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
    """Return how many client actors to start on each node that has none yet.

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
