import numpy as np
import pytest

from rayfed.datasets import Boston


def test_published_counts_and_moments(real):
    table = Boston(standardise=False).load(real, 0)
    assert table.X.shape == (506, 13)
    assert table.classes == 0
    assert table.y.mean() == pytest.approx(22.5328, abs=5e-5)
    assert table.y.std(ddof=1) == pytest.approx(9.1971, abs=5e-5)
    assert (table.y == 50).sum() == 16
    assert table.column("CHAS").sum() == 35
    assert table.column("CRIM").mean() == pytest.approx(3.6135, abs=5e-5)


def test_the_features_are_standardised_and_the_target_is_not(real):
    table = Boston().load(real, 0)
    np.testing.assert_allclose(table.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(table.X.std(axis=0), 1)
    assert table.y.max() == 50
