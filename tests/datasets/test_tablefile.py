from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.datasets.tablefile import is_file, load_file


@pytest.fixture
def csv(tmp_path):
    def write(text, name="data.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_regression_with_clients(csv):
    table = load_file(csv("a,client,y,b\n1,10,5,0.5\n2,9,6,1\n3,10,7,2\n"), None, "regression")
    assert table.names == ("a", "b")
    assert table.X.tolist() == [[1, 0.5], [2, 1], [3, 2]]
    assert table.y.tolist() == [5, 6, 7]
    assert table.client is not None
    assert table.client.tolist() == [1, 0, 1]  # 9 before 10: numbers sort as numbers
    assert table.classes == 0


def test_text_labels_and_text_clients(csv):
    text = "kind,client,a\ndog,b,1\ncat,a,2\ndog,c,3\n"
    table = load_file(csv(text), "kind", "binary")
    assert table.y.tolist() == [1, 0, 1]
    assert table.labels == ("cat", "dog")
    assert table.y.dtype == np.int64
    assert table.client is not None
    assert table.client.tolist() == [1, 0, 2]


def test_labels_that_are_numbers_are_counted_from_zero(csv):
    table = load_file(csv("y,a\n7,0\n-1,0\n3,0\n7,0\n"), None, "multiclass")
    assert table.y.tolist() == [2, 0, 1, 2]
    assert (table.classes, table.labels) == (3, (-1, 3, 7))
    assert table.client is None


def test_truth_values_are_features(csv):
    assert load_file(csv("y,a\n1,True\n2,False\n"), None, "regression").X.ravel().tolist() == [1, 0]


@pytest.mark.parametrize("name", ["data.parquet", "data.csv.gz"])
def test_other_formats_hold_the_same(tmp_path, csv, name):
    text = "a,y,client\n1.25,0,u\n2,1,v\n"
    plain = load_file(csv(text), None, "binary")
    frame = pd.DataFrame({"a": [1.25, 2.0], "y": [0, 1], "client": ["u", "v"]})
    path = tmp_path / name
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    table = load_file(path, None, "binary")
    np.testing.assert_array_equal(table.X, plain.X)
    np.testing.assert_array_equal(table.y, plain.y)
    np.testing.assert_array_equal(table.client, plain.client)


def test_the_test_file_takes_over_columns_and_classes(csv):
    train = load_file(csv("b,a,y,client\n1,2,u,0\n3,4,w,1\n5,6,v,1\n"), None, "multiclass")
    test = load_file(csv("y,a,b\nw,40,30\nu,20,10\n", "test.csv"), None, "multiclass", like=train)
    assert test.X.tolist() == [[30, 40], [10, 20]]
    assert test.y.tolist() == [2, 0]
    assert test.classes == 3
    with pytest.raises(ScenarioError, match="holds 'x', a class that is not in the training data"):
        load_file(csv("y,a,b\nx,1,1\n", "test.csv"), None, "multiclass", like=train)
    with pytest.raises(ScenarioError, match="has no column 'b', a feature of the training data"):
        load_file(csv("y,a\nu,1\n", "test.csv"), None, "multiclass", like=train)
    assert replace(train, test=test).test is test


@pytest.mark.parametrize(
    ("text", "target", "task", "message"),
    [
        ("a,b\n1,2\n", None, "regression", "has no target column 'y'; the columns are a, b. Set"),
        ("a,price\n1,2\n", "prize", "regression", "did you mean 'price'? Set problem.target"),
        ("a,y\n1,2\nx7,3\n", None, "regression", "column 'a', row 2 holds 'x7'; turn it"),
        ("a,y\n1,2\n3,z\n", None, "regression", "column 'y', row 2 holds 'z'"),
        ("a,y\n1,2\n3,4\n,5\n", None, "regression", "column 'a', row 3 is empty or NaN"),
        ("a,y\nNaN,2\n", None, "regression", "column 'a', row 1 is empty or NaN"),
        ("a,y\n1,\n", None, "binary", "column 'y', row 1 is empty or NaN"),
        ("a,y,client\n1,2,\n", None, "regression", "column 'client', row 1 is empty"),
        ("a,y\n1,2\ninf,2\n", None, "regression", "column 'a', row 2 is infinite"),
        ("a,y\n", None, "regression", "has no rows; give at least one below the header"),
        ("", None, "regression", "cannot be read as CSV (No columns to parse from file)"),
        ("a,y\n1,2,3,4\n1,2\n1,2,3,4,5,6\n", None, "regression", "cannot be read as CSV"),
        ("y,client\n1,2\n", None, "regression", "has no feature columns beside 'y'"),
        ("a,y\n1,0\n1,1\n1,2\n", None, "binary", "has 3 classes where the problem takes 2"),
        ("a,y\n1,0\n1,0\n", None, "binary", "has 1 class where the problem takes 2"),
        ("a,y\n1,0\n1,0\n", None, "multiclass", "has 1 class; at least 2 are needed"),
        ("a,y\n1,0.5\n1,1.5\n", None, "binary", "holds numbers such as 0.5, not classes"),
    ],
)
def test_what_is_wrong_is_one_line(csv, text, target, task, message):
    path = csv(text)
    with pytest.raises(ScenarioError) as error:
        load_file(path, target, task)
    line = str(error.value)
    assert message in line
    assert line.startswith(str(path))
    assert "\n" not in line


def test_a_missing_file(tmp_path):
    with pytest.raises(ScenarioError, match=r"no\.csv: cannot be read: No such file"):
        load_file(tmp_path / "no.csv", None, "regression")


def test_files_that_are_not_what_their_name_says(csv):
    with pytest.raises(ScenarioError, match="cannot be read as Parquet"):
        load_file(csv("a,y\n1,2\n", "data.parquet"), None, "regression")
    with pytest.raises(ScenarioError, match="cannot be read as CSV"):
        load_file(csv("a,y\n1,2\n", "data.csv.gz"), None, "regression")


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), "'2024-01-01 00:00:00'"),
        ([[1.0, 2.0], [3.0]], r"'\[1. 2.\]'"),
        (pd.Categorical(["red", "blue"]), "'red'"),
    ],
)
def test_cells_that_are_no_numbers_are_refused(tmp_path, cells, shown):
    path = tmp_path / "data.parquet"
    pd.DataFrame({"a": cells, "y": [1.0, 2.0]}).to_parquet(path)
    with pytest.raises(ScenarioError, match=f"column 'a', row 1 holds {shown}; turn it into"):
        load_file(path, None, "regression")


def test_decimals_and_missing_integers(tmp_path):
    path = tmp_path / "data.parquet"
    exact = pd.DataFrame({"a": [Decimal("1.5"), Decimal("2")], "y": [1.0, 2.0]})
    exact.to_parquet(path)
    assert load_file(path, None, "regression").X.ravel().tolist() == [1.5, 2.0]
    exact.assign(a=pd.array([3, None], dtype="Int64")).to_parquet(path)
    with pytest.raises(ScenarioError, match="column 'a', row 2 is empty"):
        load_file(path, None, "regression")


@pytest.mark.parametrize(
    ("name", "file"),
    [("x.csv", True), ("a/b.csv.gz", True), ("c.parquet", True), ("mnist", False), ("csv", False)],
)
def test_which_names_are_files(name, file):
    assert is_file(name) is file
