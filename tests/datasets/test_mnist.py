"""MNIST and Fashion-MNIST as published, and EMNIST in small files of the published layout."""

import numpy as np
import pytest
from scipy.io import savemat

from rayfed.core.errors import DataMissing, ScenarioError
from rayfed.datasets import EMNIST, MNIST, FashionMNIST, Writers
from rayfed.datasets.base import Source
from rayfed.datasets.mnist import parse_idx
from rayfed.datasets.split import split
from rayfed.datasets.table import Rows


@pytest.fixture(scope="module")
def digits(real):
    return MNIST().load(real, 0)


def test_idx_files_of_several_dimensions_and_types():
    header = bytes([0, 0, 12, 2, 0, 0, 0, 2, 0, 0, 0, 1])
    assert parse_idx(header + bytes([0, 0, 1, 0, 255, 255, 255, 254])).tolist() == [[256], [-2]]


def test_published_counts(digits):
    assert digits.X.shape == (60000, 784)
    assert digits.shape == (1, 28, 28)
    assert np.bincount(digits.y).tolist() == [
        *(5923, 6742, 5958, 6131, 5842),
        *(5421, 5918, 6265, 5851, 5949),
    ]
    assert digits.test is not None
    assert np.bincount(digits.test.y).tolist() == [
        *(980, 1135, 1032, 1010, 982),
        *(892, 958, 1028, 974, 1009),
    ]


def test_published_moments(digits):
    assert digits.X.mean() / digits.scale == pytest.approx(0.1306605, abs=1e-7)
    assert digits.X.std() / digits.scale == pytest.approx(0.3081078, abs=1e-7)


def test_every_digit_has_its_writer(digits):
    found = split(digits, Writers(), None, 0, 0.0)
    sizes = np.diff(found.train.offsets)
    assert found.clients == 539
    assert (sizes.min(), np.median(sizes), sizes.max()) == (19, 116, 131)


def test_the_first_images_of_each_class(real, digits):
    few = MNIST(limit=3, writers=True).load(real, 0)
    assert np.bincount(few.y).tolist() == [3] * 10
    # the first training digits are 5 0 4 1 9 2 1 3 1 4 3 ...
    assert few.y[:9].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1]
    np.testing.assert_array_equal(few.X[:9], digits.X[:9])
    np.testing.assert_array_equal(few.writer[:9], digits.writer[:9])
    assert few.test is not None
    assert len(few.test.y) == 10000


def test_standardised_by_the_training_images(real):
    table = MNIST(limit=50, standardise=True).load(real, 0)
    assert table.test is not None
    np.testing.assert_allclose(table.X.mean(axis=0), 0, atol=1e-10)
    assert abs(table.test.X).max() > 0
    assert abs(table.test.X.mean(axis=0)).max() > 0.01
    assert table.scale == table.test.scale == 1


def test_moved_by_two_numbers_as_published_code_does(real):
    plain, moved = (
        Rows.of(MNIST(limit=2, standardise=how).load(real, 0), dtype="float32", intercept=True)
        for how in (False, (0.1307, 0.3081))
    )
    np.testing.assert_allclose(moved.X[:, :-1], (plain.X[:, :-1] - 0.1307) / 0.3081, atol=2e-6)
    assert (moved.X[:, -1] == 1).all()


def test_fashion_mnist(real):
    table = FashionMNIST().load(real, 0)
    assert np.bincount(table.y).tolist() == [6000] * 10
    assert table.test is not None
    assert np.bincount(table.test.y).tolist() == [1000] * 10
    assert table.X.mean() / 255 == pytest.approx(0.2860, abs=5e-5)
    assert table.X.std() / 255 == pytest.approx(0.3530, abs=5e-5)
    assert table.writer is None


LETTERS = [(1, ord("A")), (2, ord("B")), (3, ord("C"))]


def part(labels, writers):
    """Return images that are white in one pixel: row 3, column 20 + label."""
    images = np.zeros((len(labels), 28, 28), np.uint8)
    images[np.arange(len(labels)), 3, 20 + np.array(labels)] = 255
    by_columns = images.swapaxes(1, 2).reshape(-1, 784)
    return {"images": by_columns, "labels": np.array(labels)[:, None], "writers": writers}


@pytest.fixture
def home(tmp_path):
    held = {
        "train": part([3, 1, 1], np.array([[2101], [7], [7]])),
        "test": part([2], np.array([[9]])),
        "mapping": np.array(LETTERS),
    }
    (tmp_path / "emnist").mkdir()
    savemat(tmp_path / "emnist" / "emnist-letters.mat", {"dataset": held})
    return tmp_path


def test_images_stand_upright_and_have_writers(home):
    table = EMNIST(split="letters").load(Source(home=home), 0)
    assert (table.classes, table.labels, table.shape) == (3, ("A", "B", "C"), (1, 28, 28))
    assert table.y.tolist() == [2, 0, 0]
    assert table.writer.tolist() == [2101, 7, 7]
    images = table.X.reshape(-1, 28, 28)
    assert np.argwhere(images).tolist() == [[0, 3, 23], [1, 3, 21], [2, 3, 21]]
    assert table.test is not None
    assert table.test.y.tolist() == [1]


def test_missing_and_damaged_files_are_refused(home):
    with pytest.raises(DataMissing, match=r"'emnist/emnist-byclass.mat' is not available; get"):
        EMNIST().load(Source(home=home), 0)
    (home / "emnist" / "emnist-digits.mat").write_bytes(b"no MATLAB file" * 20)
    with pytest.raises(ScenarioError, match="cannot be read as EMNIST's MATLAB file"):
        EMNIST(split="digits").load(Source(home=home), 0)
