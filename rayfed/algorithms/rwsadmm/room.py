"""The room that RWSADMM leaves between a client's model and the token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayfed.core.arrays import Array, Bools

if TYPE_CHECKING:
    from rayfed.clients import Clients


def widths(epsilon: float | tuple[float, ...], clients: Clients) -> Array:
    """Return epsilon of each client (K, 1), given one for all clients or one for each id."""
    dtype = clients.shards.dtype
    if isinstance(epsilon, tuple):
        return np.array(epsilon, dtype=dtype)[clients.ids][:, None]
    return np.full((len(clients.ids), 1), epsilon, dtype=dtype)


def pull(x: Array, z: Array, y: Array, room: Array, beta: float) -> Array:
    """Return S(z + beta (y - x)) (K, p), S the soft threshold at beta times the room (K, 1).

    It is minus the gradient in x of ``beta/2 dist(y - x + z / beta, [-room, room])^2``: the force
    with which the edge of the room pulls at x (K, p), 0 within it.
    """
    pulled = z + beta * (y - x)
    out: Array = np.sign(pulled) * np.maximum(np.abs(pulled) - beta * room, 0)
    return out


def nearest(centres: Array, taken: Bools, tilt: Array, room: Array) -> Array:
    """Return the minimiser in x of ``tilt x + sum_s dist(c_s - x, [-room, room])^2 / 2``.

    Parameters
    ----------
    centres : (K, S, p) array
        The c_s.
    taken : (K, S) array of bool
        Which of them count; one at least for each client.
    tilt : (K, p) array
    room : (K, 1) array

    Returns
    -------
    (K, p) array
        Where all x of an interval are minimisers, its middle; ``c - tilt - room sgn(tilt)`` for a
        single c.

    Notes
    -----
    The slope of the sum falls from end to end of the intervals [c_s - room, c_s + room], linearly
    between two ends: it is followed from the lowest end upwards to where it is -tilt.
    """
    without = _mean(centres, taken) - tilt / _count(taken, tilt)
    if not room.any():
        return np.asarray(without)
    first = taken.argmax(axis=1)
    centres = np.where(taken[:, :, None], centres, centres[np.arange(len(first)), first][:, None])
    weight = np.broadcast_to(taken[:, :, None].astype(tilt.dtype), centres.shape)
    ends = np.concatenate([centres - room[:, None], centres + room[:, None]], axis=1)
    order = np.argsort(ends, axis=1, kind="stable")
    ends = np.take_along_axis(ends, order, axis=1)
    turn = np.take_along_axis(np.concatenate([weight, -weight], axis=1), order, axis=1)
    count = _count(taken, tilt)
    low, active = ends[:, 0], np.broadcast_to(count, tilt.shape)
    pulled = count * (_mean(centres, taken) - room - low)  # by all c_s, at the lowest end
    x = low + (pulled - tilt) / count
    for m in range(ends.shape[1] - 1):
        low, high = ends[:, m], ends[:, m + 1]
        active = active - turn[:, m]
        after = pulled - active * (high - low)
        inside = (tilt < pulled) & (tilt >= after) & (active > 0)
        x = np.where(inside, low + (pulled - tilt) / np.maximum(active, 1), x)
        flat = (active == 0) & (tilt == 0)
        x = np.where(flat, low + (high - low) / 2, x)
        pulled = np.where(active > 0, after, 0)  # exactly, within the room of all
    x = np.where(tilt < pulled, ends[:, -1] + (pulled - tilt) / count, x)
    return np.asarray(np.where(room > 0, x, without))


def _count(taken: Bools, like: Array) -> Array:
    """Return how many are taken (K, 1)."""
    return np.asarray(taken.sum(axis=1)[:, None].astype(like.dtype))


def _mean(centres: Array, taken: Bools) -> Array:
    """Return the means (K, p) of those taken, added one by one: alike in every stack."""
    total = np.zeros_like(centres[:, 0])
    for s in range(centres.shape[1]):
        total += np.where(taken[:, s, None], centres[:, s], 0)
    return total / _count(taken, total)
