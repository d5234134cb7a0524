"""Checks of mixers of the channel."""

from __future__ import annotations

import numpy as np

from rayfed.channel.mixers import Mixer
from rayfed.core.needs import VECTORS
from rayfed.core.rng import Key
from rayfed.testing.checks.common import require, require_equal

_K, _P = 9, 6


def check_mixed(mixer: Mixer) -> None:
    """Check that vectors keep their type, and inputs stay unchanged."""
    vectors = np.random.default_rng(7).standard_normal((_K, _P)).astype(np.float32)
    before = vectors.copy()
    vectors.flags.writeable = False
    mixed = mixer.mixed(vectors)
    require(mixed.ndim == 2 and mixed.shape[1] == _P, f"{mixer}: {mixed.shape} comes out")
    require(mixed.dtype == vectors.dtype, f"{mixer}: {vectors.dtype} returns {mixed.dtype}")
    require_equal(vectors, before, f"{mixer} changes the vectors")


def check_labels(mixer: Mixer) -> None:
    """Check that one that needs sums alone labels every client, by the key alone."""
    ids = np.arange(3, 3 + _K)
    labels = mixer.labels(ids, Key(1, "round"))
    require((labels is None) == (VECTORS in mixer.needs), f"{mixer}: labels are {labels}")
    if labels is not None:
        right = labels.shape == (_K,) and labels.dtype == np.int64 and labels.min() >= 0
        require(right, f"{mixer}: labels {labels} are not K integers from 0 on")
        require_equal(mixer.labels(ids, Key(1, "round")), labels, f"{mixer} twice")
        count = len(np.unique(labels))
        require(count == mixer.count(_K), f"{mixer}: {count} groups, not {mixer.count(_K)}")
        most = mixer.together(_K)
        require(np.bincount(labels).max() == most, f"{mixer}: no group of {most}, or a larger")
