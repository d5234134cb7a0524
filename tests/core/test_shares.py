"""Shares of counts against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from rayfed.core.shares import at_least, at_most, rounded

COUNTS = np.arange(1, 201)
WANTED = {at_least: math.ceil, at_most: math.floor, rounded: round}


@pytest.mark.parametrize(("found", "wanted"), WANTED.items(), ids=["up", "down", "nearest"])
def test_shares_of_two_digits_are_exact(found, wanted):
    for percent in range(101):
        exact = [wanted(Fraction(percent, 100) * int(n)) for n in COUNTS]
        share = float(f"{percent / 100:.2f}")
        assert found(share, COUNTS).tolist() == exact
        assert [found(share, int(n)) for n in COUNTS] == exact


@pytest.mark.parametrize(("found", "wanted"), WANTED.items(), ids=["up", "down", "nearest"])
def test_shares_of_other_forms_are_exact(found, wanted):
    """Thirds and sevenths from Python, six digits, factors above 1, and what sums leave behind."""
    for q in (3, 6, 7, 9, 11, 49):
        for p in range(2 * q):
            assert found(p / q, q) == p
            assert found(p / q, 1000 * q) == 1000 * p
    assert found(0.123456, 1_000_000) == 123_456
    assert found(0.1 + 0.2, 10) == 3
    assert found(1 - 0.9, 10) == 1
    assert found(1.1, 50) == 55
    assert found(0.1, 10**9 + 5) == wanted(Fraction(10**9 + 5, 10))
    assert found(2**31 - 1.0, 10**6) == (2**31 - 1) * 10**6


def test_a_share_is_a_python_int_for_a_python_int():
    assert type(at_least(0.5, 3)) is type(at_most(0.5, 3)) is type(rounded(0.5, 3)) is int
