"""Axes around data."""

import math

import numpy as np
import pytest

from rayfed.report.figures.style import x_scales, y_range
from rayfed.report.read.results import Results

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


def test_energy_has_the_unit_of_the_longest_run(tmp_path, run_writer, rows):
    for label, last in (("A", 5e6), ("B", 5e3)):
        run_writer(tmp_path, label, 0, rows([1, 0.5], label, energy_j=[0.0, last]))
    scale = x_scales(Results.read(tmp_path))["energy_j"]
    assert (scale["title"], scale["worth"]) == ("energy (MJ)", 1e6)
