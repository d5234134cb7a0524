"""Personal models over rounds: a table that stays small however long a run is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.core.arrays import Array
from rayfed.core.columns import names
from rayfed.engine.columns import MODELS

COLUMNS = names(MODELS)
"""The names of what is kept of a client's own model."""
MOST_ROWS = 40_000
"""Clients times rounds of one run; a float64 for each of `COLUMNS` makes 1.6 MB of them."""
MOST_CLIENTS = 10_000
"""Of more evaluated clients nothing is kept."""


def reported(algorithm: Algorithm, evaluated: int, accuracies: bool) -> tuple[str, ...]:
    """Return which of `COLUMNS` an evaluation reports of every client.

    Parameters
    ----------
    evaluated : int
        How many clients it asks.
    accuracies : bool
        Whether a measure needs their accuracies under the model.
    """
    if algorithm.personal and evaluated <= MOST_CLIENTS:
        return COLUMNS if algorithm.has_global else COLUMNS[1:]
    wanted = {"personal_accuracy": algorithm.personal, "accuracy": accuracies}
    return tuple(name for name, given in wanted.items() if given)


@dataclass(frozen=True)
class Thinning:
    """Which evaluated rounds are kept.

    Every evaluation is at first. As often as there would be too many, every other one goes, so
    what is left at the end depends on the last round alone, not on how the run came there.

    Parameters
    ----------
    every : int
        Rounds from one evaluation to the next.
    clients : int
        How many clients each is about.

    Examples
    --------
    >>> thinning = Thinning(every=5, clients=10_000)  # of whom 4 evaluations are kept
    >>> [k for k in range(0, 41, 5) if thinning.keeps(k, last=40)]
    [0, 20, 40]
    """

    every: int
    clients: int

    def keeps(self, round: int, last: int) -> bool:
        """Whether the evaluation of a round is kept once the newest is that of round `last`."""
        return round % self._step(last) == 0

    def of(self, rounds: Array, last: int) -> Array:
        """Return which rows (n,) of these rounds are kept when a run ends; its last round's are."""
        return np.asarray((rounds % self._step(last) == 0) | (rounds == last))

    def _step(self, last: int) -> int:
        most = max(2, MOST_ROWS // self.clients)
        step = self.every
        while last // step + 1 > most:
            step *= 2
        return step
