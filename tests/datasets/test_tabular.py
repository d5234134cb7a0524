"""Tables of real life: what training rows say of columns, worked out by hand."""

import fsspec
import numpy as np
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from rayfed import api
from rayfed.clients.setup import with_table
from rayfed.core.errors import ScenarioError

CELLS = """\
shop,age,colour,sold
north,1,red,3
north,2,blue,4
south,4,red,5
south,,green,6
"""


@pytest.fixture
def planned(tmp_path):
    """Return a function that plans a scenario of a file and returns its run and tables."""

    def plan(text=CELLS, problem=(), scenario=(), **settings):
        (tmp_path / "sales.csv").write_text(text)
        dataset = {"name": "table", "path": str(tmp_path / "sales.csv"), **settings}
        task = {"name": "least-squares", "target": "sold", "intercept": False, "dataset": dataset}
        whole = {"rounds": 1, "algorithms": ["fedavg"], "problem": task | dict(problem)}
        return api.prepare(api.read(whole | dict(scenario)))

    return plan


def rows(plan, part="train"):
    """Return the rows of each client (n_i, d) as its task sees them."""
    view = plan.runs[0].federation.views.training
    whole = with_table(view.shards, plan.tables[view.table])
    ids = np.arange(whole.clients)
    sizes = whole.sizes(ids, part)
    X, _ = whole.rows(ids, int(sizes.max()), part)
    return [X[i, : sizes[i]].tolist() for i in ids]


def wrong(planned, *given, **settings):
    with pytest.raises(ScenarioError) as error:
        planned(*given, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


FULL = CELLS.replace("south,,", "south,5,")


def test_columns_by_name(planned):
    """Ages, and red, for blue and green: values in the order of the alphabet."""
    plan = planned(FULL, client="shop", categorical=["colour"])
    assert plan.runs[0].federation.clients.names == ("north", "south")
    assert rows(plan) == [
        [[1, 0, 0, 1], [2, 1, 0, 0]],  # age, blue, green, red
        [[4, 0, 0, 1], [5, 0, 1, 0]],
    ]
    assert rows(planned(FULL, client="shop", categorical="auto")) == rows(plan)


def test_numbers_that_are_written_as_text_are_no_categories(planned):
    text = "client,a,sold\n0,1.5,1\n1,2.5,2\n"
    assert rows(planned(text, categorical="auto")) == [[[1.5]], [[2.5]]]


def test_standardised_by_the_training_rows_of_all_clients(planned):
    """Ages 1, 2, 4, 5: mean 3, variance (4 + 1 + 1 + 4) / 4 = 2.5; categories stay 0 and 1."""
    made = rows(planned(FULL, client="shop", categorical="auto", standardise=True))
    ages = [row[0] for client in made for row in client]
    np.testing.assert_allclose(ages, np.array([-2, -1, 1, 2]) / np.sqrt(2.5), rtol=1e-12)
    assert made[1][1][1:] == [0, 1, 0]


def test_standardised_by_each_clients_own_rows(planned):
    """Ages 1 and 2, and 4 and 5: each one deviation from its client's mean."""
    made = rows(planned(FULL, client="shop", categorical="auto", standardise="client"))
    np.testing.assert_allclose([r[0] for c in made for r in c], [-1, 1, -1, 1], rtol=1e-12)


def test_empty_cells_are_refused_with_their_number_and_column(planned):
    text = CELLS.replace("north,2", "north,")
    line = wrong(planned, text, client="shop", categorical="auto")
    assert "column 'age', row 2 is empty or NaN, 2 of 4 rows are; fill it or drop" in line
    assert "set missing" in line


def test_rows_with_empty_cells_are_left_out_and_said(planned):
    plan = planned(client="shop", categorical="auto", missing="drop")
    assert rows(plan) == [[[1, 0, 1], [2, 1, 0]], [[4, 0, 1]]]  # green is gone with its row
    note = plan.runs[0].record["data_note"]
    assert note == "1 of 4 rows have an empty cell and are left out; most are in column 'age', 1"


def test_empty_cells_get_the_mean_of_training_rows(planned):
    """(1 + 2 + 4) / 3; a colour that is empty is none of them."""
    text = CELLS.replace("south,4,red", "south,4,")
    made = rows(planned(text, client="shop", categorical="auto", missing="mean"))
    assert made == [[[1, 0, 0, 1], [2, 1, 0, 0]], [[4, 0, 0, 0], [7 / 3, 0, 1, 0]]]
    text = "client,a,b,sold\n0,,1,1\n1,,2,2\n"
    assert "column 'a' is empty in every training row" in wrong(planned, text, missing="mean")


def test_held_out_rows_say_nothing_of_the_columns(planned):
    """The held-out rows have other ages and a colour of their own; which they are is drawn."""
    lines = [f"{k % 2},{k},{'red' if k % 4 else 'rare'},{k}" for k in range(40)]
    text = "\n".join(["client,age,colour,sold", *lines]) + "\n"
    how = {"problem": {"test": 0.5}, "categorical": "auto"}
    raw, made = planned(text, **how), planned(text, standardise=True, **how)
    train, test = (np.concatenate([np.array(c) for c in rows(raw, p)]) for p in ("train", "test"))
    ages = train[:, 0]
    for part, before in (("train", train), ("test", test)):
        after = np.concatenate([np.array(client) for client in rows(made, part)])
        expected = (before[:, 0] - ages.mean()) / ages.std()
        np.testing.assert_allclose(after[:, 0], expected, rtol=1e-12, atol=1e-12)


def test_a_test_file_is_treated_by_the_training_rows(planned, tmp_path):
    """Age 7 is (7 - 3) / sqrt(2.5); grey, which no training row has, is no colour."""
    (tmp_path / "test.csv").write_text("sold,colour,age\n1,grey,7\n2,blue,\n")
    settings = {"client": "shop", "categorical": "auto", "standardise": True, "missing": "mean"}
    plan = planned(FULL, problem={"test": str(tmp_path / "test.csv")}, **settings)
    (name,) = (name for name in plan.tables if name.endswith(":test"))
    expected = [[4 / np.sqrt(2.5), 0, 0, 0], [0, 1, 0, 0]]
    np.testing.assert_allclose(plan.tables[name].X, expected, rtol=1e-12, atol=1e-12)
    settings["standardise"] = "client"
    line = wrong(planned, FULL, problem={"test": str(tmp_path / "test.csv")}, **settings)
    assert line.startswith("problem.dataset.standardise: found client, but test rows")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"client": "shp", "categorical": "auto"}, "unknown column 'shp'; did you mean 'shop'?"),
        ({"categorical": ["color"]}, "unknown feature 'color'; did you mean 'colour'?"),
        ({"client": "shop"}, "column 'colour', row 1 holds 'red'; turn it into a number, or drop"),
        ({"standardize": True}, "unknown key 'standardize'; did you mean 'standardise'?"),
        ({"missing": "median"}, "found 'median'; it should be 'refuse', 'drop' or 'mean'"),
        ({"separator": "::"}, "separator: found '::'; give one character, or blanks"),
        ({"encoding": "cp1253x"}, "encoding: unknown encoding 'cp1253x'; give one that Python has"),
        ({"encoding": "hex"}, "encoding: unknown encoding 'hex'; give one that Python has"),
        (
            {"path": "a.parquet", "columns": ["a"]},
            "and separator, decimal, encoding and columns are",
        ),
        (
            {"path": "a.svm", "separator": ";"},
            "a.svm', and separator, decimal, encoding and columns are of CSV files",
        ),
    ],
)
def test_mistakes(planned, settings, line):
    assert line in wrong(planned, FULL, **settings)


