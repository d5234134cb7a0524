"""Base of local solvers with a length: a number of steps, passes or seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Draw
from rayfed.solvers.base import Solver
from rayfed.solvers.step_counts import STEP_SETTINGS, State, StepCount, in_passes, in_seconds

_STEPS = 10  # by default


@dataclass(frozen=True, kw_only=True)
class Stepped(Solver):
    """Base of local solvers with a length and a minibatch.

    Parameters
    ----------
    steps, epochs, time_s : optional
        How long, one of the three: local steps; passes over the client's rows, each of
        ceil(n_i / batch) steps; or virtual seconds of computing, at least one step. If all are
        None: 10 steps. Steps and passes may change over rounds: ``{low: 2, high: 5}`` draws those
        of every client anew in every round, ``{name: adacomm, start: 20}`` takes fewer and fewer.
    batch : int or "full"
        Rows in a minibatch, or all rows in every step.

    Raises
    ------
    ScenarioError
        If more than one of steps, epochs and time_s is given.
    """

    steps: Annotated[int, Ge(1)] | StepCount | None = None
    epochs: Annotated[float, Gt(0)] | StepCount | None = None
    time_s: Annotated[float, Gt(0)] | None = None
    batch: Annotated[int, Ge(1)] | Literal["full"] = 32

    def __post_init__(self) -> None:
        given = [name for name in STEP_SETTINGS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ScenarioError("local", f"found {' and '.join(given)}; give one of them")

    @property
    def varying(self) -> StepCount | None:
        """Number of steps or passes if it changes over rounds; None if it is fixed."""
        given = self.steps or self.epochs
        return given if isinstance(given, StepCount) else None

    def step_counts(
        self,
        sizes: Ints,
        seconds_per_step: Floats | None = None,
        *,
        ids: Ints | None = None,
        seed: int = 0,
        draw: Draw = 1,
        state: State | None = None,
    ) -> Ints:
        """Return the local steps of each client (K,); see `Solver.step_counts`.

        Raises
        ------
        ScenarioError
            If time_s is set and no speed is known, or a step takes no time.
        """
        if self.time_s is not None:
            return in_seconds(self.time_s, seconds_per_step)
        given = self.steps or self.epochs or _STEPS
        length: Ints | Floats
        if isinstance(given, StepCount):
            ids = np.arange(len(sizes)) if ids is None else ids
            length = given.draw(ids, seed=seed, draw=draw, state=state)
        else:
            length = np.full(len(sizes), given)
        if self.epochs is not None:
            return in_passes(length, sizes, None if self.batch == "full" else self.batch)
        return length.astype(np.int64, copy=False)
