"""The local solver of own training code: it calls the user's function for each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import Better
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.needs import ALL_STEPS, NOTHING, Terms
from rayfed.core.plugins import raised
from rayfed.core.rng import Draw
from rayfed.problems.own_code.functions import (
    EXAMPLES,
    STATE,
    ClientCode,
    Context,
    check_metrics,
    refuse,
)
from rayfed.problems.own_code.problem import BoundOwnCode
from rayfed.solvers.base import Local
from rayfed.solvers.step_counts import State
from rayfed.solvers.stepped import Stepped

METRIC = "train_"
"""Prefix of the columns of its training metrics."""


@dataclass(frozen=True, kw_only=True)
class OwnTrain(Stepped):
    """Own training code: ``train(model, data, context)`` of the problem ``own-code``.

    Parameters
    ----------
    config : mapping of str to object
        Settings that the code finds in ``context.config``, with ``epochs`` and ``batch``.
    state : mapping of str to int or list of int
        Arrays that stay at a client between rounds, by name and shape; zeros at first. The code
        changes them in ``context.state``. They are of the type of the model.
    metrics : mapping of str to "higher", "lower" or None
        Further numbers that ``train`` returns, and which are better: columns ``train_NAME`` of
        `rounds`, weighted means over the replies that are used, and of `clients`, of the last
        reply of each that was used.
    """

    name: ClassVar[str] = "own-train"
    needs: ClassVar[Terms] = NOTHING
    gives: ClassVar[Terms] = NOTHING

    config: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Annotated[int, Ge(1)] | tuple[Annotated[int, Ge(1)], ...]] = field(
        default_factory=dict
    )
    metrics: Mapping[str, Better | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_metrics(self.metrics, ("loss", EXAMPLES))

    @property
    def scheduled(self) -> bool:
        """True: the code knows the round."""
        return True

    @property
    def columns(self) -> dict[str, Better | None]:
        """Columns of `metrics`, and which direction is better."""
        return {f"{METRIC}{name}": better for name, better in self.metrics.items()}

    def bound(self, code: ClientCode) -> OwnTrain:
        """Return the solver with the costs, state, settings and metrics that own code declares.

        Raises
        ------
        ScenarioError
            If `time_s` sets how many steps are taken, but the code takes all of its own.
        """
        if self.time_s is not None and ALL_STEPS in code.needs:
            raise ScenarioError("local.time_s", "the code takes steps of its own; give steps")
        held = {f.name: getattr(self, f.name) for f in fields(OwnTrain)}
        held["metrics"] = {**dict.fromkeys(code.training_metrics), **self.metrics}
        return _Bound(**held, code=code)

    def initial(self, dtype: Any) -> dict[str, Array]:
        """Return the first row of each array of client state, by its name with `STATE`."""
        return {f"{STATE}{name}": np.zeros(shape, dtype) for name, shape in self.state.items()}

    def settings_of(self) -> dict[str, Any]:
        """Return the settings that the code finds in its context."""
        return {**self._shared, **self.config}

    @property
    def _shared(self) -> dict[str, Any]:
        """Settings of the solver in a context; whole epochs are an int, for ``range``."""
        epochs = self.epochs
        if isinstance(epochs, float) and epochs.is_integer():
            epochs = int(epochs)
        return {"epochs": epochs, "batch": self.batch}

    def train(
        self,
        problem: BoundOwnCode,
        x: Array,
        clients: Sequence[Context],
        sizes: Ints,
        state: Mapping[str, Array],
    ) -> tuple[Local, dict[str, Array], dict[str, Array]]:
        """Train K clients, one after the other.

        Parameters
        ----------
        problem : BoundOwnCode
        x : (K, p) array
            Models at the start; not written to.
        clients : sequence of Context
            Client, round, steps and seed of each.
        sizes : (K,) array of int
            Training examples.
        state : mapping of str to (K, ...) array
            Client state, by its name with `STATE`; not written to.

        Returns
        -------
        local : Local
        state, metrics : dict of str to (K, ...) array
            Client state afterwards, and metrics by their name with `METRIC`.
        """
        out, found = np.empty_like(x), []
        after = {name: rows.copy() for name, rows in state.items()}
        for k, given in enumerate(clients):
            own = {name.removeprefix(STATE): rows[k].copy() for name, rows in state.items()}
            context = Context(
                given.client, given.round, given.steps, given.seed, own,
                self.settings_of(), problem.device,
            )  # fmt: skip
            out[k], numbers = problem.trained(x[k], context, int(sizes[k]), tuple(self.metrics))
            found.append(numbers)
            self._keep(problem.code, own, after, k)
        losses = np.array([each["loss"] for each in found])
        metrics = {f"{METRIC}{m}": np.array([each[m] for each in found]) for m in self.metrics}
        return Local(out, losses), after, metrics

    def _keep(
        self, code: ClientCode, own: Mapping[str, Any], after: Mapping[str, Array], k: int
    ) -> None:
        """Write the state of client number k, and refuse other names or shapes."""
        names = {name.removeprefix(STATE) for name in after}
        odd = sorted(map(str, own.keys() ^ names))
        if odd:
            text = f"adds or removes '{clipped(odd[0], 40)}' in context.state"
            refuse(code.train, f"{text}; declare it in local.state")
        for name in names:
            value, rows = np.asarray(own[name]), after[f"{STATE}{name}"]
            if value.shape != rows.shape[1:]:
                text = f"leaves '{name}' of shape {value.shape} in context.state"
                refuse(code.train, f"{text}; local.state declares {rows.shape[1:]}")
            rows[k] = value


@dataclass(frozen=True, kw_only=True)
class _Bound(OwnTrain):
    """Own training code that has met its functions.

    Parameters
    ----------
    code : ClientCode
    """

    code: ClientCode

    def initial(self, dtype: Any) -> dict[str, Array]:
        """Return the first row of each array of client state; see `OwnTrain.initial`."""
        own = {f"{STATE}{name}": row for name, row in self.code.first_state.items()}
        return super().initial(dtype) | own

    def settings_of(self) -> dict[str, Any]:
        """Return the settings that the code finds in its context."""
        return self.code.settings_of(self.config, self._shared)

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
        """Return the cost of each client (K,), as declared; see `Solver.step_counts`.

        Raises
        ------
        ScenarioError
            If a cost raises, or is no whole number from 1 on.
        """
        if self.code.cost is None:
            return super().step_counts(
                sizes, seconds_per_step, ids=ids, seed=seed, draw=draw, state=state
            )
        ids = np.arange(len(sizes)) if ids is None else ids
        rounds = np.broadcast_to(draw, len(ids)).tolist()
        config, found = self.settings_of(), []
        for i, n, now in zip(ids.tolist(), sizes.tolist(), rounds, strict=True):
            try:
                steps = self.code.cost(i, n, Context(i, now, config=config))
            except Exception as error:
                text = f"cost({i}, {n}, context) fails in round {now}: {raised(error)}"
                raise ScenarioError("problem.code", text) from error
            if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
                text = f"cost({i}, {n}, context) returns {clipped(repr(steps), 40)}"
                raise ScenarioError("problem.code", f"{text}; return an int from 1 on")
            found.append(int(steps))
        return np.array(found, dtype=np.int64)
