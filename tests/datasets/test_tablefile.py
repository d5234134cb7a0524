from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from rayfed.core import files
from rayfed.core.errors import ScenarioError
from rayfed.core.frames import Form
from rayfed.datasets.base import Table
from rayfed.datasets.tablefile import Rules, is_file, load_file


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


def test_names_of_classes_may_be_numbers_with_a_point(csv):
    table = load_file(csv("y,a\nv1.5,0\n1.5,0\nlatest,0\n"), None, "multiclass")
    assert table.labels == ("1.5", "latest", "v1.5")


def test_labels_that_are_numbers_are_counted_from_zero(csv):
    table = load_file(csv("y,a\n7,0\n-1,0\n3,0\n7,0\n"), None, "multiclass")
    assert table.y.tolist() == [2, 0, 1, 2]
    assert (table.classes, table.labels) == (3, ("-1", "3", "7"))
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


def test_several_targets_are_numbers_or_classes(csv):
    text = "client,p,a,q\nx,1,5,0\ny,2,6,1\nx,3,7,-100\n"
    for task, dtype in (("regression", np.float64), ("own", np.int64), ("multiclass", np.int64)):
        table = load_file(csv(text), ["q", "p"], task)
        assert (table.names, table.classes, table.y.dtype) == (("a",), 0, dtype)
        assert table.y.tolist() == [[0, 1], [1, 2], [-100, 3]]
        test = load_file(csv("a,p,q\n1,2,1\n", "test.csv"), ["q", "p"], task, like=table)
        assert (test.y.tolist(), test.y.dtype) == ([[1, 2]], dtype)
    one = load_file(csv(text), ["q"], "regression")
    assert (one.names, one.y.tolist()) == (("p", "a"), [0, 1, -100])
    parts = load_file(csv(text.replace("1,5", "1.5,5")), ["q", "p"], "own")
    assert parts.y.dtype == np.float64
    more = csv("a,p,q\n1,9,1\n", "test.csv")
    with pytest.raises(ScenarioError, match=r"targets hold 9, a class that is not in the training"):
        load_file(more, ["q", "p"], "multiclass", like=table)
    with pytest.raises(ScenarioError, match=r"problem.target: found q, q; name each column once"):
        load_file(more, ["q", "q"], "regression")


def test_rows_without_one_of_several_targets_are_dropped(csv):
    path = csv("a,p,q\n1,2,3\n,2,3\n1,,3\n1,2,\n4,5,6\n")
    table = load_file(path, ["p", "q"], "regression", rules=Rules(missing="drop"))
    assert (table.X.tolist(), table.y.tolist()) == ([[1], [4]], [[2, 3], [5, 6]])


