"""Checks of memories of the channel."""

from __future__ import annotations

import numpy as np

from rayfed.channel.base import Memory
from rayfed.core.arrays import Array
from rayfed.testing.checks.common import require, require_equal

_K, _P = 4, 6


def check_rows(memory: Memory) -> None:
    """Check that a row has the same bits alone and with others, and keeps its type."""
    rng = np.random.default_rng(3)
    first = np.arange(_K) % 2 == 0 if memory.exact_first else np.zeros(_K, bool)
    v, held = rng.standard_normal((2, _K, _P)).astype(np.float32)
    together = memory.sent(v, held, _halved, first)
    for rows in together:
        require(rows.dtype == v.dtype, f"{memory}: {v.dtype} returns {rows.dtype}")
    for k in range(_K):
        one = slice(k, k + 1)
        alone = memory.sent(v[one], held[one], _halved, first[one])
        for rows, row in zip(together, alone, strict=True):
            require_equal(row[0], rows[k], f"{memory}: row {k} alone and with others")


def check_mean(memory: Memory) -> None:
    """Check that the algorithm gets the mean where all take part and the codec is exact."""
    rng = np.random.default_rng(4)
    weights = rng.dirichlet(np.ones(_K))
    held, server = np.zeros((_K, _P)), np.zeros(_P)
    for round in range(3):
        v = rng.standard_normal((_K, _P))
        first = np.full(_K, memory.exact_first and round == 0)
        sent, held = memory.sent(v, held, np.copy, first)
        mean, server = memory.received(weights @ sent, weights @ sent, server)
        text = f"{memory}: round {round + 1}: the mean {mean} is not {weights @ v}"
        require(np.isclose(mean, weights @ v, rtol=1e-12, atol=1e-12), text)


def check_lags(memory: Memory) -> None:
    """Check that coding errors are compensated: means of equal vectors v come near v."""
    v = np.random.default_rng(5).standard_normal((1, _P))
    held, server, means = np.zeros((1, _P)), np.zeros(_P), []
    for round in range(400):
        first = np.full(1, memory.exact_first and round == 0)
        sent, held = memory.sent(v, held, _halved, first)
        mean, server = memory.received(sent[0], sent[0], server)
        means.append(mean)
    late = np.mean(means, axis=0)
    require(np.abs(late - v[0]) < 0.05, f"{memory}: the mean of 400 rounds is {late}, not {v}")


def _halved(rows: Array) -> Array:
    """Return the decoded vector of a codec that halves every number."""
    return np.asarray(rows * rows.dtype.type(0.5))
