"""Checks of staleness functions."""

from __future__ import annotations

import numpy as np

from rayfed.algorithms.staleness import Staleness
from rayfed.testing.checks.common import require, require_equal

AGES = np.array([0, 1, 2, 6, 7, 99, 10**6])


def check_factors(function: Staleness) -> None:
    """Check that a fresh reply counts fully, and an older one never more than a younger one."""
    factors = function.factor(AGES)
    require(factors[0] == 1.0, f"{function}: a fresh reply counts {factors[0]}")
    require(np.diff(factors) <= 0, f"{function}: an older reply counts more: {factors}")
    require((factors > 0) & np.isfinite(factors), f"{function}: found {factors}")


def check_single(function: Staleness) -> None:
    """Check that the factor of a reply does not depend on the other replies."""
    apart = np.concatenate([function.factor(AGES[k : k + 1]) for k in range(len(AGES))])
    require_equal(function.factor(AGES), apart, f"{function}: together and apart differ")
