from pathlib import Path

import numpy as np
import pytest

from rayfed.core.plugins import find
from rayfed.datasets import Dataset, Line
from rayfed.datasets.base import Source, Table, standardise


def test_the_source_knows_the_home_of_the_environment(monkeypatch):
    monkeypatch.setenv("RAYFED_DATA", "/somewhere/data")
    assert Source.here(Path("study")) == Source(Path("study"), Path("/somewhere/data"))
    monkeypatch.delenv("RAYFED_DATA")
    assert Source.here().home is None


def test_standardise_by_hand():
    # mean 2, variance (1 + 1 + 0 + 0)/4 = 1/2; the second column is constant
    X = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [2.0, 5.0]])
    root = np.sqrt(2.0)
    np.testing.assert_allclose(standardise(X), [[-root, 0], [root, 0], [0, 0], [0, 0]], atol=1e-15)


def test_standardise_takes_the_moments_of_other_rows():
    np.testing.assert_allclose(standardise(np.array([[7.0]]), by=np.array([[1.0], [3.0]])), [[5.0]])


def test_standardise_does_not_blow_up_the_rounding_of_a_constant_column():
    X = np.full((10, 1), 0.1)  # the mean of ten 0.1 is not 0.1 in floating point
    np.testing.assert_allclose(standardise(X), 0.0, atol=1e-3)


def test_a_column_is_found_by_name_and_scaled():
    table = Table(np.array([[0, 51], [2, 255]], np.uint8), np.zeros(2), names=("a", "b"), scale=255)
    np.testing.assert_allclose(table.column("b"), [0.2, 1.0])
    with pytest.raises(ValueError, match="not in"):
        table.column("c")


def test_the_data_set_s_own_seed_goes_first():
    source = Source()
    fixed = Line(samples=5, seed=3)
    np.testing.assert_array_equal(fixed.load(source, 0).y, fixed.load(source, 1).y)
    np.testing.assert_array_equal(fixed.load(source, 0).y, Line(samples=5).load(source, 3).y)
    assert (Line(samples=5).load(source, 0).y != Line(samples=5).load(source, 1).y).all()


def test_every_data_set_that_is_found_is_documented():
    found = find("datasets")
    assert {"mushroom", "boston", "mnist", "fashion-mnist", "line", "linear", "synthetic"} <= set(
        found
    )
    for cls in found.values():
        assert issubclass(cls, Dataset)
        assert 0 <= cls.default_test < 1
        assert (cls.__doc__ or "").splitlines()[0].endswith(".")
