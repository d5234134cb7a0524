"""Axes around data."""

import math

import numpy as np
import pytest

from rayfed.report.figures.style import y_range

LOSS = math.log(2)


@pytest.mark.parametrize(
    ("values", "log", "expected"),
    [
        ([1.0, 3.0], False, [0.92, 3.08]),
        ([-3.0, -1.0, np.nan], False, [-3.08, -0.92]),
        ([10.0, 1000.0, 0.0], True, [0.92, 3.08]),
        ([0.0, 0.0], False, [-0.04, 0.04]),
        ([-5.0], False, [-5.2, -4.8]),
        ([1.0, 1.0 + 1e-9], False, [1 - 4e-11, 1 + 1.04e-9]),
    ],
)
def test_a_range_has_a_margin_of_4_percent(values, log, expected):
    np.testing.assert_allclose(y_range([np.array(values)], log), expected, rtol=1e-14)


def test_values_that_differ_by_rounding_have_the_range_of_equal_ones():
    """Plotly draws no ticks on less, and writes errors to the console."""
    apart = np.array([LOSS, np.nextafter(LOSS, 1)])
    np.testing.assert_allclose(y_range([apart], False), [0.96 * LOSS, 1.04 * LOSS], rtol=1e-14)
    assert y_range([np.array([])], False) is None
