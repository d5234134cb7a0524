"""LIBSVM files: what is read, and what is refused with the line."""

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.datasets.tablefile import is_file, load_file


@pytest.fixture
def libsvm(tmp_path):
    def write(text, name="data.libsvm"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_rows_are_labels_and_the_features_that_are_not_zero(libsvm):
    path = libsvm("2 1:0.5 4:-1e1\n\n1 2:1 # a comment 3:7\n# nothing\n2\n", "data.svm")
    table = load_file(path, None, "binary")
    assert table.X.tolist() == [[0.5, 0, 0, -10], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert table.y.tolist() == [1, 0, 1]
    assert table.labels == ("1", "2")  # integers, as they are in the file
    assert table.names == ("1", "2", "3", "4")
    assert table.client is None


def test_labels_of_a_regression_are_numbers_and_features_need_no_order(libsvm):
    table = load_file(libsvm("-0.25 3:1 1:2\n+1.5 2:4\n"), None, "regression")
    assert table.y.tolist() == [-0.25, 1.5]
    assert table.X.tolist() == [[2, 0, 1], [0, 4, 0]]


def test_a_test_file_may_name_fewer_features_and_other_ones_do_not_count(libsvm):
    train = load_file(libsvm("-1 1:1 3:1\n+1 2:1\n"), None, "binary")
    test = load_file(libsvm("+1 1:5 9:1\n", "test.libsvm"), None, "binary", like=train)
    assert test.X.tolist() == [[5, 0, 0]]
    assert test.y.tolist() == [1]
    short = load_file(libsvm("-1 1:5\n", "short.libsvm"), None, "binary", like=train)
    assert short.X.tolist() == [[5, 0, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n1 x\n", "line 2 found '1 x', not a number and feature:value pairs"),
        ("1 1:\n", "line 1 found '1 1:', not a number"),
        ("1 qid:3 1:1\n", "line 1 found '1 qid:3 1:1', not a number"),
        ("1,2 1:1\n", "line 1 found '1,2 1:1', not a number"),
        ("1 0:1\n", "line 1 names feature 0; features count from 1 to at most 20,000"),
        ("1 20001:1\n", "line 1 names feature 20001; features count from 1 to at most"),
        ("\n1 2:1 2:1\n", "line 2 names a feature twice; leave one out"),
        ("1 1:nan\n2 1:1\n", "column '1', row 1"),
        ("1 1:1\n2 2:inf\n", "column '2', row 2 is infinite"),
        ("nan 1:1\n", "column 'y', row 1"),
        ("", "has no rows"),
        ("1\n2\n", "has no feature columns"),
    ],
)
def test_a_row_that_is_none_is_refused_with_its_line(libsvm, text, message):
    with pytest.raises(ScenarioError, match=message) as error:
        load_file(libsvm(text), None, "binary")
    assert "\n" not in str(error.value)
    assert "data.libsvm" in str(error.value)


def test_a_file_that_is_no_text_or_not_there_is_one_line(tmp_path):
    (tmp_path / "bytes.svm").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="cannot be read as LIBSVM"):
        load_file(tmp_path / "bytes.svm", None, "binary")
    with pytest.raises(ScenarioError, match="No such file"):
        load_file(tmp_path / "none.svm", None, "binary")
    assert is_file("a/b.libsvm")
    assert is_file("b.svm")
    assert not is_file("libsvm")


def test_the_mushrooms_have_the_rows_of_the_other_file(real):
    table = load_file(real.home / "mushroom" / "mushrooms.libsvm", None, "binary")
    assert table.X.shape == (8124, 112)
    assert (table.X.sum(axis=1) == 21).all()
    assert np.bincount(table.y).tolist() == [3916, 4208]
