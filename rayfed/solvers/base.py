"""The interface of local solvers, and the number of clients in a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints, namespace
from rayfed.core.machine import caches
from rayfed.core.needs import BY_SOLVERS, GRADIENTS, Terms
from rayfed.core.rng import Draw
from rayfed.problems.base import Batch, Oracle, Problem
from rayfed.solvers.sampling import Minibatch
from rayfed.solvers.step_counts import STEP_SETTINGS, State, StepCount

CACHE = 2 * caches().own
"""Bytes that a stack's local step should stay within; see `block`."""
SHARE = caches().share
"""Bytes that a stack of a few clients should stay within, if it does not fit `CACHE`."""
_COORDINATES = ("k", "share")  # of codecs
_FEWEST = 5  # half of ten, so that a usual cohort is one stack on each of two actors
_COMPUTING = ("value_and_gradient", "data_value_and_gradient", "_backward")


StepOracle: TypeAlias = tuple[int, Oracle]
"""How many clients take a local step, and their objectives in it.

The objectives are a function from the models (k, p) of the first k clients to their values (k,) and
gradients (k, p), new arrays. A solver may call it more than once in a step.
"""
AfterStep: TypeAlias = Callable[[Array], None]
"""Called after every local step with the models (k, p) of the first k clients, who took it."""


@dataclass(frozen=True)
class OnBatch:
    """The objectives of K clients on a batch: an `Oracle` that may also take steps by itself."""

    problem: Problem
    batch: Batch

    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Return values (K,) and gradients (K, p) at x (K, p)."""
        return self.problem.value_and_gradient(x, self.batch)

    def descend(self, x: Array, lr: float) -> Array | None:
        """Step along the gradients in place; see `Problem.descend`.

        A subclass that overrides how gradients are computed is not covered by its base class.
        """
        problem: type = type(self.problem)
        if not defines_last(problem, "descend", _COMPUTING):
            return None
        return self.problem.descend(x, self.batch, lr)


@lru_cache(maxsize=256)
def defines_last(cls: type, name: str, others: tuple[str, ...]) -> bool:
    """Return whether no class below the one that defines a name defines one of the others."""

    def depth(wanted: str) -> int:
        places = [place for place, base in enumerate(cls.__mro__) if wanted in vars(base)]
        return places[0] if places else len(cls.__mro__)

    return all(depth(name) <= depth(other) for other in others)


@dataclass(frozen=True)
class Local:
    """The result of local steps.

    Parameters
    ----------
    x : (K, p) array of float
        The local models.
    loss : (K,) array of float64
        Mean over the local steps of the minibatch objective, each before its step.
    """

    x: Array
    loss: Floats

    @classmethod
    def joined(cls, parts: Sequence[Local]) -> Local:
        """Return the results of some clients, then those of others."""
        xp = namespace(parts[0].x)
        return cls(xp.concat([p.x for p in parts]), np.concatenate([p.loss for p in parts]))


@dataclass(frozen=True, kw_only=True)
class Solver:
    """Base of all local solvers.

    Attributes
    ----------
    needs, gives : set of Term
        What others must leave to it, from `rayfed.core.needs`; and which of `BY_SOLVERS` it gives.
        By default it needs gradients, and gives corrected steps and a proximal term.
    """

    name: ClassVar[str]
    needs: ClassVar[Terms] = frozenset({GRADIENTS})
    gives: ClassVar[Terms] = BY_SOLVERS

    @property
    def varying(self) -> StepCount | None:
        """Number of steps or passes if it changes over rounds; None if it is fixed."""
        return None

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
        """Return the local steps of each client (K,), at least 1.

        Parameters
        ----------
        sizes : (K,) array of int
            Training rows n_i.
        seconds_per_step : (K,) array of float, optional
            Virtual seconds of one local step in this Ask.
        ids : (K,) array of int, optional
            Who they are, where the number is drawn; 0 to K - 1 if None.
        seed : int
        draw : int or (K,) array of int
            Coordinates of the draw, where the number is drawn; `draw` is the round, in all of
            which a client's number stays the same.
        state : mapping of str to array, optional
            What `varying` keeps from round to round; as before the first round if None.
        """
        raise NotImplementedError

    def rate(self, round: int) -> float:
        """Return the learning rate of a round, counted from 1; 1 for a solver without any."""
        return 1.0

    @property
    def scheduled(self) -> bool:
        """Whether local steps depend on the number of the round."""
        return False

    @property
    def minibatch(self) -> Minibatch | None:
        """Rows of a local step; None for all rows in every step."""
        return None

    def run(
        self,
        oracles: Iterable[StepOracle],
        x: Array,
        steps: Ints,
        *,
        round: int,
        correction: Array | None = None,
        after_step: AfterStep | None = None,
    ) -> Local:
        """Take local steps from x (K, p).

        Solvers know their clients as rows of arrays, and data by `oracles` alone.

        Parameters
        ----------
        oracles : iterable of (int, callable)
            One for each local step; see `StepOracle`.
        x : (K, p) array of float
            Models at the start of the round; not written to.
        steps : (K,) array of int
            Steps of each client, not increasing: those with steps left are always the first k.
        round : int
            The round, from 1: the learning rate may change.
        correction : (K, p) array of float, optional
            Added to every gradient, in the type of x.
        after_step : callable, optional
            Called after every step, with what it must not write to; see `AfterStep`.
        """
        raise NotImplementedError


def override(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changed settings; one unit of local length replaces another, and k replaces a share.

    Examples
    --------
    >>> override({"epochs": 2, "lr": 0.1}, {"steps": 5}), override({"share": 0.1}, {"k": 2})
    ({'lr': 0.1, 'steps': 5}, {'k': 2})
    """
    remaining = dict(settings)
    for group in (STEP_SETTINGS, _COORDINATES):
        if any(name in changes for name in group):
            remaining = {name: value for name, value in remaining.items() if name not in group}
    return remaining | dict(changes)


def block(problem: Problem, features: int, classes: int, rows: int, itemsize: int) -> int:
    """Return the number of clients to stack so that a local step fits in a core's cache.

    A few are stacked where they fit its share of the last cache, since each call of NumPy has its
    price; where they do not, one client's model stays near for all its steps.

    Parameters
    ----------
    features, classes : int
        Columns of X, and classes (0 for regression).
    rows : int
        Rows of each client in a step: the minibatch, or the padded width.
    itemsize : int
        Bytes of a number.
    """
    numbers = 2 * problem.size(features, classes) + rows * (features + 2 * max(classes, 1))
    size = numbers * itemsize
    return max(_FEWEST if _FEWEST * size <= SHARE else 1, CACHE // size)
