import hashlib
import lzma
from importlib import resources

import numpy as np
import pytest

from rayfed.datasets import Mushroom
from rayfed.datasets.base import Source
from rayfed.datasets.mushroom import ATTRIBUTES


def load(**settings):
    return Mushroom(**settings).load(Source(), 0)


def test_the_shipped_file_is_that_of_uci():
    packed = resources.files("rayfed.datasets") / "files" / "agaricus-lepiota.data.xz"
    digest = hashlib.sha256(lzma.decompress(packed.read_bytes())).hexdigest()
    assert digest == "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"


def test_all_rows_one_hot():
    table = load()
    assert table.X.shape == (8124, 117)
    assert np.bincount(table.y).tolist() == [4208, 3916]  # edible, poisonous
    assert table.X.sum() == 8124 * 22
    assert set(np.unique(table.X)) == {0.0, 1.0}
    assert table.column("stalk-root=?").sum() == 2480


def test_the_first_row_of_the_file():
    # p,x,s,n,t,p,...: poisonous, convex cap, smooth, brown, bruises, pungent odor
    table = load()
    assert table.y[0] == 1
    for name in ("cap-shape=x", "cap-surface=s", "cap-color=n", "bruises=t", "odor=p"):
        assert table.column(name)[0] == 1
    assert table.column("cap-shape=b")[0] == 0


def test_fedhybrid_drops_the_rows_with_a_missing_root():
    table = load(missing="drop")
    assert table.X.shape == (5644, 98)
    assert "stalk-root=?" not in table.names


def test_attributes_as_numbers():
    table = load(encoding="label")
    assert table.X.shape == (8124, 22)
    assert table.names == ATTRIBUTES
    # cap-shape takes the letters b c f k s x: x is number 5; stalk-root ? b c e r: e is 3
    assert table.column("cap-shape")[0] == 5
    assert table.column("stalk-root")[0] == 3


def test_standardised_columns():
    X = load(standardise=True).X
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    # veil-type has one value only
    assert np.sort(X.std(axis=0))[:2] == pytest.approx([0.0, 1.0])


def test_the_copy_is_that_of_the_folder_of_data_sets(real):
    text = (real.home / "mushroom" / "agaricus-lepiota.data").read_text()
    poisonous = [line[0] == "p" for line in text.split()]
    np.testing.assert_array_equal(load().y, poisonous)
