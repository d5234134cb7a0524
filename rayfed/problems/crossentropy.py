"""Softmax cross-entropy of scores, stable for scores of any size."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array


def cross_entropy(z: Array, y: Array, w: Array) -> tuple[Array, Array]:
    """Return the weighted losses and their derivatives with respect to the scores.

    Parameters
    ----------
    z : (K, B, c) array of float
        Scores; overwritten.
    y : (K, B) array of int
        Class numbers.
    w : (K, B) array of float
        Sample weights.

    Returns
    -------
    value : (K,) array
        ``sum_b w_b (log sum_c e^{z_bc} - z_by)``.
    slope : (K, B, c) array
        ``w_b (softmax(z_b)_c - [c = y_b])``.
    """
    _shift(z)
    at = _at(z, y)
    loss = -z.reshape(-1)[at]
    np.exp(z, out=z)
    total = z.sum(axis=-1)
    loss += np.log(total)
    z *= (w / total)[:, :, None]
    z.reshape(-1)[at] -= w
    return np.vecdot(w, loss), z


def cross_entropy_by_class(z: Array, y: Array, w: Array) -> tuple[Array, Array]:
    """Return `cross_entropy` up to rounding, for scores and slopes (c, K, B).

    With classes first, reductions over classes add whole rows of memory, one after the other. The
    scores are contiguous.
    """
    at = y * y.size
    at += np.arange(y.size).reshape(y.shape)
    z -= z.max(axis=0)
    flat = z.reshape(-1)
    loss = -flat[at]
    np.exp(z, out=z)
    # a single score of each class would be added up in pairs, unlike the same scores in a stack
    total = z.sum(axis=0) if y.size > 1 else z.cumsum(axis=0)[-1]
    loss += np.log(total)
    np.divide(w, total, out=total)
    z *= total
    flat[at] -= w
    return np.vecdot(w, loss), z


def sample_losses(z: Array, y: Array) -> Array:
    """Return ``log sum_c e^{z_c} - z_y`` (K, B); the scores z (K, B, c) are overwritten."""
    _shift(z)
    chosen = z.reshape(-1)[_at(z, y)]
    losses: Array = np.log(np.exp(z, out=z).sum(axis=-1)) - chosen
    return losses


def probabilities(z: Array) -> Array:
    """Return ``softmax(z)`` (K, B, c); the scores z are overwritten."""
    _shift(z)
    np.exp(z, out=z)
    z /= z.sum(axis=-1)[:, :, None]
    return z


def _shift(z: Array) -> None:
    """Subtract each row's largest score, so that exp cannot overflow and the sum is >= 1."""
    z -= z.max(axis=-1)[:, :, None]


def _at(z: Array, y: Array) -> Array:
    """Return the flat positions (K, B) of the scores of the true classes."""
    start = np.arange(0, z.size, z.shape[2]).reshape(y.shape)
    return np.asarray(start + y)
