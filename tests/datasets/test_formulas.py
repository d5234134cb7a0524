"""Tables of formulas: points lie where the formula says."""

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.datasets import Disc, Line
from rayfed.datasets.base import Source


def test_without_noise_the_points_are_on_the_line():
    table = Line(noise=0.0, samples=50).load(Source(), 0)
    np.testing.assert_allclose(table.y, 2 * table.X[:, 0] + 30)
    assert table.X.shape == (50, 1)
    assert -1 < table.X.min() < -0.8 < 0.8 < table.X.max() < 1


def test_a_fit_finds_the_line_again():
    table = Line(samples=20000, slope=-3.0, intercept=1.0, noise=0.5, low=0, high=4).load(
        Source(), 1
    )
    slope, intercept = np.polyfit(table.X[:, 0], table.y, 1)
    # standard errors: 0.5 / (sqrt(20000) sd(x)) = 0.0031 and twice that
    assert slope == pytest.approx(-3.0, abs=4 * 0.0031)
    assert intercept == pytest.approx(1.0, abs=4 * 0.0071)
    residual = table.y - slope * table.X[:, 0] - intercept
    assert residual.std() == pytest.approx(0.5, rel=0.03)


def test_a_range_from_high_to_low_is_refused():
    with pytest.raises(ScenarioError, match=r"found low 2 above high -2\.5; exchange them"):
        Line(low=2, high=-2.5)


N = 20000


def distances(**settings):
    table = Disc(samples=N, **settings).load(Source(), 0)
    assert table.X.shape == (N, 2)
    assert not table.y.any()
    off = table.X - [10, 10]
    # standard errors: a coordinate's deviation is at most radius / sqrt(2)
    assert off.mean(axis=0) == pytest.approx([0, 0], abs=4 * 5 / np.sqrt(2 * N))
    return np.linalg.norm(off, axis=1)


def test_distances_are_uniform_as_in_the_study():
    found = distances()
    assert 4.99 < found.max() < 5
    # a quarter is within a quarter of the radius, up to four standard errors
    assert (found < 1.25).mean() == pytest.approx(1 / 4, abs=4 * np.sqrt(3 / 16 / N))


def test_or_the_area_is():
    found = distances(spread="area")
    assert 4.99 < found.max() < 5
    assert (found < 1.25).mean() == pytest.approx(1 / 16, abs=4 * np.sqrt(15 / 256 / N))
    # half of the area is within radius / sqrt(2)
    assert (found < 5 / np.sqrt(2)).mean() == pytest.approx(1 / 2, abs=4 * np.sqrt(1 / 4 / N))


def test_centre_and_radius():
    table = Disc(x=-3.0, y=2.0, radius=0.5).load(Source(), 0)
    distance = np.linalg.norm(table.X - [-3, 2], axis=1)
    assert 0.45 < distance.max() < 0.5
    assert len(table.y) == 200
