"""Stopping rules that end a run before its last round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rayfed.core.arrays import Array

PRUNED = "pruned"
"""The rule that ends a run which is behind others."""


@dataclass(frozen=True)
class Pace:
    """The pace that a run must keep, known before it starts.

    Parameters
    ----------
    column : str
        Of the evaluated rows.
    sign : float
        1 where little is good, -1 where much is.
    bounds : tuple of (float, float)
        Simulated seconds, ascending, and the value that the column must have reached by then,
        times the sign.
    """

    column: str
    sign: float
    bounds: tuple[tuple[float, float], ...]

    def behind(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row is worse than the last bound that its time has passed.

        A row that was not evaluated never is.

        Examples
        --------
        >>> pace = Pace("loss", 1.0, ((10.0, 0.5), (20.0, 0.3)))
        >>> [pace.behind({"time_s": t, "loss": 0.4}) for t in (5.0, 10.0, 20.0)]
        [False, False, True]
        """
        passed = [bound for time_s, bound in self.bounds if time_s <= row["time_s"]]
        return bool(passed) and self.sign * row[self.column] > passed[-1]


@dataclass(frozen=True)
class LastEvaluation:
    """The last evaluated row, as far as the next one is compared with it.

    Parameters
    ----------
    loss : float
        Its loss.
    answered : bool
        Whether any client has replied since: without replies an unchanged loss means nothing.
    round : int
        Its number; -1 before the first.
    time_s : float
        Its virtual time.
    """

    loss: float = math.nan
    answered: bool = False
    round: int = -1
    time_s: float = 0.0

    def after(
        self, row: Mapping[str, Any], answered: bool, due: bool
    ) -> tuple[LastEvaluation, float]:
        """Return this after a round, and the absolute change of the loss; NaN if it is unknown."""
        answered = answered or self.answered
        if not due:
            return self if answered == self.answered else replace(self, answered=answered), math.nan
        newest = LastEvaluation(row["loss"], False, row["round"], row["time_s"])
        return newest, abs(row["loss"] - self.loss) if answered else math.nan


def distance(x: Array, y: Array) -> float:
    """Return the Euclidean distance of two models (p,), in double precision."""
    return float(np.linalg.norm(x.astype(np.float64) - y))
