"""What a remembered update counts for in a later round, when local work changes over rounds.

FedVARP and ClusterFedVARP (Jhunjhunwala et al. 2022) remember x - x_i of earlier rounds. Its length
goes with the local learning rate and the number of local steps of that round, so what is remembered
is kept for the learning rate of round 1 and stretched to the round that uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rayfed.core.errors import ScenarioError

if TYPE_CHECKING:
    from rayfed.algorithms.base import Algorithm
    from rayfed.clients import Clients
    from rayfed.clients.solvers import Solver
    from rayfed.messages import Reply


def scale(local: Solver, round: int) -> float:
    """Return the local learning rate of a round, from 1, in units of the first round's.

    Server and clients take it from the algorithm's own solver, so that both mean the same memory;
    groups of clients may have other rates.
    """
    return local.rate(round) / local.rate(1)


def lengths(clients: Clients) -> npt.NDArray[np.float64]:
    """Return how many times its mean number of local steps each client (K,) runs in this round.

    It is 1 where the steps are not drawn, and 1 on average where they are. Steps that follow the
    clients' speed or the loss have no mean that holds in every round, and count as 1.
    """
    mean = clients.solver.mean_budget(clients.sizes)
    return np.ones(len(clients.ids)) if mean is None else clients.steps / mean


def drawn(local: Solver) -> bool:
    """Return whether the number of local steps is drawn anew in every round."""
    return local.mean_budget(np.ones(1, dtype=np.int64)) is not None


def by_group(reply: Reply, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sums (G,) of a number of every participant (K,) over the groups of a reply."""
    labels = reply.groups.labels
    place = np.searchsorted(labels, reply.each["group"])
    return np.bincount(place, counts, len(labels)).astype(np.float64)


def refuse_sizes(algorithm: Algorithm) -> None:
    """Refuse weights by size, which the memory of a mean over clients cannot follow.

    Raises
    ------
    ScenarioError
        If they are asked for.
    """
    if algorithm.weights == "size":
        what = f"found size, but '{algorithm.name}' remembers a mean over clients"
        raise ScenarioError("weights", f"{what}; leave it out or give uniform")
