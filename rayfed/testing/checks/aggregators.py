"""Checks of robust rules of the channel."""

from __future__ import annotations

import numpy as np

from rayfed.channel.aggregators import Aggregator
from rayfed.testing.checks.common import frozen_copies, require, require_equal

_K, _P = 9, 6


def check_outcome(rule: Aggregator) -> None:
    """Check that it returns a vector of the same size and type, and changes nothing it is given."""
    for dtype in (np.float32, np.float64):
        vectors, weights = _vectors(dtype), np.ones(_K)
        before, state = vectors.copy(), dict(rule.init(_P))
        copies = frozen_copies({**state, "vectors": vectors, "weights": weights})
        found, after = rule.robust(vectors, weights, state)
        require(found.shape == (_P,), f"{rule}: {found.shape} comes of {vectors.shape}")
        require(found.dtype == dtype, f"{rule}: {vectors.dtype} returns {found.dtype}")
        require_equal(vectors, before, f"{rule} changes the vectors")
        for name, rows in state.items():
            require_equal(rows, copies[name], f"{rule} changes its state '{name}' in place")
        require(
            set(after) == set(state),
            f"{rule}: state keys differ from those of `init`: {set(after)}",
        )
        again, _ = rule.robust(vectors, weights, state)
        require_equal(again, found, f"{rule} twice")


def check_agreement(rule: Aggregator) -> None:
    """Check that a few equal vectors are their own aggregate in the end."""
    vector = 0.01 * _vectors(np.float64)[0]
    for count in (1, 2, _K):
        state = rule.init(_P)
        for _ in range(100):
            found, state = rule.robust(np.tile(vector, (count, 1)), np.ones(count), state)
        close = np.allclose(found, vector, rtol=1e-6, atol=1e-9)
        require(close, f"{rule}: {count} times {vector} returns {found}")


def check_not_finite(rule: Aggregator) -> None:
    """Check that one vector of NaN leaves the outcome finite."""
    vectors = _vectors(np.float64)
    vectors[4] = np.nan
    found, _ = rule.robust(vectors, np.ones(_K), rule.init(_P))
    require(np.isfinite(found), f"{rule}: a vector of NaN makes {found}")


def _vectors(dtype: type[np.floating]) -> np.ndarray:
    return np.random.default_rng(6).standard_normal((_K, _P)).astype(dtype)
