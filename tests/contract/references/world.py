"""Clients in closed form: sizes, steps, rates and speeds differ, rows are few, and batches full."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

N, SEED = 5, 3
SIZES = np.array([3, 4, 5, 6, 7])
STEPS, RATE = 3, 0.1
OTHER = {0: (2, 0.05)}
"""Steps and rates of clients that have others."""


class World:
    """Rows of five clients, and F_i as the mean over those of client i.

    Attributes
    ----------
    start : (p,) array
        The first model.
    decay : float
        Factor on learning rates from round to round.
    round : int
        The round by which they go, from 1.
    """

    problem: ClassVar[dict[str, object]]

    def __init__(self, start):
        self.start, self.decay, self.round = np.array(start), 1.0, 1
        self.client = np.repeat(np.arange(N), SIZES)
        self.X, self.y = self.rows()

    @classmethod
    def scenario(cls):
        """Return the problem as a scenario has it."""
        world = cls([])
        data = {"X": world.X, "y": world.y, "client": world.client}
        return {**cls.problem, "test": 0, "dataset": {"name": "arrays", "data": data}}

    def of(self, i):
        """Return the rows of a client."""
        return self.X[self.client == i], self.y[self.client == i]

    def rate(self, i):
        """Return the learning rate of a client."""
        return OTHER.get(i, (STEPS, RATE))[1] * self.scale

    @property
    def scale(self):
        """Learning rates over those of the first round."""
        return self.decay ** (self.round - 1)

    def local(self, i, x, steps, gradient=None, correction=0.0):
        """Return where local steps along a gradient plus a correction end."""
        for _ in range(steps):
            g = self.gradient(i, x) if gradient is None else gradient(x)
            x = x - self.rate(i) * (g + correction)
        return x


class Line(World):
    """Least squares without intercept in four dimensions."""

    problem: ClassVar = {"name": "least-squares", "intercept": False}

    def rows(self):
        rng = np.random.default_rng(3)
        X = rng.choice([-1.0, 1.0], (SIZES.sum(), 4)) * rng.uniform(0.8, 1.2, (SIZES.sum(), 4))
        return X, (X * (3 * rng.standard_normal((N, 4)))[self.client]).sum(axis=1)

    def gradient(self, i, x):
        X, y = self.of(i)
        return X.T @ (X @ x - y) / len(y)

    def value(self, i, x):
        X, y = self.of(i)
        return 0.5 * np.mean((X @ x - y) ** 2)

    def hessian(self, i):
        X, y = self.of(i)
        return X.T @ X / len(y)


class Net(World):
    """A perceptron without intercepts: a (4, 3) layer, ReLU, a (3, 3) layer, cross-entropy."""

    problem: ClassVar = {"name": "mlp", "hidden": [3], "intercept": False}
    shapes = ((4, 3), (3, 3))

    def rows(self):
        rng = np.random.default_rng(4)
        y = rng.integers(0, 3, SIZES.sum())
        y[:3] = 0, 1, 2
        return rng.standard_normal((len(y), 4)) + y[:, None], y

    def hidden(self, X, x):
        return np.maximum(X @ x[:12].reshape(4, 3), 0)

    def gradient(self, i, x, of_hidden=None):
        """Return the gradient of F_i, and of a term of the hidden units (B, 3), if there is one."""
        X, y = self.of(i)
        z, V = self.hidden(X, x), x[12:].reshape(3, 3)
        slope = self._chances(z @ V)
        slope[np.arange(len(y)), y] -= 1
        slope /= len(y)
        back = slope @ V.T + (0 if of_hidden is None else of_hidden(X, z))
        return np.concatenate([(X.T @ (back * (z > 0))).ravel(), (z.T @ slope).ravel()])

    def value(self, i, x):
        X, y = self.of(i)
        chances = self._chances(self.hidden(X, x) @ x[12:].reshape(3, 3))
        return -np.mean(np.log(chances[np.arange(len(y)), y]))

    @staticmethod
    def _chances(scores):
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)
