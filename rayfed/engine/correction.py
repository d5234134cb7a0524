"""Importance weights for availability and selection (``participation.correct``).

The mean over all N clients, sum_j w_j v_j / sum_j w_j, is estimated by a sum over those that reply,
each divided by the probability that it does (Horvitz and Thompson 1952).
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints, located
from rayfed.engine.run import Run
from rayfed.messages import State
from rayfed.selection import SelectionView

LONGEST = 50
"""Rounds after which an interval without participation is counted as one (K of the paper)."""


class Correction:
    """Finds the weights of one run.

    With "known" the probability that a client takes part is that of its availability times that of
    being drawn among the available clients. With "intervals" its inverse is estimated by
    the mean number of rounds from one reply of the client to the next (FedAU: Wang and Ji, "A
    Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging", ICLR
    2024, https://arxiv.org/abs/2306.03401, Algorithm 2).

    Parameters
    ----------
    run : Run

    Attributes
    ----------
    shards : Shards
        The rows of the round, by which clients are weighed; the exchange sets it.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.shards = run, run.federation.views.training.shards
        self.kind = run.participation.correct
        self.by_size = run.training.weights == "size" or run.participation.select.size_weighted
        self._total: tuple[Hashable, float] = (None, 0.0)

    @property
    def total(self) -> float:
        """The sum of the raw weights of all N clients."""
        if self._total[0] != self.shards.version:
            everyone = np.arange(self.run.federation.population.count)
            self._total = self.shards.version, float(self.raw(everyone).sum())
        return self._total[1]

    def raw(self, ids: Ints) -> Floats:
        """Return the weights of clients (K,) in F before normalisation."""
        return self.shards.mass(ids) if self.by_size else np.ones(len(ids))

    def init(self) -> State:
        """Return the state before the first round, without replies."""
        if self.kind != "intervals":
            return {}
        none = np.empty(0, dtype=np.int64)
        return {"client": none, "last": none, "number": none, "mean": np.empty(0)}

    def weights(
        self, view: SelectionView, selection: State, state: State, ids: Ints, counts: Ints
    ) -> Floats:
        """Return the weights (K,) of a cohort, by which replies are added and divided by `total`.

        Parameters
        ----------
        view : SelectionView
            What the selection saw.
        selection, state : mapping of str to array
            The states of the selection and of this before the round.
        ids, counts : (K,) array of int
            Distinct clients, ascending, and how often each was drawn.
        """
        raw = self.raw(ids)
        if self.kind == "intervals":
            return np.asarray(raw * _settled(state, ids, view.round)["mean"])
        rule, population = self.run.participation.select, self.run.federation.population
        shares = rule.expected_shares(view, selection, np.zeros(view.count), 0)
        chances = population.chance(ids, view.time_s, view.round)
        assert shares is not None  # others have been refused
        assert chances is not None
        return np.asarray(raw * counts / (chances * shares[ids] * counts.sum()))

    def learn(self, state: State, ids: Ints, round: int) -> State:
        """Return the state after a round in which clients (K,), ascending, replied."""
        if self.kind != "intervals" or not len(ids):
            return state
        now = _settled(state, ids, round)
        number = now["number"] + 1
        interval = round - now["last"]
        now |= {
            "mean": np.where(
                now["number"] == 0, interval, (now["mean"] * now["number"] + interval) / number
            ),
            "number": number,
            "last": np.full(len(ids), round),
        }
        others = ~np.isin(state["client"], ids)
        joined = {name: np.concatenate([state[name][others], now[name]]) for name in state}
        order = np.argsort(joined["client"])
        return {name: column[order] for name, column in joined.items()}


def _settled(state: State, ids: Ints, round: int) -> dict[str, Array]:
    """Return the rows of clients (K,) with the intervals that were cut off before a round.

    A client that never replied has the mean 1, by which nothing is corrected.
    """
    known, at = located(ids, state["client"])
    last, number, mean = np.zeros_like(ids), np.zeros_like(ids), np.ones(len(ids))
    for column, name in ((last, "last"), (number, "number"), (mean, "mean")):
        column[known] = state[name][at]
    cut = (round - 1 - last) // LONGEST
    total_number = number + cut
    with np.errstate(invalid="ignore"):
        mean = np.where(cut > 0, (mean * number + cut * LONGEST) / total_number, mean)
    return {"client": ids, "last": last + cut * LONGEST, "number": total_number, "mean": mean}
