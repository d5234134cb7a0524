"""Asynchronous algorithms: the server updates its model as replies arrive, without rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from rayfed.algorithms.base import Algorithm, Round, Weights
from rayfed.algorithms.staleness import Polynomial, Staleness
from rayfed.core.arrays import Floats, Ints
from rayfed.messages import Ask, Diagnostics, Reply, State


@dataclass(frozen=True, kw_only=True)
class Asynchronous(Algorithm):
    """Base of asynchronous algorithms.

    The server keeps some clients busy. Version v of the model is the one after v updates. A
    client starts from the newest version; the staleness of its reply is the number of updates
    between its start and its arrival.

    Parameters
    ----------
    concurrency : int, optional
        Busy clients at any time; ``participation.cohort`` if None, or all clients without one.
        In a run it is known.
    overlap : bool
        Whether a client's place is free again when it has computed: its upload travels while it, or
        another one, begins anew. A client sends one reply at a time.

    Attributes
    ----------
    redispatch : "arrival" or "update"
        When a client's place is free again. "arrival": at once. "update": clients start together,
        the next when all are done; those that reply make an update.
    tier_count : int
        Groups of clients that know nothing of one another, with "update": each starts when its
        own clients are done. The places are divided among them as evenly as can be.
    """

    asynchronous: ClassVar[bool] = True
    redispatch: ClassVar[Literal["arrival", "update"]] = "arrival"

    concurrency: Annotated[int, Ge(1)] | None = None
    overlap: bool = False

    @property
    def takes(self) -> int:
        """The number of replies to an update; the largest number with "update"."""
        return 1

    @property
    def tier_count(self) -> int:
        """The number of tiers."""
        return 1

    def power(self, weights: Weights, draws_by_size: bool) -> int | None:
        """Return the power of its size with which a client counts; 0 for single replies."""
        return super().power(weights if self.takes > 1 else "uniform", draws_by_size)

    def tier_of(self, ids: Ints) -> Ints:
        """Return the tier (K,) of clients, from 0."""
        return np.zeros(len(ids), dtype=np.int64)

    def ask(self, state: State) -> Ask:
        """Return the Ask for a client that starts now; its sizes never change."""
        raise NotImplementedError

    def discount(self, staleness: Ints) -> Floats:
        """Return the factors (K,) with which replies enter the sums."""
        return np.ones(len(staleness))

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Return the state after an update, and its diagnostics.

        Parameters
        ----------
        state : mapping of str to array
            The server's newest state.
        reply : Reply
            Of the `takes` replies since the last update. ``reply.mean`` is
            ``sum_i w_i s_i v_i / sum_i w_i`` with the factors s_i of `discount`,
            ``reply.staleness`` (K,) holds the staleness of each, and ``reply.sent`` what all
            downloaded, if it was the same.
        """
        raise NotImplementedError

    def round(self, state: State) -> Round:
        """Run one update to which fresh replies alone contribute."""
        ask = self.ask(state)
        reply = yield ask
        return self.arrival(state, reply if reply.sent else replace(reply, sent=ask.send))


@dataclass(frozen=True, kw_only=True)
class Discounted(Asynchronous):
    """Base of asynchronous algorithms in which a reply counts the less, the older it is.

    Parameters
    ----------
    staleness : Staleness
        Factor of a reply by its staleness.
    """

    staleness: Staleness = Polynomial()

    def discount(self, staleness: Ints) -> Floats:
        """Return the factors (K,) with which replies enter the sums."""
        return self.staleness.factor(staleness)
