"""Checks of stages of the channel."""

from __future__ import annotations

import math

import numpy as np

from rayfed.channel.base import Codec, Draws, Stage, size_of
from rayfed.core.arrays import Array
from rayfed.core.rng import Key
from rayfed.testing.checks.common import require, require_equal

_MANY = 4000  # clients with independent draws
_SIGMAS = 6


def check_rows(codec: Codec) -> None:
    """Check that a row has the same bits alone and with others, and keeps its type and shape."""
    for dtype in (np.float32, np.float64):
        v, ids = _vectors(codec, 5).astype(dtype), np.arange(3, 8)
        before = v.copy()
        together = codec.coded(v, _draws(ids))
        require_equal(v, before, f"{codec}: changes what it codes")
        require(together.shape == v.shape, f"{codec}: {v.shape} returns {together.shape}")
        require(together.dtype == v.dtype, f"{codec}: {v.dtype} returns {together.dtype}")
        for k in range(len(v)):
            alone = codec.coded(v[k : k + 1], _draws(ids[k : k + 1]))
            require_equal(alone[0], together[k], f"{codec}: row {k} alone and with others")


def check_applied(stage: Stage) -> None:
    """Check that the effect of a stage on a client's vectors does not depend on other clients."""
    rng = np.random.default_rng(6)
    vectors = {name: rng.standard_normal((3, 4)).astype(np.float32) for name in ("a", "b")}
    together = stage.applied(vectors)
    for name, rows in together.items():
        require(rows.shape == (3, 4), f"{stage}: (3, 4) returns {rows.shape}")
        require(rows.dtype == np.float32, f"{stage}: float32 returns {rows.dtype}")
        for k in range(3):
            alone = stage.applied({key: v[k : k + 1] for key, v in vectors.items()})
            require_equal(alone[name][0], rows[k], f"{stage}: row {k} alone and with others")


def check_bits(codec: Codec) -> None:
    """Check that bits are whole numbers, known from shapes, that more numbers do not lower."""
    found = [codec.bits([shape], 64) for shape in ((2, 2), (4, 3), (40, 30))]
    require([type(bits) is int for bits in found], f"{codec}: bits {found} are no integers")
    require(np.diff(found) >= 0, f"{codec}: larger vectors take fewer bits: {found}")
    two = codec.bits([(4, 3), (40, 30)], 64) - codec.bits([], 64)
    apart = sum(found[1:]) - 2 * codec.bits([], 64)
    require(two == apart, f"{codec}: two pieces take {two} bits, not {apart}")


def check_error(codec: Codec) -> None:
    """Check that the mean squared error is within the codec's bound, and the mean is v."""
    one = _vectors(codec, 1)
    decoded = _often(codec, one)
    axes = tuple(range(1, one.ndim))
    square, norm = np.square(decoded - one).sum(axis=axes), np.square(one).sum()
    noise = _SIGMAS * square.std() / math.sqrt(_MANY) + 1e-9 * norm
    bound = codec.error(one.shape[1:])
    text = f"{codec}: the error is {square.mean() / norm:.4g} of the squared norm"
    require(square.mean() <= bound * norm + noise, f"{text}, not at most {bound:.4g}")
    if codec.unbiased:
        spread = _SIGMAS * decoded.std(axis=0) / math.sqrt(_MANY) + 1e-9
        off = np.abs(decoded.mean(axis=0) - one[0])
        require(
            off <= spread, f"{codec}: declares that it is unbiased; the mean is {off.max()} off"
        )


def check_odd(codec: Codec) -> None:
    """Check that zeros stay zeros, and that non-finite values are not hidden."""
    v = _vectors(codec, 2)
    zeros = codec.coded(np.zeros_like(v), _draws(np.arange(2)))
    require(zeros == 0, f"{codec}: zeros are coded as {zeros}")
    with np.errstate(all="ignore"):
        lost = codec.coded(np.full_like(v, np.nan), _draws(np.arange(2)))
    require(~np.isfinite(lost).all(), f"{codec}: hides what is no number: {lost}")


def _draws(ids: Array) -> Draws:
    return Draws(Key(5, "check"), ids, draw=2)


def _often(codec: Codec, one: Array) -> Array:
    """Return decoded vectors (1, ...) for many clients, or for many rounds."""
    if not codec.by_round:
        return codec.coded(np.repeat(one, _MANY, axis=0), _draws(np.arange(_MANY)))
    rounds = (Draws(Key(5, "check"), np.arange(1), 2, round=r) for r in range(_MANY))
    return np.concatenate([codec.coded(one, draws) for draws in rounds])


def _vectors(codec: Codec, count: int) -> Array:
    shape = (4, 3) if codec.matrices else (12,)
    draws = np.random.default_rng(7).standard_normal((count, size_of(shape)))
    return draws.reshape(count, *shape)
