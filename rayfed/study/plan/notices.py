"""Notices of frequent mistakes that show before a run.

They are of data, of networks and of the function that a method minimises in place of F. Labels that
are wrong leave no trace in the rows, unless rows are equal and their labels are not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rayfed.algorithms.base import Weights
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.plugins import raised
from rayfed.core.rng import Key
from rayfed.datasets.base import Table
from rayfed.datasets.shards import Shards
from rayfed.engine.run import Run
from rayfed.problems.base import Batch, Problem

_LARGE = 20.0
"""Root mean square of a feature above which steps that suit others are too large for it."""
SCALE = "scale them"
"""End of the line on large features."""
_COMMON = 0.8
"""Share of the rows of one class above which accuracy is uninformative."""
_RIGHT = 0.98
"""Share of the rows about which some model has to be right."""
_NUMBERS = 4_000_000  # that are looked at
_PROBED = 32  # rows
_COUNTS = ("equally", "by size", "by size squared (by size in the draw and in the mean)")
_MEANS = ("the plain mean of the F_i", "the mean of the F_i by size", "sum_i n_i^2 F_i")


def of_table(table: Table, seed: int = 0, *, own: bool = True) -> tuple[str, ...]:
    """Return a line for each thing that readers should beware of in rows of data.

    These are features that are much larger than 1, a class that most rows are of, and equal rows of
    different labels. Of large tables rows that the seed draws are looked at; classes are counted
    over all rows.

    Parameters
    ----------
    table : Table
    seed : int
    own : bool
        Whether the rows are the user's; features of data sets that come with rayfed are as their
        sources have them.
    """
    X, y = _some(table, seed)
    lines = [*_unscaled(table, X)] if own else []
    if table.classes:
        lines += [*_uneven(table), *_contradicting(X, y, table.classes)]
    return tuple(lines)


def _some(table: Table, seed: int) -> tuple[Array, Array]:
    """Return features and targets of as many rows as are looked at."""
    n, d = table.X.shape
    most = max(1, _NUMBERS // d)
    if n <= most:
        return table.X, table.y
    rows = np.sort(Key(seed, "notices").permutation(n)(np.arange(most)))
    return table.X[rows], table.y[rows]


def _unscaled(table: Table, X: Array) -> Iterator[str]:
    """Yield a line if features are much larger than 1."""
    size = np.sqrt(np.mean((X / table.scale - table.shift) ** 2, axis=0))
    large, worst = int((size > _LARGE).sum()), int(size.argmax())
    if large:
        name = f"'{clipped(table.names[worst], 40)}'" if table.names else f"{worst + 1}"
        text = f"{large:,} of {len(size):,} features are larger than {_LARGE:g}, feature {name} "
        why = "a step size that suits other features is too long for them"
        yield f"{text}most ({size[worst]:.3g}, root mean square): {why}; {SCALE}"


def _uneven(table: Table) -> Iterator[str]:
    """Yield a line if most rows are of one class."""
    counts = np.bincount(table.y.astype(np.int64), minlength=table.classes)
    share = counts.max() / counts.sum()
    if share > _COMMON:
        label = str(counts.argmax())
        if table.labels:
            label = clipped(str(table.labels[counts.argmax()]), 40)
        text = f"{100 * share:.3g} % of the rows are of class '{label}'"
        yield f"{text}: predicting it for every row is as accurate, so check the loss, too"


def _contradicting(X: Array, y: Array, classes: int) -> Iterator[str]:
    """Yield a line if equal rows have different labels, too many for any model."""
    rows = np.ascontiguousarray(X).view(np.dtype((np.void, X.shape[1] * X.itemsize))).ravel()
    _, kind = np.unique(rows, return_inverse=True)
    pairs, counts = np.unique(kind * classes + y.astype(np.int64), return_counts=True)
    most = np.zeros(kind.max() + 1, np.int64)
    np.maximum.at(most, pairs // classes, counts)
    right = most.sum() / len(y)
    if right < _RIGHT:
        text = "equal rows have different labels: no model is right about more than "
        yield f"{text}{100 * right:.3g} % of them; are labels wrong, or columns missing?"


def check_integers(problem: Problem, x: Array, shards: Shards) -> None:
    """Refuse rows that a module which takes integers cannot compute with.

    Parameters
    ----------
    problem : Problem
        Bound to its rows.
    x : (p,) array
        The first model.
    shards : Shards
        With their table, if they have one.

    Raises
    ------
    ScenarioError
        If features have fractions, are too large for the numbers of the study, or the module fails
        on the rows with the largest and the smallest one.
    """
    table = getattr(shards, "table", None)  # rows that are made on demand have none
    if table is None:
        return
    X = table.X
    if (np.mod(X, 1) != 0).any():
        text = "the model takes integers alone, and some features have fractions"
        raise ScenarioError("problem.dataset", f"{text}; give ids, or a model of numbers")
    exact = 2.0 ** (np.finfo(x.dtype).nmant + 1)
    if X.size and np.abs(X).max() >= exact:
        text = f"features of {np.abs(X).max():.0f} are not exact in {x.dtype}"
        raise ScenarioError("dtype", f"{text}; give dtype: float64")
    ends = [int(np.argmax(X)) // X.shape[1], int(np.argmin(X)) // X.shape[1]]
    rows = X[ends].astype(x.dtype)
    batch = problem.batch(Batch(rows[None], table.y[ends][None], np.ones((1, 2)), None))
    try:
        problem.predict(problem.arrays({"x": x[None, :]})["x"], batch.X)
    except Exception as error:
        text = f"the model cannot take integers from {X.min():.0f} to {X.max():.0f}"
        raise ScenarioError("problem.model", f"{text}: {raised(error)}") from error


def of_module(problem: Problem, x: Array, shards: Shards) -> tuple[str, ...]:
    """Return a line if a network's outputs are shares already, where the loss makes them such.

    Outputs of the first model for a few rows are looked at. Logarithms of shares are as good as
    scores: the loss leaves them as they are.

    Parameters
    ----------
    problem : Problem
        Bound to its rows.
    x : (p,) array
        The first model.
    shards : Shards
        With their table.
    """
    if getattr(problem, "loss", None) != "cross-entropy":  # problems without modules give scores
        return ()
    ids = np.zeros(1, np.int64)
    width = min(_PROBED, int(shards.sizes(ids)[0]))
    X, y = shards.take(ids, np.arange(width)[None, :])
    batch = problem.batch(Batch(X, y, np.ones(y.shape), None))
    scores = problem.scores(problem.arrays({"x": x[None, :]})["x"], batch.X)
    if scores is None:
        return ()
    out = np.asarray(scores, dtype=np.float64)
    if out.min() < 0 or not np.allclose(out.sum(axis=-1), 1.0, atol=1e-4):
        return ()
    text = "the model's outputs are shares that add up to 1, and the cross-entropy makes such of"
    return (f"{text} them again, so the loss cannot come near 0: leave out the module's softmax",)


def of_aim(run: Run) -> str:
    """Return in one line the weights of clients other than those in F; empty if they are equal.

    What a method does about clients that draw its model apart, and what a selection by losses
    does, is another matter.
    """
    power, in_f = _power(run, run.training.weights), _in_f(run)
    if power is None or power == in_f or _alike(run):
        return ""
    other: Weights = "uniform" if run.training.weights == "size" else "size"
    if _power(run, other) == in_f:
        way = f"give weights: {other} to minimise F"
    else:
        way = f"give problem.weighting: {'size' if power else 'uniform'} to make that F"
    return (
        f"the minimised objective is {_MEANS[power]}, not F: updates weigh clients "
        f"{_COUNTS[power]}, F weighs them {_COUNTS[in_f]}; {way}"
    )


def _power(run: Run, weights: Weights) -> int | None:
    """Return the weights of clients in the objective, as `Algorithm.power` defines them."""
    algorithm, participation = run.training.algorithm, run.participation
    if algorithm.centralised:
        return None
    power = algorithm.power(weights, participation.select.size_weighted)
    if power is not None and participation.correct is not None:
        return min(power, 1)  # the correction cancels the weights of the draw
    return power


def _in_f(run: Run) -> int:
    """Return the power of its size with which a client counts in F."""
    return int(run.training.problem.weighting == "size")


def _alike(run: Run) -> bool:
    """Whether all clients are of the same size; of very many, those that are evaluated."""
    shards = run.federation.views.training.shards
    return not shards.moves_sizes and not np.ptp(shards.mass(run.measuring.evaluated))
