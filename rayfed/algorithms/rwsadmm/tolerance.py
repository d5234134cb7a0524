"""The tolerance epsilon of RWSADMM between a client's model and the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayfed.core.arrays import Array, Bools, like, namespace

if TYPE_CHECKING:
    from rayfed.clients import Clients


def widths(tolerance: float | tuple[float, ...], clients: Clients, x: Array) -> Array:
    """Return the tolerance of each client (K, 1) in the type of its models x (K, ...).

    It is given for all clients, or for each id.
    """
    if isinstance(tolerance, tuple):
        return like(np.array(tolerance)[clients.ids][:, None], x)
    return like(np.full((len(clients.ids), 1), tolerance), x)


def pull(x: Array, z: Array, y: Array, epsilon: Array, beta: float) -> Array:
    """Return S(z + beta (y - x)) (K, p), S the soft threshold at beta times epsilon (K, 1).

    It is minus the gradient in x of ``beta/2 dist(y - x + z / beta, [-epsilon, epsilon])^2``: the
    force with which the bound pulls at x (K, p), 0 within it.
    """
    xp, pulled = namespace(x), z + beta * (y - x)
    out: Array = xp.sign(pulled) * xp.maximum(xp.abs(pulled) - beta * epsilon, 0)
    return out


def nearest(centres: Array, taken: Bools, tilt: Array, epsilon: Array) -> Array:
    """Return the minimiser in x of ``tilt x + sum_s dist(c_s - x, [-epsilon, epsilon])^2 / 2``.

    Parameters
    ----------
    centres : (K, S, p) array
        The c_s.
    taken : (K, S) array of bool
        Which of them count; one at least for each client.
    tilt : (K, p) array
    epsilon : (K, 1) array

    Returns
    -------
    (K, p) array
        Where all x of an interval are minimisers, its middle; ``c - tilt - epsilon sgn(tilt)`` for
        a single c.

    Notes
    -----
    The slope of the sum falls from end to end of the intervals [c_s - epsilon, c_s + epsilon],
    linearly between two ends: it is followed from the lowest end upwards to where it is -tilt.
    """
    without: Array = _mean(centres, taken) - tilt / _count(taken, tilt)
    if not epsilon.any():
        return without
    xp, first = namespace(tilt), taken.argmax(axis=1)
    weight = like(taken[:, :, None], tilt)
    centres = xp.where(weight > 0, centres, centres[np.arange(len(first)), first][:, None])
    weight = xp.broadcast_to(weight, centres.shape)
    ends = xp.concat([centres - epsilon[:, None], centres + epsilon[:, None]], axis=1)
    order = xp.argsort(ends, axis=1, stable=True)
    ends = xp.take_along_axis(ends, order, axis=1)
    turn = xp.take_along_axis(xp.concat([weight, -weight], axis=1), order, axis=1)
    count = _count(taken, tilt)
    low, active = ends[:, 0], xp.broadcast_to(count, tilt.shape)
    pulled = count * (_mean(centres, taken) - epsilon - low)  # by all c_s, at the lowest end
    x = low + (pulled - tilt) / count
    for m in range(ends.shape[1] - 1):
        low, high = ends[:, m], ends[:, m + 1]
        active = active - turn[:, m]
        after = pulled - active * (high - low)
        inside = (tilt < pulled) & (tilt >= after) & (active > 0)
        x = xp.where(inside, low + (pulled - tilt) / xp.maximum(active, 1), x)
        flat = (active == 0) & (tilt == 0)
        x = xp.where(flat, low + (high - low) / 2, x)
        pulled = xp.where(active > 0, after, 0)  # exactly, within the tolerance of all
    x = xp.where(tilt < pulled, ends[:, -1] + (pulled - tilt) / count, x)
    found: Array = xp.where(epsilon > 0, x, without)
    return found


def _count(taken: Bools, tilt: Array) -> Array:
    """Return the number of terms (K, 1), in the type of the tilt."""
    return like(taken.sum(axis=1)[:, None], tilt)


def _mean(centres: Array, taken: Bools) -> Array:
    """Return the means (K, p) of those taken, added one by one: alike in every stack."""
    xp, counts = namespace(centres), like(taken, centres)
    total = xp.zeros_like(centres[:, 0])
    for s in range(centres.shape[1]):
        total += xp.where(counts[:, s, None] > 0, centres[:, s], 0)
    mean: Array = total / _count(taken, total)
    return mean
