"""HierFAVG: edge servers average their own clients often, and a cloud server the edges seldom.

Liu, Zhang, Song, Letaief, "Client-Edge-Cloud Hierarchical Federated Learning", ICC 2020,
https://arxiv.org/abs/1905.06641, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, MinLen

from rayfed.algorithms.base import Algorithm, TimedRound
from rayfed.algorithms.parts import parts
from rayfed.core.arrays import Array, Ints
from rayfed.core.columns import Column
from rayfed.core.needs import (
    EXACT_DOWNLOADS,
    MEAN,
    MODEL,
    READABLE,
    SAME_CLIENTS,
    SOLVER,
    TIMES,
    Terms,
)
from rayfed.messages import Ask, State, Upload, Wait

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective

_BITS = 8e-6  # megabits in a byte


@dataclass(frozen=True, kw_only=True)
class HierFAVG(Algorithm):
    """Hierarchical federated averaging with edge servers (Liu et al. 2020).

    Each edge server l starts from the cloud's model x (p,). In an edge round its clients take their
    local steps (``local: {steps}``, the paper's kappa_1) from x_l (p,), and x_l moves to the mean
    of their models. After `edge_rounds` of them (kappa_2) x is the mean of the x_l.

    Parameters
    ----------
    edges : int, list of int or "groups"
        The number of edge servers, each with a block of consecutive ids, equally large but for a
        remainder, or one a client where there are fewer clients; or the edge server of each client,
        from 0; or one for each of the groups of ``clients``, and one for the other clients.
    edge_rounds : int
        Edge rounds in a round of the cloud, the paper's kappa_2.
    cloud_down_mbps, cloud_up_mbps : float, optional
        Bandwidth between the cloud and each edge server, in megabits per second; transfers take no
        time if None.
    cloud_latency_s : float
        Seconds added to every such transfer, in each direction.

    Notes
    -----
    An edge server waits for its own clients alone, and the cloud for all edge servers. Clients talk
    to their edge servers over their own connections; ``bytes_down`` and ``bytes_up`` are those of
    clients. ``participation`` holds for edge rounds: a deadline ends an edge round, and the cohort
    of a round is asked again in each of its edge rounds. An edge round without any reply, of all
    edge servers, leaves the model of the round as it was.

    Deviations from the paper: with partial participation an edge counts in x for the weight of the
    replies that it has used in the round, which with all clients is their size.

    Examples
    --------
    Client 0 belongs to edge 0, clients 1 and 2 to edge 1:

    >>> method = HierFAVG(edges=(0, 1, 1))
    >>> method.edge_of(np.array([0, 2]))
    array([0, 1])
    """

    name: ClassVar[str] = "hierfavg"
    needs: ClassVar[Terms] = frozenset(
        {EXACT_DOWNLOADS, MEAN, READABLE, SAME_CLIENTS, SOLVER, TIMES}
    )
    gives: ClassVar[Terms] = frozenset({MODEL})
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(
            "cloud_bytes_down", "sent by the cloud to edge servers", "B",
            about="Bytes that all edge servers download from the cloud.",
        ),
        Column(
            "cloud_bytes_up", "sent by edge servers to the cloud", "B",
            about="Bytes that edge servers with replies upload to the cloud.",
        ),
    )  # fmt: skip

    edges: (
        Annotated[int, Ge(1)]
        | Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1)]
        | Literal["groups"]
    ) = 2
    edge_rounds: Annotated[int, Ge(1)] = 2
    cloud_down_mbps: Annotated[float, Gt(0)] | None = None
    cloud_up_mbps: Annotated[float, Gt(0)] | None = None
    cloud_latency_s: Annotated[float, Ge(0)] = 0.0

    def bound(self, shards: Shards, population: Population, objective: Objective) -> HierFAVG:
        """Return the algorithm with the edge server of each client.

        Raises
        ------
        ScenarioError
            If edge servers are listed, but not one for each client, or one of them has no clients.
        """
        ids = np.arange(population.count)
        if self.edges == "groups":
            _, places = np.unique(population.group_of(ids), return_inverse=True)
            return replace(self, edges=tuple(places.tolist()))
        return replace(self, edges=parts(self.edges, ids, "edge"))

    @cached_property
    def _table(self) -> Ints:
        return np.array(self.edges if isinstance(self.edges, tuple) else (0,), dtype=np.int64)

    def edge_of(self, ids: Ints) -> Ints:
        """Return the edge server (K,) of clients, from 0."""
        return self._table[ids]

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from the edge's model x (K, p); upload x - x_i (K, p)."""
        local = clients.solve(x)
        return Upload({"delta": x - local.x}, loss=local.loss)

    def round(self, state: State) -> TimedRound:
        """Cloud and edge servers: edge rounds, then x <- mean of x_l."""
        x = state["x"]
        count = int(self._table.max()) + 1
        models, weights = np.tile(x, (count, 1)), np.zeros(count)
        yield Wait(self._seconds(x, self.cloud_down_mbps))
        for _ in range(self.edge_rounds):
            send, up = {"x": models}, {"delta": x.size}
            reply = yield Ask("train", send=send, up=up, edge_of=self.edge_of)
            edges, models = reply.groups, models.copy()
            models[edges.labels] -= edges.mean["delta"]
            weights[edges.labels] += edges.weights
        yield Wait(self._seconds(x, self.cloud_up_mbps))
        shares = (weights / weights.sum()).astype(x.dtype)
        return {"x": (shares[:, None] * models).sum(axis=0)}, {
            "cloud_bytes_down": count * x.nbytes,
            "cloud_bytes_up": int(np.count_nonzero(weights)) * x.nbytes,
        }

    def _seconds(self, x: Array, mbps: float | None) -> float:
        """Return the seconds that x (p,) takes between the cloud and an edge server."""
        return self.cloud_latency_s + (0.0 if mbps is None else _BITS * x.nbytes / mbps)