@pytest.mark.parametrize(
    ("text", "target", "task", "message"),
    [
        ("a,b\n1,2\n", None, "regression", "has no target column 'y'; the columns are a, b. Set"),
        ("a,price\n1,2\n", "prize", "regression", "did you mean 'price'? Set problem.target"),
        ("a,y\n1,2\nx7,3\n", None, "regression", "column 'a', row 2 holds 'x7'; turn it"),
        ("a,y\n1,2\n3,z\n", None, "regression", "column 'y', row 2 holds 'z'"),
        ("a,y\n1,2\n3,4\n,5\n", None, "regression", "column 'a', row 3"),
        ("a,y\nNaN,2\n", None, "regression", "column 'a', row 1"),
        ("a,y\n1,\n", None, "binary", "column 'y', row 1"),
        ("a,y,client\n1,2,\n", None, "regression", "column 'client', row 1 is empty"),
        ("a,y\n1,2\ninf,2\n", None, "regression", "column 'a', row 2 is infinite"),
        ("a,y\n", None, "regression", "has no rows"),
        ("", None, "regression", "cannot be read as CSV (No columns to parse from file)"),
        ("a,y\n1,2,3\n1,2,3\n", None, "regression", "line 2 has 3 cells, but the header has 2"),
        (
            "1,5\n2,6\n",
            None,
            "regression",
            "the first line holds 1, 5. Without a header, set columns",
        ),
        ("a,y\n1,0\n2,0\n3,x\n", None, "regression", "path: ...}; 2 of 3 cells are numbers"),
        ("y,client\n1,2\n", None, "regression", "has no feature columns other than 'y'"),
        ("a,y\n1,0\n1,1\n1,2\n", None, "binary", "has 3 classes where the problem takes 2"),
        ("a,y\n1,0\n1,0\n", None, "binary", "has 1 class where the problem takes 2"),
        ("a,y\n1,0\n1,0\n", None, "multiclass", "has 1 class; at least 2 are needed"),
        ("a,b,y\n1,2,3\n", ["y", "c"], "own", "has no target column 'c'"),
        ("a,b,y\n1,2,x\n", ["b", "y"], "own", "'y', row 1 holds 'x', and several targets are numb"),
        ("a,b,y\n1,2,0.5\n", ["b", "y"], "binary", "'y', row 1 holds 0.5, not a class; number"),
        ("a,b,y\n1,2,-1\n", ["b", "y"], "own", "classes of targets go down to -1; number them"),
        ("a,client\n1,2\n", "client", "regression", "names clients in column 'client'; choose"),
        ("a,client,y\n1,2,3\n", ["y", "client"], "regression", "names clients in column 'client'"),
        ("b,y\n1,2\n", ["b", "y"], "own", "no feature columns other than 'b', 'y'"),
        ("a,b,y\n1,2,\n", ["b", "y"], "regression", "column 'y', row 1 is empty"),
        ("a,y\n1,0.5\n1,1.5\n", None, "binary", "holds numbers such as 0.5, not classes"),
        ("a,y\n1,0.5\n1,2\n1,NA\n", None, "multiclass", "holds numbers such as 0.5, not"),
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


IDS = ["06037", "1001", "01001", "NA", "None", "null", "nan", "1e5", "100000"]


def test_clients_and_classes_are_texts(csv):
    """Names as they are written, each its own, in the order of texts."""
    rows = "".join(f"{name},{k},{name}\n" for k, name in enumerate([*IDS, *IDS]))
    table = load_file(csv(f"who,x,y\n{rows}"), None, "multiclass", rules=Rules(client="who"))
    assert table.client_names == table.labels == tuple(sorted(IDS))
    expected = [sorted(IDS).index(name) for name in [*IDS, *IDS]]
    assert table.client is not None
    assert table.client.tolist() == table.y.tolist() == expected


def test_names_that_are_all_numbers_are_in_their_order(csv):
    """31 digits differ in the last; 9.0 is 9, as programs write it in a column with gaps."""
    long = 30 * "7"
    ids = [f"{long}1", f"{long}0", "9.0", "10", "9", "010"]
    rows = "".join(f"{name},{k},{name}\n" for k, name in enumerate(ids))
    table = load_file(csv(f"client,x,y\n{rows}"), None, "multiclass")
    assert table.labels == table.client_names == ("9", "010", "10", *sorted(ids[:2]))
    assert table.client is not None
    assert table.client.tolist() == [4, 3, 0, 2, 0, 1]


def test_a_word_for_nothing_among_numbers_is_noted(csv):
    """NA is a class like 3 and 4, as it is written, unless it is said to be an empty cell."""
    path = csv("y,x,client\n3,1,a\nNA,2,NA\n4,3,b\n")
    table = load_file(path, None, "multiclass")
    assert table.labels == ("3", "4", "NA")
    assert table.note == (
        "in column 'y', of numbers otherwise, 'NA' is a value like others; if it is none, list it "
        "in missing_values of dataset: {name: table, path: ...}"
    )
    table = load_file(path, None, "binary", rules=Rules(missing="drop", form=Form(missing=("NA",))))
    assert table.note.startswith("1 of 3 rows have an empty cell and are left out")


@pytest.mark.parametrize("written", [["0", "1", "0"], ["0.0", "1.0", "0.0"]])
def test_clients_that_are_their_numbers_have_no_names(csv, written):
    rows = "".join(f"{name},{k},0\n" for k, name in enumerate(written))
    table = load_file(csv(f"client,x,y\n{rows}"), None, "regression")
    assert table.client_names == ()
    assert table.client is not None
    assert table.client.tolist() == [0, 1, 0]


GRADES = {
    "csv": "grade,y\n2,0\n10,1\n2,1\n",
    "csv with gaps": "grade,y\n2.0,0\n10.0,1\n2.0,1\n",
    "parquet": pd.DataFrame({"grade": [2, 10, 2], "y": [0, 1, 1]}),
    "parquet with gaps": pd.DataFrame({"grade": [2.0, 10.0, 2.0], "y": [0.0, 1.0, 1.0]}),
    "nullable": pd.DataFrame({"grade": pd.array([2, 10, 2], "Int64"), "y": ["0", "1", "1"]}),
    "categories": pd.DataFrame({"grade": pd.Categorical([2, 10, 2]), "y": [0, 1, 1]}),
    "texts": pd.DataFrame({"grade": ["2", "10", "2"], "y": ["0", "1.0", "1"]}),
    "decimals": pd.DataFrame({"grade": [Decimal("2.00"), Decimal(10), Decimal(2)], "y": [0, 1, 1]}),
}


@pytest.mark.parametrize("train", GRADES)
@pytest.mark.parametrize("test", GRADES)
def test_categories_and_classes_of_a_test_file_of_another_type(tmp_path, train, test):
    rules, tables = Rules(categorical=("grade",), missing="mean"), []
    for name, cells in (("train", GRADES[train]), ("test", GRADES[test])):
        path = tmp_path / f"{name}.{'csv' if isinstance(cells, str) else 'parquet'}"
        path.write_text(cells) if isinstance(cells, str) else cells.to_parquet(path)
        like = tables[0] if tables else None
        tables.append(load_file(path, None, "binary", like, rules))
    for table in tables:
        assert table.X.tolist() == [[0, 1], [1, 0], [0, 1]]  # 10 before 2, in the order of texts
        assert table.y.tolist() == [0, 1, 1]


def test_a_test_file_without_any_known_category_is_refused(csv):
    rules = Rules(categorical=("kind",), missing="mean")
    train = load_file(csv("kind,y\na,0\nb,1\n"), None, "binary", rules=rules)
    some = load_file(csv("kind,y\nc,0\nb,1\n,0\n", "test.csv"), None, "binary", train, rules)
    assert some.X.tolist() == [[0, 0], [0, 1], [0, 0]]
    line = r"test\.csv: column 'kind' holds no value of the training data, but such as 'A'; write"
    with pytest.raises(ScenarioError, match=line):
        load_file(csv("kind,y\nA,0\nB,1\n", "test.csv"), None, "binary", train, rules)


def test_a_test_file_of_training_data_without_names_is_refused(csv):
    given = Table(np.zeros((2, 1)), np.zeros(2))
    with pytest.raises(ScenarioError, match="as the features of the training data have no names"):
        load_file(csv("a,y\n1,0\n"), None, "regression", given)


def test_numbers_of_the_training_data_are_numbers_in_test_files(csv):
    rules = Rules(categorical="auto")
    train = load_file(csv("a,y\n1,0\n2,1\n"), None, "binary", rules=rules)
    with pytest.raises(
        ScenarioError, match=r"test\.csv: column 'a', row 1 holds 'x'; turn it into"
    ):
        load_file(csv("a,y\nx,0\nz,1\n", "test.csv"), None, "binary", train, rules)


def auto(path, **form):
    rules = Rules(categorical="auto", missing="mean", form=Form(**form))
    return load_file(path, None, "regression", rules=rules)


def test_auto_looks_at_the_whole_column(csv):
    cells = "".join(f"{'?' if k % 30 == 7 else k / 2},{k % 2}\n" for k in range(300))
    line = (
        r"column 'chol', row 8 holds '\?'; turn it into a number, or drop the column, or set "
        r"missing_values or categorical in dataset: .*; 290 of 300 cells are numbers"
    )
    with pytest.raises(ScenarioError, match=line):
        auto(csv(f"chol,y\n{cells}"))
    table = auto(csv(f"chol,y\n{cells}"), missing=("?",))
    assert table.names == ("chol",)
    assert np.flatnonzero(np.isnan(table.X[:, 0])).tolist() == list(range(7, 300, 30))


def test_auto_takes_words_for_nothing_as_words_among_words(csv):
    assert auto(csv("a,b,y\nNone,1,0\nMild,NA,1\nNone,3,0\n")).names == ("a=Mild", "a=None", "b")


@pytest.mark.parametrize(
    ("kinds", "rows", "taken"),
    [(256, 600, True), (257, 600, False), (20, 20, True), (21, 41, False), (21, 42, True)],
)
def test_auto_leaves_columns_of_many_texts_to_the_user(csv, kinds, rows, taken):
    cells = "".join(f"flow {k % kinds},{k}\n" for k in range(rows))
    path = csv(f"flow,y\n{cells}")
    if taken:
        assert len(auto(path).names) == kinds
        return
    line = f"column 'flow' has {kinds} different texts in {rows} rows, too many"
    with pytest.raises(ScenarioError, match=f"{line} for unlisted categories; drop it, or list it"):
        auto(path)
    named = load_file(path, None, "regression", rules=Rules(categorical=("flow",)))
    assert len(named.names) == kinds


def test_times_of_parquet_files_are_texts_as_well(tmp_path):
    path = tmp_path / "it.parquet"
    when = pd.to_datetime(["2024-01-01", "2024-01-02"] * 2)
    pd.DataFrame({"when": when, "client": when, "y": range(4)}).to_parquet(path)
    table = auto(path)
    assert table.names == ("when=2024-01-01 00:00:00", "when=2024-01-02 00:00:00")
    assert table.client_names == ("2024-01-01 00:00:00", "2024-01-02 00:00:00")


def test_decimal_commas_beside_points_are_told(csv):
    path = csv("fw;temp;y\n2.0;19,77;0\n2.1;24,27;1\n2.2;20;1\n")
    line = r"column 'temp', row 1 holds '19,77' with a comma, as 2 of 3 cells; set decimal: ','"
    for rules in (Rules(), Rules(categorical="auto")):
        with pytest.raises(ScenarioError, match=line):
            load_file(path, None, "regression", rules=rules)
    table = auto(path, decimal=",")
    assert (table.names, table.X.tolist()) == (
        ("fw", "temp"),
        [[2, 19.77], [2.1, 24.27], [2.2, 20]],
    )


def test_room_is_asked_for_what_categories_become(csv, monkeypatch):
    cells = "".join(f"k{k},{k}\n" for k in range(2000))
    path, rules = csv(f"a,y\n{cells}"), Rules(categorical=("a",))
    monkeypatch.setattr(files, "available_bytes", lambda: 100 * 2**20)
    line = "its 2,000 columns once categories are coded, 2,000 of them of 'a', take about 153 MiB"
    with pytest.raises(ScenarioError, match=line):
        load_file(path, None, "regression", rules=rules)
    monkeypatch.setattr(files, "MOST_COLUMNS", 1999)
    with pytest.raises(
        ScenarioError, match="has 2,000 columns once categories are coded, 2,000 of"
    ):
        load_file(path, None, "regression", rules=rules)


def test_infinite_numbers_are_empty_cells_if_these_are_allowed(csv):
    path = csv("a,y\n1,2\nInfinity,3\n-inf,4\n5,6\n")
    mean, drop = (
        load_file(path, None, "regression", rules=Rules(missing=missing))
        for missing in ("mean", "drop")
    )
    assert np.isnan(mean.X[:, 0]).tolist() == [False, True, True, False]
    assert (drop.X.tolist(), drop.y.tolist()) == ([[1], [5]], [2, 6])
    assert drop.note.startswith("2 of 4 rows have an empty cell and are left out")
    with pytest.raises(
        ScenarioError, match="row 2 is infinite; give a finite number, or set missing"
    ):
        load_file(path, None, "regression")


def test_names_with_blanks_around_are_found(csv):
    rules = Rules(client="who", categorical=("kind",))
    path = csv(" x, kind , who, Label\n1, a, u, p\n2, b, v, q\n")
    table = load_file(path, " Label", "binary", rules=rules)
    assert (table.names, table.labels) == (("x", "kind=a", "kind=b"), ("p", "q"))
    assert table.client_names == ("u", "v")


@pytest.mark.parametrize(
    ("name", "file"),
    [("x.csv", True), ("a/b.csv.gz", True), ("c.parquet", True), ("mnist", False), ("csv", False)],
)
def test_which_names_are_files(name, file):
    assert is_file(name) is file
