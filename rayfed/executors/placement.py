"""How many client actors a placement takes."""

from __future__ import annotations


def actor_count(clients: int, clients_per_actor: int | str, cpus: int) -> int:
    """Return the number of client actors.

    Parameters
    ----------
    clients : int
        Number N of clients.
    clients_per_actor : int or "auto"
        How many clients an actor hosts; "auto" takes one actor to a CPU.
    cpus : int
        CPUs of the cluster.

    Examples
    --------
    >>> actor_count(20, 3, 2), actor_count(20, "auto", 2)
    (7, 2)
    """
    if isinstance(clients_per_actor, int):
        return -(-clients // clients_per_actor)
    return min(cpus, clients)
