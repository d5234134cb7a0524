"""Own training code with client state, of NumPy alone: a client of `benchmarks.machines`."""

from typing import Any

import numpy as np

FEATURES, ROWS = 8, 60


def model() -> dict[str, Any]:
    """Return a linear model of zeros."""
    return {"w": np.zeros(FEATURES)}


def client(i: int) -> tuple[Any, Any]:
    """Return the rows (n, d) and targets (n,) of a client, a function of its number."""
    draws = np.random.default_rng(i)
    X = draws.normal(size=(ROWS, FEATURES))
    return X, X @ (np.arange(FEATURES) + 0.1 * i) + draws.normal(size=ROWS)


def size(i: int, part: str) -> int:
    """Return the number of rows."""
    return ROWS if part == "train" else 0


def train(model: dict[str, Any], data: tuple[Any, Any], context: Any) -> dict[str, float]:
    """Take steps of SGD on random rows; the momentum stays at the client."""
    (X, y), m = data, context.state["momentum"]
    for _ in range(context.steps):
        rows = np.random.randint(0, ROWS, 16)  # noqa: NPY002 -- as users draw
        m[:] = 0.5 * m + X[rows].T @ (X[rows] @ model["w"] - y[rows]) / 16
        model["w"] -= 0.02 * m
    return {"loss": float(np.mean((X @ model["w"] - y) ** 2) / 2)}


def evaluate(model: dict[str, Any], data: tuple[Any, Any], part: str) -> dict[str, float]:
    """Return half the mean squared error."""
    X, y = data
    return {"loss": float(np.mean((X @ model["w"] - y) ** 2) / 2)}
