"""Stopping rules: what ends a run before its last round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Interval

from rayfed.core.arrays import Array
from rayfed.core.columns import names
from rayfed.engine import columns

AT_MOST = ("loss", "loss_gap", "loss_change", "model_change")
CHANGES = names(columns.CHANGES)
"""Columns that rows have only where a rule asks for them."""


@dataclass(frozen=True)
class Stop:
    """Rules that end a run early; the first that is met does.

    Parameters
    ----------
    time_s : float, optional
        Simulated seconds.
    client_updates : int, optional
        Replies of clients that have been used, in all rounds together.
    loss_gap : float, optional
        Loss above the optimum at most this.
    accuracy : float, optional
        Accuracy at least this.
    loss : float, optional
        Loss at most this.
    loss_change : float, optional
        Tolerance on the cost: the loss changed by at most this from one evaluation to the next.
    model_change : float, optional
        Tolerance on the solution: the model moved by at most this (Euclidean norm) in a round.
    """

    time_s: Annotated[float, Gt(0)] | None = None
    client_updates: Annotated[int, Ge(1)] | None = None
    loss_gap: Annotated[float, Gt(0)] | None = None
    accuracy: Annotated[float, Interval(ge=0, le=1)] | None = None
    loss: float | None = None
    loss_change: Annotated[float, Ge(0)] | None = None
    model_change: Annotated[float, Ge(0)] | None = None

    def rule(self, row: Mapping[str, Any], updates: int) -> str | None:
        """Return the name of the rule that a row meets, after so many updates, or None."""
        if self.time_s is not None and row["time_s"] >= self.time_s:
            return "time_s"
        if self.client_updates is not None and updates >= self.client_updates:
            return "client_updates"
        for name in AT_MOST:
            bound = getattr(self, name)
            if bound is not None and row[name] <= bound:
                return name
        if self.accuracy is not None and row["accuracy"] >= self.accuracy:
            return "accuracy"
        return None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows that only these rules need."""
        return tuple(name for name in CHANGES if getattr(self, name) is not None)


PRUNED = "pruned"
"""The rule that ends a run which is behind others."""


@dataclass(frozen=True)
class Pace:
    """What a run must keep up with, known before it starts.

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
        Whether somebody has answered since: where nobody did, an unchanged loss means nothing.
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
        """Return this after a round, and by how much the loss changed: NaN if it is unknown."""
        answered = answered or self.answered
        if not due:
            return self if answered == self.answered else replace(self, answered=answered), math.nan
        newest = LastEvaluation(row["loss"], False, row["round"], row["time_s"])
        return newest, abs(row["loss"] - self.loss) if answered else math.nan


def distance(x: Array, y: Array) -> float:
    """Return the Euclidean distance of two models (p,), in double precision."""
    return float(np.linalg.norm(x.astype(np.float64) - y))