def test_settings_of_the_table_beside_its_path_are_told_their_place(planned):
    line = wrong(planned, FULL, problem={"client": "shop"})
    assert line == (
        "problem.client: unknown key 'client'; write it as "
        "dataset: {name: table, path: ..., client: ...}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "client;age;sold\n0;1,5;1\n1;2,25;2\n",
        "client;age;sold\n0;1.5;1\n1;2.25;2\n",
        'client;"age";sold\r\n0;"1,5";1\r\n1;"2,25";2\r\n',
        "client\tage\tsold\n0\t1,5\t1\n1\t2,25\t2\n",
        "client,age,sold\n0,1.5,1\n1,2.25,2\n",
        'client,"age",sold\n0,"1.5",1\n1,"2.25",2\n',
    ],
)
def test_semicolons_tabs_and_decimal_commas(planned, text):
    assert rows(planned(text)) == [[[1.5]], [[2.25]]]


def test_files_of_other_forms(planned, tmp_path):
    """Without a header, with blanks between cells, in another encoding, with words for gaps."""
    (tmp_path / "it.csv").write_bytes("  0   ?  5\n  1  -9  5\n  0   7  Öl\n".encode("cp1252"))
    form = {"separator": "blanks", "encoding": "cp1252", "columns": ["client", " age", "sold"]}
    form |= {"missing": "drop", "missing_values": ["?", -9, "Öl"], "path": str(tmp_path / "it.csv")}
    assert "has an empty cell in every row; fill them" in wrong(planned, **form)
    form["missing_values"] = ["?", "Öl"]
    assert rows(planned(**form)) == [[[-9]]]


