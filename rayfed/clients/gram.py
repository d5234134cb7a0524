"""Local steps of linear models by the Gram matrix of the rows that they read.

The scores of a linear model are ``z = A w_c`` for its rows A (n, d) and the part w_c of the model
that belongs to class c. A step of gradient descent adds combinations of rows to the model, and
multiples of the model at the start and of a correction. So a client that keeps the coefficients
knows its scores from those at the start and from the Gram matrix ``A A'`` (n, n), without any
product with d columns. The model is formed once, after the last step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache, partial
from math import ceil
from typing import TypeGuard

import numpy as np

from rayfed.core.arrays import Array
from rayfed.datasets.shards import Shards
from rayfed.problems.base import Batch, Problem
from rayfed.solvers import Descent, StepOracle
from rayfed.solvers.base import CACHE, Solver, defines_last
from rayfed.solvers.descent import STEPPING

FEWEST_NUMBERS = 256
"""Numbers p of a model below which a step costs its calls, not its arithmetic."""
_MOST_ROWS = 512
_CLEARLY = 1.5
_LARGE = 16 * CACHE
# What a number costs, in multiplications within a product of matrices:
_SCORE = 60  # loss and slope of a score
_COPY = 3  # a feature that is copied into a minibatch
_UPDATE = 20  # a number of the model, in the passes of a step over it


@lru_cache(maxsize=256)
def fewest_steps(
    rows: int, batch: int, features: int, outputs: int, products: int = 1
) -> int | None:
    """Return the fewest local steps for a clear gain; None without a gain.

    The Gram matrix counts, as if it were not known from an earlier round.

    Parameters
    ----------
    rows, batch : int
        Padded rows n of a client, and those that a step reads.
    features, outputs : int
        Columns d and scores of a row c.
    products : int
        Products with the Gram matrix in a step.

    Examples
    --------
    MNIST's size with minibatches of 32, for 60 and for 600 rows of a client:

    >>> fewest_steps(60, 32, 784, 10), fewest_steps(600, 32, 784, 10)
    (6, None)
    """
    n, d, c = rows, features, outputs
    if n > min(d, _MOST_ROWS):
        return None
    direct = 2 * batch * d * c + _COPY * batch * d + _UPDATE * d * c + _SCORE * batch * c
    step = products * n * n * c + _SCORE * n * c
    once = n * n * d // 2 + 2 * n * d * c + _COPY * n * d
    saved = direct - _CLEARLY * step
    return ceil(_CLEARLY * once / saved) if saved > 0 else None


def fewest(
    solver: Solver, problem: Problem, shards: Shards, client: np.int64, p: int
) -> int | None:
    """Return the fewest local steps for a client to use the Gram matrix.

    None if it never does.

    Parameters
    ----------
    client : int
        Its id.
    p : int
        Numbers of the model.
    """
    if p < FEWEST_NUMBERS or not covers(solver, problem):
        return None
    outputs = problem.linear_scores(shards.classes)
    if outputs is None:
        return None
    rows = _rows(shards, client)
    batch = rows if solver.minibatch is None else solver.minibatch.size
    products = 1 if solver.clip_norm is None else 2
    return fewest_steps(rows, batch, p // outputs, outputs, products)


def block(shards: Shards, client: np.int64, p: int) -> int:
    """Return the stack size for clients that use Gram matrices.

    Coefficients and scores stay in the cache, and models and rows do not take much memory.
    """
    n, d = _rows(shards, client), shards.features
    coefficients, numbers = n * n + 5 * n * (p // d), n * d + 3 * p
    size = shards.dtype.itemsize
    return max(1, min(CACHE // (coefficients * size), _LARGE // (numbers * size)))


def _rows(shards: Shards, client: np.int64) -> int:
    """Return the padded rows of a client."""
    return int(shards.widths(np.array([client]))[0])


def covers(solver: Solver, problem: Problem) -> TypeGuard[Descent]:
    """Return whether the steps of a solver stay in the span of a problem's rows.

    A subclass that overrides how steps or objectives are computed is not covered by what its base
    class declares. An l2 term that spares the intercepts leaves the span of the rows.
    """
    every = problem.regularise_intercept or not problem.intercept
    stepped: type = type(solver)
    computed: type = type(problem)
    return (
        isinstance(solver, Descent)
        and solver.linear
        and defines_last(stepped, "linear", STEPPING)
        and not problem.random_steps
        and (every or problem.l2 == 0)
        and defines_last(
            computed, "value_and_slope", ("value_and_gradient", "data_value_and_gradient")
        )
    )


class GramSteps:
    """The models ``x = x0 + sum_j a_j v_j + (A' u_1, ..., A' u_c)`` of K clients.

    A model is the row ``(u_1, ..., u_c, a_1, ...)`` of its coefficients. The anchors v_j are the
    start, where steps shrink the model, and the correction, where there is one. Shrinking models
    are counted from 0 instead of x0, with a_1 = 1 at the start.

    Parameters
    ----------
    problem : Problem
        Whose scores are linear in the model.
    data : Batch
        All rows of the clients.
    gram : (K, n, n) array
        Inner products of the rows.
    x0 : (K, p) array
        Models at the start.
    correction : (K, p) array or None
        What the solver adds to every gradient.
    shrinks : bool
        Whether steps subtract multiples of the model itself.
    """

    def __init__(
        self,
        problem: Problem,
        data: Batch,
        gram: Array,
        x0: Array,
        correction: Array | None,
        shrinks: bool,
    ) -> None:
        self.problem, self.data, self.gram = problem, data, gram
        self.outputs = x0.shape[1] // data.X.shape[2]
        self.rows = self.outputs * data.X.shape[1]
        self.origin = None if shrinks else x0
        self.anchors = [x0] if shrinks else []
        if correction is not None:
            self.anchors.append(correction)
        self.origin_scores = None if shrinks else self._products(x0)
        self.anchor_scores = [self._products(anchor) for anchor in self.anchors]
        self.start = np.zeros((len(x0), self.rows + len(self.anchors)), x0.dtype)
        if shrinks:
            self.start[:, self.rows] = 1
        self.correction: Array | None = None
        if correction is not None:
            self.correction = np.zeros_like(self.start)
            self.correction[:, -1] = 1

    def model(self, u: Array) -> Array:
        """Return the models (K, p) of coefficients."""
        shape = (len(u), self.outputs, -1)
        x: Array = (u[:, : self.rows].reshape(shape) @ self.data.X).reshape(len(u), -1)
        if self.origin is not None:
            x += self.origin
        for a, anchor in zip(u[:, self.rows :].T, self.anchors, strict=True):
            x += a[:, None] * anchor
        return x

    def oracles(self, weights: Iterable[Array]) -> Iterator[StepOracle]:
        """Yield the objectives, as functions of coefficients, for one step after another.

        Parameters
        ----------
        weights : iterable of (k, n) array
            Weights of all rows of the clients that take the step.
        """
        for w in weights:
            yield len(w), partial(self._value_and_gradient, w=w)

    def norms(self, u: Array) -> Array:
        """Return the Euclidean norms (k,) of the vectors with these coefficients, from 0."""
        return np.sqrt(np.maximum(self._squares(u, self._scores(u)), 0))

    def _value_and_gradient(self, u: Array, w: Array) -> tuple[Array, Array]:
        """Return the objectives (k,) and the coefficients of their gradients."""
        k, ridge = len(u), self.data.ridge
        z = self._scores(u)
        if self.origin_scores is not None:
            z += self.origin_scores[:, :k]
        l2 = None if ridge is None else 0.5 * ridge[:k, 0] * self._squares(u, z)
        value, slope = self.problem.value_and_slope(z, self.data.y[:k], w)
        g = self._coefficients(slope)
        if ridge is not None:
            value = value + l2
            g += ridge[:k] * u
        return value, g

    def _scores(self, u: Array) -> Array:
        """Return the scores (c, k, n) of the vectors with these coefficients, from 0."""
        k, (_, n, _) = len(u), self.gram.shape
        z = _by_class(u[:, : self.rows].reshape(k, self.outputs, n), self.gram[:k])
        for a, scores in zip(u[:, self.rows :].T, self.anchor_scores, strict=True):
            z += a[:, None] * scores[:, :k]
        return z

    def _coefficients(self, z: Array) -> Array:
        """Return numbers of scores (c, k, n) as coefficients of rows, those of anchors being 0."""
        # products of rows have other bits where their numbers do not lie side by side
        u = np.ascontiguousarray(z.swapaxes(0, 1)).reshape(z.shape[1], self.rows)
        if not self.anchors:
            return u
        return np.concatenate([u, np.zeros((len(u), len(self.anchors)), u.dtype)], axis=1)

    def _squares(self, u: Array, z: Array) -> Array:
        """Return the squared norms (k,) of vectors from their coefficients and scores, from 0."""
        k = len(u)
        inside = u[:, : self.rows]
        total: Array = np.vecdot(inside, self._coefficients(z)[:, : self.rows])
        for j, a in enumerate(u[:, self.rows :].T):
            scores = self._coefficients(self.anchor_scores[j][:, :k])
            along = np.vecdot(inside, scores[:, : self.rows])
            for other, b in enumerate(u[:, self.rows :].T):
                along += b * self._between_anchors[j][other][:k]
            total += a * along
        return total

    @cached_property
    def _between_anchors(self) -> list[list[Array]]:
        """Inner products (K,) of the anchors."""
        return [[np.vecdot(v, other) for other in self.anchors] for v in self.anchors]

    def _products(self, x: Array) -> Array:
        """Return the scores (c, K, n) of all rows under models (K, p)."""
        x = np.ascontiguousarray(x) if x.strides[-1] != x.itemsize else x
        return _by_class(x.reshape(len(x), self.outputs, -1), self.data.X.swapaxes(1, 2))


def _by_class(a: Array, b: Array) -> Array:
    """Return the products (K, c, n) of matrices with classes first (c, K, n) in memory."""
    out = np.empty((a.shape[1], len(a), b.shape[2]), a.dtype)
    np.matmul(a, b, out=out.swapaxes(0, 1))
    return out
