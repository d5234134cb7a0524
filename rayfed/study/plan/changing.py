"""The data of a study whose rows change over rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.names import numbered
from rayfed.datasets.drift import Drift
from rayfed.datasets.drifting import DriftingShards
from rayfed.population import Population

if TYPE_CHECKING:
    from rayfed.study.plan.views import Views


def drifting(views: Views, drift: Drift, population: Population) -> Views:
    """Return the data of one seed with rows that change over rounds.

    Raises
    ------
    ScenarioError
        If the rows cannot drift so, the clients do not exist, or the server has test rows of its
        own.
    """
    if views.server is not None:
        text = "the server's own test rows belong to no client and would not drift"
        raise ScenarioError("problem.test", f"{text}; give the fraction that clients hold out")
    try:
        who = _who(drift, population)
        shards = DriftingShards.of(views.shards, drift, population.seed, who)
    except ScenarioError as error:
        raise error.under("drift") from None
    return replace(views, shards=shards)


def _who(drift: Drift, population: Population) -> Ints | float:
    """Return the ids of the clients that drift, ascending, or the share of them."""
    if isinstance(drift.clients, tuple):
        try:
            ids = np.unique(np.array(numbered(drift.clients, population.names), dtype=np.int64))
        except ScenarioError as error:
            raise error.under("clients") from None
        if len(ids) < len(drift.clients):
            raise ScenarioError("clients", "lists a client twice; list each once")
        return ids
    if not isinstance(drift.clients, str):
        return drift.clients
    names = [group.name for group in population.groups]
    if drift.clients not in names:
        text = unknown("group", drift.clients, names) if names else "there are no client groups"
        raise ScenarioError("clients", f"{text}; give a share, ids or one of clients.groups")
    groups = population.group_of(np.arange(population.count))
    return np.flatnonzero(groups == names.index(drift.clients) + 1)
