"""The keyed uniform numbers that delays map to seconds, correlated over rounds if wanted."""

from __future__ import annotations

import math

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.rng import Draw, Key

_NEGLIGIBLE = 2.0**-53  # a correlation that no double shows
_DEEPEST = 31  # rounds are below 2**31


def uniforms(seed: int, correlation: float, ids: Ints, draw: Draw, ask: int) -> Floats:
    """Draw a uniform number for each client, keyed by client, round and Ask.

    The normal scores z of a client over the rounds are a stationary AR(1) process,

        z[r + 1] = c z[r] + sqrt(1 - c^2) e[r + 1],

    with c = `correlation`. Two Asks of one round have the correlation c, and those of different
    rounds c to the power of one more than the distance of the rounds. With c = 1 the number of a
    client never changes; with c = 0 all draws are independent.

    Parameters
    ----------
    seed : int
        Seed of the run.
    correlation : float
        From 0 to 1.
    ids : (K,) array of int
    draw : int or (K,) array of int
        The round, for all clients or for each; below 2**31.
    ask : int
        Number of the Ask in it.

    Returns
    -------
    (K,) array of float in (0, 1)
    """
    if correlation == 0.0:
        return Key(seed, "delay").uniforms(ids, round=draw, ask=ask)
    if correlation == 1.0:
        return Key(seed, "delay/client").uniforms(ids)
    from scipy.special import ndtr  # here: a client actor that never asks stays small

    of_round = ar1(Key(seed, "delay/round"), correlation, ids, draw)
    of_ask = ar1(Key(seed, "delay/ask"), correlation, ids, draw, ask)
    z = math.sqrt(correlation) * of_round + math.sqrt(1.0 - correlation) * of_ask
    return np.clip(ndtr(z), _NEGLIGIBLE, 1.0 - _NEGLIGIBLE)


def ar1(key: Key, correlation: float, ids: Ints, draw: Draw, ask: int = 0) -> Floats:
    """Return values (K,) of stationary AR(1) processes with standard normal margins.

    No value depends on the one before it: the process is bisected. Rounds that are so far apart
    that their correlation is lost in a double are drawn independently; a round half-way between
    two known ones is normal given both,

        z[m] | z[m - h], z[m + h] ~ N(a (z[m - h] + z[m + h]), (1 - a') / (1 + a')),

    with a' = c^(2h) and a = c^h / (1 + a'). A question takes as many draws as there are halvings,
    9 for c = 0.9 and 31 at most.

    Parameters
    ----------
    key : Key
    correlation : float
        c, strictly between 0 and 1.
    ids : (K,) array of int
    draw : int or (K,) array of int
        The round, for all clients or for each; below 2**31.
    ask : int
        Another coordinate of all draws.
    """
    decay = math.log(correlation)
    halvings = math.ceil(math.log2(math.log(_NEGLIGIBLE) / decay))
    lengths = 1 << np.arange(min(max(halvings, 0), _DEEPEST), -1, -1)  # of the parts, down to 1
    rounds = np.broadcast_to(np.asarray(draw, dtype=np.int64), np.shape(ids))[:, None]
    starts = rounds - rounds % lengths  # (K, L): of the part that a round is in
    points = np.concatenate(
        [starts[:, :1], starts[:, :1] + lengths[0], starts[:, :-1] + lengths[1:]], 1
    )
    draws = key.normals(np.repeat(ids, points.shape[1]), round=points.ravel(), ask=ask)
    left, right, *middles = draws.reshape(points.shape).T
    far = math.exp(lengths[0] * decay)
    if far > _NEGLIGIBLE:  # only where the first part spans all rounds
        right = far * left + math.sqrt(-math.expm1(2 * lengths[0] * decay)) * right
    for level, noise in enumerate(middles, 1):
        half = lengths[level] * decay
        near, both = math.exp(half), math.exp(2 * half)
        spread = math.sqrt(-math.expm1(2 * half) / (1.0 + both))
        middle = near / (1.0 + both) * (left + right) + spread * noise
        after = starts[:, level] > starts[:, level - 1]
        left, right = np.where(after, middle, left), np.where(after, right, middle)
    return np.asarray(left)
