"""Random rows of a benchmark's shape: what they say does not matter, how many there are does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from rayfed.datasets.base import Dataset, Source, Table


@dataclass(frozen=True, kw_only=True)
class Noise(Dataset):
    """Standard normal features, and targets or labels of a linear model.

    Parameters
    ----------
    clients, samples : int
        Number N of clients, and the rows of each; row j belongs to client ``j // samples``.
    features : int
        Number d of features.
    classes : int
        Number c of labels; 0 for regression.
    symbols : int
        If not 0, features are whole numbers below it, as those of characters.
    """

    name: ClassVar[str] = "noise"

    clients: int = 100
    samples: int = 50
    features: int = 30
    classes: int = 0
    symbols: int = 0

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows: X (N samples, d) in single precision, where there are labels."""
        rng = np.random.default_rng(self.seeded(0))
        n, outputs = self.clients * self.samples, max(1, self.classes)
        X = rng.standard_normal((n, self.features), np.float32 if self.classes else np.float64)
        if self.symbols:
            X[...] = rng.integers(self.symbols, size=X.shape)
        with threadpool_limits(1):  # every thread would keep 30 MB
            scores = X @ rng.standard_normal((self.features, outputs), X.dtype.type)
        y = scores.argmax(axis=1) if self.classes else scores[:, 0] + 0.1 * rng.standard_normal(n)
        client = np.repeat(np.arange(self.clients), self.samples)
        return Table(X, y, self.classes, client=client)
