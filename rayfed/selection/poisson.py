"""Poisson cohorts: every client takes part with the same probability, whoever else does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.core.rng import Key
from rayfed.messages import State
from rayfed.selection.base import Choice, Selection, SelectionView
from rayfed.selection.simple import equal_shares


@dataclass(frozen=True, kw_only=True)
class Poisson(Selection):
    """Each client that is there takes part with probability q = ``cohort`` / N.

    ``participation.cohort`` is the expected number if all are there. An empty cohort is a round, as
    accountants of privacy count rounds. One in which nobody at all is there is waited for.
    """

    name: ClassVar[str] = "poisson"
    may_be_empty: ClassVar[bool] = True

    def select(self, view: SelectionView, state: State) -> Choice:
        """Return those of a keyed draw who are available.

        A binomial number of clients without replacement is the same as a coin for each client, and
        costs as much as the cohort.
        """
        yield from ()
        key, count = Key(view.seed, "poisson"), view.count
        number = int(key.generator(view.round).binomial(count, view.wanted / count))
        drawn = np.sort(key.permutation(count, round=view.round)(np.arange(number)))
        return drawn[view.available(drawn)] if number else drawn, state

    def expected_shares(
        self, view: SelectionView, state: State, losses: Floats, draws: int
    ) -> Floats:
        """Return equal shares (N,) of all who are available, exactly."""
        return equal_shares(view)
