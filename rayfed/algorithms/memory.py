"""What a remembered update counts for in a later round, when local work changes over rounds.

FedVARP and ClusterFedVARP (Jhunjhunwala et al. 2022) remember x - x_i of earlier rounds. Its length
goes with the local learning rate and the number of local steps of that round, so what is remembered
is kept for the learning rate of round 1 and stretched to the round that uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError

if TYPE_CHECKING:
    from rayfed.algorithms.base import Algorithm
    from rayfed.clients import Clients
    from rayfed.clients.solvers import Solver
    from rayfed.messages import Reply

Weighting: TypeAlias = Literal["uniform", "size", "draws"]
"""Clients count alike, by size, or by size because they are drawn so (and alike in a cohort)."""


def scale(local: Solver, round: int) -> float:
    """Return the local learning rate of a round, from 1, in units of the first round's.

    Server and clients take it from the algorithm's own solver, so that both mean the same memory;
    groups of clients may have other rates.
    """
    return local.rate(round) / local.rate(1)


def lengths(clients: Clients) -> Floats:
    """Return how many times its mean number of local steps each client (K,) runs in this round.

    It is 1 where the steps are not drawn, and 1 on average where they are. Steps that follow the
    clients' speed or the loss have no mean that holds in every round, and count as 1.
    """
    mean = clients.solver.mean_budget(clients.sizes)
    return np.ones(len(clients.ids)) if mean is None else clients.steps / mean


def drawn(local: Solver) -> bool:
    """Return whether the number of local steps is drawn anew in every round."""
    return local.mean_budget(np.ones(1, dtype=np.int64)) is not None


def by_group(reply: Reply, counts: Floats) -> Floats:
    """Return the sums (G,) of a number of every participant (K,) over the groups of a reply."""
    labels = reply.groups.labels
    place = np.searchsorted(labels, reply.each["group"])
    return np.bincount(place, counts, len(labels)).astype(np.float64)


def weighting(weights: Literal["size", "uniform"], draws_by_size: bool) -> Weighting:
    """Return how clients count in a memory, as they count in the step in the mean.

    Raises
    ------
    ScenarioError
        If large clients are drawn more often and weigh more: then they count twice.
    """
    if not draws_by_size:
        return weights
    if weights == "size":
        text = "found size, but the selection already draws large clients more often"
        raise ScenarioError("weights", f"{text}; leave it out or give uniform")
    return "draws"


def shares(clients: Clients) -> Floats:
    """Return the training rows of clients (K,), or what the data counts, in units of the mean."""
    return clients.objective.shares(clients.mass)


def refuse_sizes(algorithm: Algorithm) -> None:
    """Refuse weights by size, which the plain means of a method cannot follow.

    Raises
    ------
    ScenarioError
        If they are asked for.
    """
    if algorithm.weights == "size":
        what = f"found size, but '{algorithm.name}' takes plain means over clients"
        raise ScenarioError("weights", f"{what}; leave it out or give uniform")
