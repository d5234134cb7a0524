"""Training code of a user's own in its smallest form: a mean of numbers, by gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from rayfed.core.arrays import Array, Floats

Model = dict[str, Array]


def model() -> Model:
    """Return the first model."""
    return {"mean": np.zeros(2), "offset": np.zeros((2, 2))}


def client(i: int) -> Floats:
    """Return the numbers of a client (n, 2)."""
    return np.random.default_rng(i).normal(i, 1.0, (size(i, "train"), 2))


def size(i: int, part: str) -> int:
    """Return the number of rows of a client."""
    return 3 + i % 2


def train(model: Model, data: Floats, context: Any) -> dict[str, float]:
    """Take gradient steps towards the mean of random rows; count tasks in each array of state."""
    losses = []
    for _ in range(context.steps):
        losses.append(evaluate(model, data, "train")["loss"])
        row = data[np.random.randint(len(data))]  # noqa: NPY002 -- as users draw
        model["mean"] += 0.1 * (row - model["mean"])
    for name in context.state:
        context.state[name] += 1
    return {"loss": float(np.mean(losses))}


def evaluate(model: Model, data: Floats, part: str) -> dict[str, float]:
    """Return half the mean squared distance."""
    off = data - model["mean"]
    return {"loss": float(0.5 * np.mean(off * off))}
