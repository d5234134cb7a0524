"""The bare loops: what one writes in NumPy in ten minutes, client after client, step after step.

They know no clock, no clients that are away, no losses, no records. Each ``round`` takes a model
and returns the mean of the local models, as FedAvg does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

Array: TypeAlias = npt.NDArray[Any]
Model: TypeAlias = list[Array]
"""The arrays of a model: one matrix, or matrices and biases of layers."""


class Bare(Protocol):
    """A bare loop."""

    def start(self) -> Model:
        """Return the first model."""
        ...

    def round(self, model: Model) -> Model:
        """Return the mean of the local models after one round."""
        ...


def bare_seconds(loop: Bare, block_s: float) -> float:
    """Return the mean seconds of a round of a bare loop, with one BLAS thread.

    Parameters
    ----------
    loop : Bare
    block_s : float
        Seconds after which the round is the last.
    """
    with threadpool_limits(1):
        model = loop.round(loop.start())  # the first round does not count
        began = perf_counter()
        done, spent = 0, 0.0
        while done == 0 or spent < block_s:
            model = loop.round(model)
            done, spent = done + 1, perf_counter() - began
    return spent / done


@dataclass
class LeastSquares:
    """Full-gradient steps on half the mean squared residual; everybody takes part.

    Parameters
    ----------
    X : (N, n, d) array
    y : (N, n) array
    """

    X: Array
    y: Array
    steps: int
    lr: float

    def start(self) -> Model:
        """Return zeros (d,)."""
        return [np.zeros(self.X.shape[2])]

    def round(self, model: Model) -> Model:
        """Return the mean of the local models."""
        total = np.zeros_like(model[0])
        for A, b in zip(self.X, self.y, strict=True):
            w = model[0]
            for _ in range(self.steps):
                g = A.T @ (A @ w - b) / len(b)
                w = w - self.lr * g
            total += w
        return [total / len(self.X)]


@dataclass
class Arrivals(LeastSquares):
    """FedAsync of `LeastSquares`, arrival after arrival; everybody is at work all the time.

    Work takes exponential seconds of mean 1.
    """

    mixing: float = 0.6

    def start(self) -> Model:
        """Return zeros (d,), from which all begin."""
        self.rng, self.version = np.random.default_rng(0), 0
        (x,) = super().start()
        times = self.rng.exponential(size=len(self.X)).tolist()
        self.queue = [(time_s, i, 0, x) for i, time_s in enumerate(times)]
        heapq.heapify(self.queue)
        return [x]

    def round(self, model: Model) -> Model:
        """Return the model after the next arrival."""
        now_s, i, version, w = self.queue[0]
        A, b = self.X[i], self.y[i]
        for _ in range(self.steps):
            w = w - self.lr * (A.T @ (A @ w - b) / len(b))
        a = self.mixing * (1 + self.version - version) ** -0.5
        x = (1 - a) * model[0] + a * w
        self.version += 1
        later = now_s + self.rng.exponential()
        heapq.heapreplace(self.queue, (later, i, self.version, x))
        return [x]


@dataclass
class Softmax:
    """Minibatch steps on the cross-entropy of a linear classifier, for a random cohort.

    Parameters
    ----------
    X : (N, n, d) array
    y : (N, n) array of int
    """

    X: Array
    y: Array
    classes: int
    cohort: int
    steps: int
    batch: int
    lr: float

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def start(self) -> Model:
        """Return zeros (d, c)."""
        return [np.zeros((self.X.shape[2], self.classes), self.X.dtype)]

    def clients(self) -> Iterator[tuple[Array, Array]]:
        """Yield the rows of one client of the cohort after another."""
        for i in self.rng.choice(len(self.X), self.cohort, replace=False):
            yield self.X[i], self.y[i]

    def round(self, model: Model) -> Model:
        """Return the mean of the local models."""
        return _mean([self.train(model, X, y) for X, y in self.clients()])

    def train(self, model: Model, X: Array, y: Array) -> Model:
        """Take the local steps of one client."""
        (W,) = model
        for _ in range(self.steps):
            i = self.rng.integers(len(y), size=self.batch)
            A = X[i]
            W = W - self.lr * (A.T @ _slope(A @ W, y[i]))
        return [W]


@dataclass
class Perceptron(Softmax):
    """The same for one hidden layer of rectifiers, with biases."""

    hidden: int = 128

    def start(self) -> Model:
        """Return the start of He et al.: (d, h), (h,), (h, c), (c,)."""
        d, h, c = self.X.shape[2], self.hidden, self.classes
        W = self.rng.standard_normal((d, h), np.float32) * np.float32(np.sqrt(2 / d))
        V = self.rng.standard_normal((h, c), np.float32) * np.float32(np.sqrt(2 / h))
        return [W, np.zeros(h, np.float32), V, np.zeros(c, np.float32)]

    def train(self, model: Model, X: Array, y: Array) -> Model:
        """Take the local steps of one client."""
        W, a, V, b = model
        for _ in range(self.steps):
            i = self.rng.integers(len(y), size=self.batch)
            A = X[i]
            H = np.maximum(A @ W + a, 0)
            s = _slope(H @ V + b, y[i])
            t = (s @ V.T) * (H > 0)
            W, a = W - self.lr * (A.T @ t), a - self.lr * t.sum(axis=0)
            V, b = V - self.lr * (H.T @ s), b - self.lr * s.sum(axis=0)
        return [W, a, V, b]


@dataclass
class OnDemand(Softmax):
    """Softmax for a population whose rows are drawn when a client is asked.

    ``X`` (1, n, d) and ``y`` (1, n) give shape and type alone; the N clients' rows are drawn as
    Synthetic(1, 1) prescribes.
    """

    population: int = 1000

    def clients(self) -> Iterator[tuple[Array, Array]]:
        """Draw the rows of one client of the cohort after another."""
        _, n, d = self.X.shape
        scale = np.arange(1.0, d + 1) ** -0.6
        for i in self.rng.choice(self.population, self.cohort, replace=False, shuffle=False):
            rng = np.random.default_rng((0, int(i)))
            u, B = rng.standard_normal(2)
            v = B + rng.standard_normal(d)
            W = u + rng.standard_normal((d, self.classes))
            b = u + rng.standard_normal(self.classes)
            X = v + scale * rng.standard_normal((n, d))
            yield X.astype(self.X.dtype), (X @ W + b).argmax(axis=1)


def _slope(z: Array, y: Array) -> Array:
    """Return the derivative of the mean cross-entropy by the scores z (B, c)."""
    q = np.exp(z - z.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    q[np.arange(len(y)), y] -= 1
    q /= len(y)
    return np.asarray(q)


def _mean(models: Sequence[Model]) -> Model:
    """Return the mean of models, array by array."""
    return [np.mean(parts, axis=0) for parts in zip(*models, strict=True)]
