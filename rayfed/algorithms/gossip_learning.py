"""Gossip learning: models walk from node to node, and merge with those that they meet.

R. Ormandi, I. Hegedus, M. Jelasity, "Gossip Learning with Linear Models on Fully Distributed Data",
2013, https://arxiv.org/abs/1109.1396, Algorithms 1 and 2; I. Hegedus, G. Danner, M. Jelasity,
"Gossip Learning as a Decentralized Alternative to Federated Learning", DAIS 2019, Algorithms 1 and
2, which weigh models by age.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.algorithms.meeting import Meeting
from rayfed.core.arrays import Array, like
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class GossipLearning(Meeting):
    """Gossip learning: nodes send (x, age) to random neighbours, which merge it and then step.

    With a = age_r / (age + age_r) for a message (x_r, age_r), the receiver does
    x <- (1 - a) x + a x_r, age <- max(age, age_r), and then local steps from x, each of which adds
    1 to age. Messages go one way, and the mean of all models is not kept.

    Parameters
    ----------
    period_s : float
        Virtual seconds between two messages of a node. The first is sent at a random time within
        the first period, since nodes have no common clock.

    Notes
    -----
    Deviations from the papers: age counts local steps; in that of 2019 rows, in that of 2013
    updates by one row. Steps take time here: messages to a node that computes wait for it, in the
    order of arrival. A node whose last message still waits sends the next one later than a period.

    Examples
    --------
    >>> mine, yours = {"x": np.zeros((1, 1)), "age": np.array([1.0])}, {"x": np.ones((1, 1))}
    >>> merged = GossipLearning().merge(mine, yours | {"age": np.array([3.0])})
    >>> merged["x"].item(), merged["age"].item()
    (0.75, 3.0)
    """

    name: ClassVar[str] = "gossip-learning"
    answers: ClassVar[bool] = False

    period_s: Annotated[float, Gt(0)] = 10.0

    @property
    def period(self) -> float:
        """Seconds between the messages of a node, at least."""
        return self.period_s

    def node_state(self, x0: Array) -> State:
        """Return x_i = x0 (p,), and its age: local steps on its way."""
        return {"x": x0, "age": np.zeros(())}

    def merge(self, mine: State, yours: State) -> State:
        """Return the means (K, p) weighted by age, and the larger age (K,)."""
        total = mine["age"] + yours["age"]
        a = np.divide(yours["age"], total, out=np.zeros_like(total), where=total > 0)
        a = a.astype(mine["x"].dtype)[:, None]
        x = (1 - a) * mine["x"] + a * yours["x"]
        return {"x": x, "age": np.maximum(mine["age"], yours["age"])}

    def step(self, clients: Clients, x: Array, age: Array) -> Upload:
        """Client function: take local steps from x (K, p), each of which adds 1 to age (K,)."""
        local = clients.solve(x)
        return Upload({"x": local.x, "age": age + like(clients.steps, age)}, loss=local.loss)
