"""The objectives of local steps, which a local solver is given in place of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from rayfed.clients import sampling
from rayfed.clients.solvers import StepOracle
from rayfed.clients.solvers.base import OnBatch
from rayfed.core.arrays import Array, Ints
from rayfed.problems.base import Batch, Oracle, Problem

GradientFn: TypeAlias = Callable[[Array, Sequence[Batch], Ints], tuple[Array, Array]]
"""A gradient that stands for that of F_i in local steps.

Called with the models (k, p) of clients at work, batches of their rows, and which of the K clients
they are (k,); returns their losses (k,) and gradients (k, p), new arrays.
"""


def on_all_rows(problem: Problem, data: Batch, x0: Array, steps: Ints) -> Iterator[StepOracle]:
    """Yield the objectives on all rows, for a solver that starts at x0 (K, p).

    Parameters
    ----------
    data : Batch
        All rows of K clients.
    steps : (K,) array of int
        Steps of each client, not increasing.
    """
    k, oracle = len(x0), problem.near(x0, data)
    for now in sampling.active(steps):
        if now < k:
            k, oracle = now, problem.near(x0[:now], data.head(now))
        yield k, oracle


def on_batches(problem: Problem, batches: Iterable[Batch]) -> Iterator[StepOracle]:
    """Yield the objectives on the minibatches of one step after another."""
    for batch in batches:
        yield len(batch.w), OnBatch(problem, batch)


def replaced(
    gradient: GradientFn, batches: Iterable[Sequence[Batch]], who: Ints
) -> Iterator[StepOracle]:
    """Yield what stands for the objectives.

    Parameters
    ----------
    gradient : callable
        What stands for them.
    batches : iterable of sequence of Batch
        What it is given in one step after another.
    who : (K,) array of int
        Numbers of the clients, in the order of their rows.
    """
    for given in batches:
        yield len(given[0].w), _oracle(gradient, given, who)


def _oracle(gradient: GradientFn, batches: Sequence[Batch], who: Ints) -> Oracle:
    return lambda x: gradient(x, batches, who[: len(x)])
