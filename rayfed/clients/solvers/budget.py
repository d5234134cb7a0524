"""Numbers of local steps, from seconds or passes over the rows."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError

_MOST = 2.0**62  # what int64 holds, though nobody waits for so many steps
LENGTHS = ("steps", "epochs", "time_s")
_SLACK = 1e-9  # 1.1 passes of 50 batches are 55 steps, though 1.1 * 50 > 55 in floating point


def in_seconds(seconds: float, seconds_per_step: Floats | None) -> Ints:
    """Return how many steps (K,) fit in so many virtual seconds, at least 1.

    Raises
    ------
    ScenarioError
        If no speed is known, or a step takes no time.
    """
    if seconds_per_step is None:
        raise ScenarioError("local.time_s", "no seconds per step are known; give steps")
    if not np.all(seconds_per_step > 0):
        raise ScenarioError("local.time_s", "a step takes no time; give steps or a delay")
    return _at_least_one(np.floor(seconds / seconds_per_step + _SLACK))


def in_passes(passes: Ints | Floats, sizes: Ints, batch: int | None) -> Ints:
    """Return how many steps (K,) so many passes over the rows take, at least 1.

    Parameters
    ----------
    passes : (K,) array
    sizes : (K,) array of int
        Rows n_i.
    batch : int or None
        Rows of a minibatch; all if None.
    """
    per_pass = np.ones_like(sizes) if batch is None else -(-sizes // batch)
    return _at_least_one(np.ceil(passes * per_pass - _SLACK))


def _at_least_one(steps: Floats) -> Ints:
    return np.asarray(np.clip(steps, 1, _MOST), dtype=np.int64)