def test_categories_of_a_file_with_gaps_are_those_of_a_test_file_without(planned, tmp_path):
    (tmp_path / "test.csv").write_text("sold,grade\n1,2\n2,10\n3,3\n")
    text = "shop,grade,sold\nnorth,2,3\nnorth,,4\nsouth,10,5\n"
    settings = {"client": "shop", "categorical": ["grade"], "missing": "mean"}
    plan = planned(text, problem={"test": str(tmp_path / "test.csv")}, **settings)
    (name,) = (name for name in plan.tables if name.endswith(":test"))
    assert plan.tables[name].X.tolist() == [[0, 1], [1, 0], [0, 0]]


def test_clients_keep_their_zeros_and_are_found_by_them(planned):
    text = "county,x,sold\n06037,1,1\n01001,2,2\n1001,3,3\nNA,4,4\n"
    groups = [{"ids": ["06037", "NA"], "delay": {"name": "constant", "mean_s": 3}}]
    plan = planned(text, scenario={"clients": {"groups": groups}}, client="county")
    clients = plan.runs[0].federation.clients
    assert clients.names == ("01001", "06037", "1001", "NA")
    assert clients.group_of(np.arange(4)).tolist() == [0, 1, 0, 1]


def test_text_with_commas_is_no_number(planned):
    text = "client;age;where;sold\n0;1.5;1,2;1\n1;2.25;3,4;2\n"
    assert rows(planned(text, categorical=["where"])) == [[[1.5, 1, 0]], [[2.25, 0, 1]]]


def test_a_path_alone_is_the_table_with_its_defaults(planned, tmp_path):
    text = FULL.replace("shop", "client").replace("red", "1").replace("blue", "2")
    text = text.replace("green", "3")
    named = planned(text)
    alone = planned(text, problem={"dataset": str(tmp_path / "sales.csv")})
    assert rows(named) == rows(alone)


def test_seeds_share_no_columns_that_they_split_differently(planned):
    """Without a column of clients the split is drawn, and with it what training rows say."""
    lines = [f"{k},{k * k}" for k in range(20)]
    text = "\n".join(["age,sold", *lines]) + "\n"
    scenario = {"seeds": [0, 1], "clients": {"count": 2}}
    plan = planned(text, {"test": 0.5}, scenario, standardise=True)
    assert len(plan.tables) == 2
    for name, table in plan.tables.items():
        assert np.isfinite(table.X).all(), name
    assert len(planned(text, {"test": 0.5}, scenario).tables) == 1


class Hub(MemoryFileSystem):
    """Stands in for the file system of the Hub."""

    protocol = "hf"
    store = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012


@pytest.fixture
def hugging_face(monkeypatch):
    """Register a file system in memory, with two Parquet files of a data set."""
    monkeypatch.setitem(_registry, "hf", Hub)
    monkeypatch.setattr(Hub, "store", {})
    for number, ages in enumerate(([1.5, 2.5], [3.5])):
        frame = pd.DataFrame({"client": number, "age": ages, "sold": ages})
        with Hub().open(f"/datasets/me/sales/data/train-{number}.parquet", "wb") as file:
            frame.to_parquet(file)
    return "hf://datasets/me/sales/data/train-*.parquet"


def test_data_sets_of_the_hub(planned, hugging_face):
    plan = planned(path=hugging_face)
    assert rows(plan) == [[[1.5], [2.5]], [[3.5]]]
    known = plan.runs[0].record["identity"]["data"]["problem.dataset"]
    assert known["rows"] == 3
    alone = planned(problem={"dataset": hugging_face})
    assert rows(alone) == rows(plan)
    line = wrong(planned, path=hugging_face.replace("train", "valid"))
    assert line.startswith("hf://datasets/me/sales/data/valid-*.parquet: holds no file of that")


def test_splits_of_the_hub(planned, hugging_face):
    """A folder has the training rows of both clients and, of client 1, a test row."""
    frame = pd.DataFrame({"client": [1], "age": [9.5], "sold": [0.0]})
    with Hub().open("/datasets/me/sales/data/test-00000-of-00001.parquet", "wb") as file:
        frame.to_parquet(file)
    folder = hugging_face.removesuffix("/train-*.parquet")
    for path in (folder, f"{folder}/*.parquet"):
        plan = planned(path=path)
        assert rows(plan) == [[[1.5], [2.5]], [[3.5]]]
        assert rows(plan, "test") == [[], [[9.5]]]
        assert plan.runs[0].record["identity"]["data"]["problem.dataset"]["rows"] == 4


def test_without_the_file_system_of_the_hub(planned, monkeypatch):
    def gone(protocol, **options):
        raise ImportError("Install huggingface_hub to access HfFileSystem")

    monkeypatch.setattr(fsspec, "filesystem", gone)
    line = wrong(planned, path="hf://datasets/me/sales/train.parquet")
    assert line.endswith("install it with: pip install 'huggingface-hub>=0.24'")
