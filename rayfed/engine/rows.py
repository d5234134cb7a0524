"""The rows of a run: what each holds, which are evaluated, and what makes a run fail."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rayfed.clients.solvers import Descent
from rayfed.core.arrays import Array
from rayfed.core.columns import names
from rayfed.engine import columns
from rayfed.engine.measuring import SCORES, Measures
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats, Row, RunState

NOT_FINITE = "is not finite"
"""What the reason of a run that diverged says."""
_SHORT = 2**14  # numbers of a model of which each is looked at


class RowMaker:
    """Makes the rows of one run.

    Parameters
    ----------
    run : Run
        What is run.
    measures : Measures
        Asks the clients about a model.
    """

    def __init__(self, run: Run, measures: Measures) -> None:
        self.run, self.measures, self.private = run, measures, run.private
        self.columns = (
            *measures.columns,
            *(names(columns.ARRIVALS) if run.overlaps else ()),
            *(names(columns.SECURE) if run.secure else ()),
            *(names(columns.LEFT_OUT) if run.left_out else ()),
            *(names(columns.PRIVATE) if self.private else ()),
            *(names(columns.ADAPTIVE) if self.private and self.private.clip.adaptive else ()),
            *run.ending.stop.columns,
            *names(run.participation.select.diagnostics),
            *names(run.training.algorithm.diagnostics),
        )
        self.all = frozenset(
            (*names((*columns.RUN, *columns.SCORES, *columns.COUNTS)), *self.columns)
        )

    def due(self, before: RunState, run_state: RunState) -> bool:
        """Whether the row of a state is evaluated by the cadence; `Loop.close` sees to the last.

        Parameters
        ----------
        before, run_state : RunState
            The state before the round, and after it.
        """
        measuring = self.run.measuring
        if measuring.every_s is None:
            return run_state.round % measuring.every == 0
        return run_state.time_s // measuring.every_s > before.last.time_s // measuring.every_s

    def row(
        self, run_state: RunState, stats: RoundStats, values: Mapping[str, float], due: bool
    ) -> tuple[Row, RunState]:
        """Return a row, and the state with what an evaluation leaves in it.

        Parameters
        ----------
        run_state : RunState
            The state that the row is about.
        stats : RoundStats
            What the round before it cost.
        values : mapping of str to float
            Columns that are known: diagnostics, and what the round itself has measured.
        due : bool
            Whether it is evaluated.
        """
        row: Row = {
            "algorithm": self.run.training.algorithm.name,
            "label": self.run.label,
            "seed": self.run.seed,
            "round": run_state.round,
            "time_s": run_state.time_s,
            **dict.fromkeys(SCORES, math.nan),
            **stats.counts,
            **dict.fromkeys(self.columns, math.nan),
            **{name: float(value) for name, value in values.items()},
        }
        return self.evaluated(row, run_state) if due else (row, run_state)

    def evaluated(self, row: Row, run_state: RunState) -> tuple[Row, RunState]:
        """Return a row with what an evaluation says, and the state with what it leaves there."""
        measured, run_state = self.measures.of(run_state)
        if self.private is not None:
            measured = {**measured, "epsilon": self.private.epsilon(run_state.round)}
        return {**row, **measured}, run_state

    def failure(self, run_state: RunState, row: Row) -> str | None:
        """Return why the run cannot go on, or None: the model or the loss is not finite."""
        finite = _finite(run_state.state["x"])
        due = run_state.last.round == run_state.round
        if finite and (math.isfinite(row["loss"]) or not due):
            return None
        what = "the loss" if finite else "the model"
        if run_state.round == 0:
            return f"round 0: {what} {NOT_FINITE} before any step; correct the start or the data"
        algorithm, rate = self.run.training.algorithm, ""
        if algorithm.local_steps and isinstance(algorithm.local, Descent):
            rate = f" (local lr {algorithm.local.rate(run_state.round):g})"
        return f"round {run_state.round}: {what} {NOT_FINITE}; likely the step is too large{rate}"


def _finite(x: Array) -> bool:
    """Whether all numbers of a model (p,) are finite."""
    if x.size <= _SHORT:
        return bool(np.isfinite(x).all())
    with np.errstate(over="ignore"):
        length = float(np.vecdot(x, x))  # it makes no array; numbers beyond 1e19 overflow
    return math.isfinite(length) or bool(np.isfinite(x).all())
