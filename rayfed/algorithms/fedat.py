"""FedAT: tiers of equally fast clients train in rounds, each tier at its own pace.

Chai, Chen, Anwar, Zhao, Cheng, Rangwala, "FedAT: A High-Performance and Communication-Efficient
Federated Learning System with Asynchronous Tiers", SC 2021, https://arxiv.org/abs/2010.05958. The
update is as our notes of the paper have it; no published code was compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, MinLen

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.parts import parts
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import Column
from rayfed.core.needs import AVERAGED, Terms
from rayfed.messages import Ask, Diagnostics, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective


@dataclass(frozen=True, kw_only=True)
class FedAT(Asynchronous):
    """Federated learning with asynchronous tiers (Chai et al. 2021).

    Tier 1 of M holds the fastest clients, tier M the slowest. Within a tier training is
    synchronous: its clients start together from the newest model x (p,), and when all are done the
    model of tier m becomes w_m = x_start - mean_i Delta_i (p,), as in FedAvg. Then T_m grows by
    one, and x <- sum_m (T_{M+1-m} / T) w_m with T = sum_m T_m: the faster a tier, the more updates
    it makes, and the less each counts.

    Parameters
    ----------
    tiers : int or list of int
        The number M of tiers, equally large but for a remainder, or one tier a client where there
        are fewer clients; or the tier of each client, from 0, the fastest.

    Notes
    -----
    Clients are ordered by the mean seconds of their local steps, slowdown of stragglers included;
    equally fast ones by id. The places that `concurrency` gives are divided among the tiers, at
    least one each. ``local.mu`` is the paper's proximal term.

    The slowest tier has no update at first, so the fastest tier's model has the weight 0 until
    then, by the formula: x stays as it was.

    Deviations from the paper: means within a tier are unweighted unless ``weights: size``, as
    for all asynchronous methods here. Tiers are made from the mean speeds, not from measured
    latencies, and stay. Nothing is compressed.

    Examples
    --------
    The second of two tiers, whose clients started from 8, moves by 2; the first has made three
    updates:

    >>> import numpy as np
    >>> from rayfed.testing import reply
    >>> method = FedAT(tiers=(0, 0, 1, 1))
    >>> state = {"tiers": np.array([[4.0], [0.0]]), "updates": np.array([3, 0])}
    >>> late = reply({"delta": [2.0]}, ids=[2, 3], sent={"x": np.array([8.0])})
    >>> after, _ = method.arrival(state, late)
    >>> after["tiers"].ravel(), after["x"]  # 1/4 of 4 and 3/4 of 6
    (array([4., 6.]), array([5.5]))
    """

    name: ClassVar[str] = "fedat"
    gives: ClassVar[Terms] = Asynchronous.gives | {AVERAGED}
    redispatch: ClassVar[Literal["arrival", "update"]] = "update"
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column("tier", about="The tier that made the update, from 0, the fastest."),
    )

    tiers: Annotated[int, Ge(1)] | Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1)] = 3

    def bound(self, shards: Shards, population: Population, objective: Objective) -> FedAT:
        """Return the algorithm with the tier of each client.

        Raises
        ------
        ScenarioError
            If tiers are listed, but not one for each client, or one of them is empty.
        """
        pace = population.mean_seconds_per_step(np.arange(population.count))
        return replace(self, tiers=parts(self.tiers, np.argsort(pace, kind="stable"), "tier"))

    @cached_property
    def _table(self) -> Ints:
        return np.array(self.tiers, dtype=np.int64, ndmin=1)

    @property
    def tier_count(self) -> int:
        """The number M of tiers."""
        return self.tiers if isinstance(self.tiers, int) else int(self._table.max()) + 1

    def tier_of(self, ids: Ints) -> Ints:
        """Return the tier (K,) of clients."""
        return np.zeros(len(ids), np.int64) if isinstance(self.tiers, int) else self._table[ids]

    @property
    def takes(self) -> int:
        """The largest number of clients of a tier that train at once, if it has so many."""
        return -(-(self.concurrency or 1) // self.tier_count)

    def init(self, x0: Array) -> State:
        """Return x, the models (M, p) of the tiers, and their numbers of updates (M,)."""
        updates = np.zeros(self.tier_count, dtype=np.int64)
        return {"x": x0, "tiers": np.tile(x0, (self.tier_count, 1)), "updates": updates}

    def ask(self, state: State) -> Ask:
        """Send x (p,); get Delta_i (p,)."""
        return Ask("train", send={"x": state["x"]}, up={"delta": state["x"].size})

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); upload Delta (K, p)."""
        local = clients.solve(x)
        return Upload({"delta": x - local.x}, loss=local.loss)

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Server function: renew the model of the tier that replied, then x."""
        tier = int(self.tier_of(reply.ids[:1])[0])
        tiers, updates = state["tiers"].copy(), state["updates"].copy()
        tiers[tier] = reply.sent["x"] - reply.mean["delta"]
        updates[tier] += 1
        x = mixed(tiers, updates[::-1] / updates.sum())
        return {"x": x, "tiers": tiers, "updates": updates}, {"tier": tier}


def mixed(models: Array, shares: Floats) -> Array:
    """Return the sum (p,) of models (M, p) times shares (M,), in the order of the tiers."""
    total: Array = (models * shares.astype(models.dtype)[:, None]).sum(axis=0)
    return total
