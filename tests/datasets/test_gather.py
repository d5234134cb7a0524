"""Tables in several files, planned as scenarios."""

from itertools import chain

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.clients.setup import with_table
from rayfed.core.errors import ScenarioError


@pytest.fixture
def planned(tmp_path):
    """Return a function that plans a regression on a path below a folder."""

    def plan(path, problem=(), scenario=(), **settings):
        dataset = {"name": "table", "path": str(tmp_path / path), **settings}
        task = {"name": "least-squares", "intercept": False, "dataset": dataset}
        whole = {"rounds": 1, "algorithms": ["fedavg"], "problem": task | dict(problem)}
        return api.prepare(api.read(whole | dict(scenario)))

    return plan


def write(folder, **tables):
    """Write tables ``x,y`` of these values of x; y is 0."""
    for name, values in tables.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({"x": np.array(values, float), "y": 0.0}).to_csv(f"{path}.csv", index=False)


def rows(plan, part="train"):
    """Return the first feature of the rows of each client."""
    view = plan.runs[0].federation.views.training
    whole = with_table(view.shards, plan.tables[view.table])
    ids = np.arange(whole.clients)
    sizes = whole.sizes(ids, part)
    X, _ = whole.rows(ids, int(sizes.max()), part)
    return [X[i, : sizes[i], 0].tolist() for i in ids]


def names(plan):
    return plan.runs[0].federation.clients.names


def wrong(plan, *given, **settings):
    with pytest.raises(ScenarioError) as error:
        plan(*given, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_each_file_of_a_pattern_is_a_client(planned, tmp_path):
    write(tmp_path, hospital_b=[3], hospital_a=[1, 2], other=[9])
    plan = planned("hospital_*.csv")
    assert names(plan) == ("a", "b")
    assert rows(plan) == [[1, 2], [3]]
    alone = planned("", problem={"dataset": str(tmp_path / "hospital_*.csv")})
    assert rows(alone) == rows(plan)


def test_numbers_are_in_their_order_and_keep_their_zeros(planned, tmp_path):
    write(tmp_path, s_10=[3], s_9=[2], s_08=[1])
    plan = planned("s_*.csv")
    assert names(plan) == ("08", "9", "10")
    assert rows(plan) == [[1], [2], [3]]


def test_each_file_of_a_folder_is_a_client(planned, tmp_path):
    write(tmp_path / "sites", b=[3], a=[1])
    (tmp_path / "sites" / "README").write_text("a,b")
    (tmp_path / "sites" / ".DS_Store").write_text("x")
    (tmp_path / "sites" / "._a.csv").write_text("x")
    plan = planned("sites")
    assert names(plan) == ("a", "b")
    assert rows(plan) == [[1], [3]]


def test_a_column_of_clients_counts_before_the_files(planned, tmp_path):
    (tmp_path / "d1.csv").write_text("client,x,y\nu,1,0\nv,2,0\n")
    (tmp_path / "d2.csv").write_text("client,x,y\nv,3,0\nu,4,0\n")
    plan = planned("d*.csv", client="client")
    assert rows(plan) == [[1, 4], [2, 3]]
    assert names(plan) == names(planned("d*.csv")) == ("u", "v")
    line = wrong(planned, "d*.csv", client="clinet")
    assert "unknown column 'clinet'; did you mean 'client'?" in line


def test_pieces_of_one_table_are_no_clients(planned, tmp_path):
    write(tmp_path / "t", **{"part-0": [1, 2], "part-1": [3, 4]})
    plan = planned("t", scenario={"clients": {"count": 2}})
    assert sorted(chain(*rows(plan))) == [1, 2, 3, 4]
    assert names(plan) == ()


@pytest.mark.parametrize("client", [None, "center"])
def test_partitions_of_parquet(planned, tmp_path, client):
    frame = pd.DataFrame({"center": [2, 1, 2], "x": [1.0, 2, 3], "y": 0.0})
    frame.to_parquet(tmp_path / "hive", partition_cols=["center"])
    plan = planned("hive", **({"client": client} if client else {}))
    assert names(plan) == ("1", "2")
    assert rows(plan) == [[2], [1, 3]]


def test_two_columns_of_partitions(planned, tmp_path):
    frame = pd.DataFrame({"year": [3, 3, 4], "site": ["b", "a", "a"], "x": [1.0, 2, 3], "y": 0.0})
    frame.to_parquet(tmp_path / "hive", partition_cols=["year", "site"])
    line = wrong(planned, "hive")
    assert "has folders of year, site; name the one of clients in client of the data set" in line
    plan = planned("hive", client="site")
    assert names(plan) == ("a", "b")
    assert rows(plan) == [[2, 3], [1]]
    assert plan.runs[0].record["data"]["features"] == 2  # x and year


@pytest.mark.parametrize("suffix", [".libsvm", ""])
def test_files_of_libsvm(planned, tmp_path, suffix):
    """The second file names feature 3, which rows of the first have as 0."""
    (tmp_path / f"w_a{suffix}").write_text("1 1:5\n2 2:6\n")
    (tmp_path / f"w_b{suffix}").write_text("3 1:7 3:1\n")
    plan = planned(f"w_*{suffix}")
    assert names(plan) == ("a", "b")
    assert rows(plan) == [[5, 0], [7]]
    assert plan.runs[0].record["data"]["features"] == 3


def test_libsvm_files_without_a_suffix(planned, tmp_path):
    """As LIBSVM's site has them, with the test file ``a9a.t``; labels are -1 and 1."""
    (tmp_path / "a9a").write_text("-1 1:5 3:1 \n+1 2:6\n-1 1:7\n")
    (tmp_path / "a9a.t").write_text("+1 1:8\n")
    problem = {"name": "logistic-regression", "test": str(tmp_path / "a9a.t")}
    plan = planned("a9a", problem, {"clients": {"count": 1}})
    assert rows(plan) == [[5, 0, 7]]
    assert plan.runs[0].record["classes"] == ["-1", "1"]
    (name,) = (name for name in plan.tables if name.endswith(":test"))
    assert plan.tables[name].X.tolist() == [[8, 0, 0]]


def test_csv_files_without_a_suffix(planned, tmp_path):
    (tmp_path / "table").write_text("x,y\n1,2\n3,4\n")
    assert rows(planned("table", scenario={"clients": {"count": 1}})) == [[1, 3]]


def test_patterns_of_the_folder_of_data(planned, tmp_path, monkeypatch):
    write(tmp_path / "home", h_a=[1], h_b=[2])
    monkeypatch.setenv("RAYFED_DATA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert rows(planned("", problem={"dataset": "h_*.csv"})) == [[1], [2]]


def test_a_file_whose_name_looks_like_a_pattern(planned, tmp_path):
    write(tmp_path, **{"d[1]": [1, 2], "d1": [3]})
    assert rows(planned("d[1].csv", scenario={"clients": {"count": 1}})) == [[1, 2]]


def test_rows_with_empty_cells_keep_their_split(planned, tmp_path):
    (tmp_path / "a_train.csv").write_text("x,y\n,1\n2,1\n")
    (tmp_path / "a_test.csv").write_text("x,y\n3,1\n,1\n4,1\n")
    plan = planned("a_*.csv", missing="drop", scenario={"clients": {"count": 1}})
    assert rows(plan) == [[2]]
    (name,) = (name for name in plan.tables if name.endswith(":test"))
    assert plan.tables[name].X.tolist() == [[3], [4]]


LAYOUTS = [
    {"train__a": [1, 2], "train__b": [3], "test__a": [4], "val__b": [5, 6]},
    {"a__train": [1, 2], "b__train": [3], "a__test": [4], "b__val": [5, 6]},
    {"a_train": [1, 2], "b_train": [3], "a_test": [4], "b_valid": [5, 6]},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_client_has_its_own_held_out_rows(planned, tmp_path, layout):
    write(tmp_path / "d", **layout)
    plan = planned("d")
    assert names(plan) == ("a", "b")
    assert rows(plan) == [[1, 2], [3]]
    assert rows(plan, "test") == [[4], []]
    assert rows(plan, "validation") == [[], [5, 6]]
    assert plan.runs[0].record["scored"] == "held-out"
    line = wrong(planned, "d", problem={"test": 0.5})
    assert line.endswith("found 0.5, but the data say which rows are for test, 1; leave it out")
    assert line.startswith("problem.test")
    scaled = planned("d", standardise=True)  # training rows 1, 2, 3: variance 2 / 3
    moved = [value for client in rows(scaled) for value in client]
    np.testing.assert_allclose(moved, np.array([-1, 0, 1]) / np.sqrt(2 / 3), rtol=1e-12)
    np.testing.assert_allclose(rows(scaled, "test")[0], [2 / np.sqrt(2 / 3)], rtol=1e-12)


def test_splits_without_clients(planned, tmp_path):
    """Test rows are at the server; validation rows are dealt to clients as training rows are."""
    write(tmp_path / "d", train=[1, 2, 3, 4], test=[5, 6], val=[7, 8])
    plan = planned("d", scenario={"clients": {"count": 2}})
    assert sorted(chain(*rows(plan))) == [1, 2, 3, 4]
    assert sorted(chain(*rows(plan, "validation"))) == [7, 8]
    assert plan.runs[0].record["scored"] == "server"
    (name,) = (name for name in plan.tables if name.endswith(":test"))
    assert plan.tables[name].X.tolist() == [[5], [6]]
    plan = planned("d", scenario={"clients": {"count": 2}}, standardise=True)
    (name,) = (name for name in plan.tables if name.endswith(":test"))
    expected = (np.array([[5], [6]]) - 2.5) / np.sqrt(1.25)
    np.testing.assert_allclose(plan.tables[name].X, expected, rtol=1e-12)


def test_a_test_file_that_says_whose_its_rows_are(planned, tmp_path):
    (tmp_path / "d.csv").write_text("client,x,y\nu,1,0\nv,2,0\n")
    (tmp_path / "t.csv").write_text("y,client,x\n0,v,3\n0,v,4\n")
    test = {"test": str(tmp_path / "t.csv")}
    plan = planned("d.csv", problem=test)
    assert rows(plan, "test") == [[], [3, 4]]
    assert plan.runs[0].record["scored"] == "held-out"
    (tmp_path / "t.csv").write_text("y,client,x\n0,w,3\n")
    line = wrong(planned, "d.csv", problem=test)
    assert "t.csv: client 'w' has test rows, but no training rows; unknown client 'w'" in line


def test_test_files_of_clients(planned, tmp_path):
    write(tmp_path, train__h_a=[1], train__h_b=[2], test__h_b=[3], test__h_a=[4])
    plan = planned("train/*.csv", problem={"test": str(tmp_path / "test" / "*.csv")})
    assert rows(plan) == [[1], [2]]
    assert rows(plan, "test") == [[4], [3]]


def test_a_study_knows_when_one_of_its_files_has_changed(planned, tmp_path):
    write(tmp_path / "d", a=[1], b=[2])
    digests = set()
    for values in ([2], [2], [3]):
        write(tmp_path / "d", b=values)
        digests.add(planned("d").runs[0].record["identity"]["digest"])
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("files", "path", "line"),
    [
        ({"a.csv": "x,y\n1,2\n"}, "b*.csv", "b*.csv: matches no file; give a pattern that does"),
        ({"d/a.txt": "x"}, "d", "d: holds no file that ends in .csv, .csv.gz, .parquet, .libsvm"),
        (
            {"d/a.csv": "x,y\n1,2\n", "d/b.csv": "y,z\n1,2\n"},
            "d",
            "d: the columns of 'b.csv' are not those of 'a.csv': it lacks 'x' and has 'z' besides;",
        ),
        (
            {"d/a.csv": "x,y\n1,2\n", "d/b.csv": "x,y\n"},
            "d",
            "d: 'b.csv' has no rows; give it one, or leave it out",
        ),
        (
            {"d/a.csv": "x,y\n1,2\n", "d/a.csv.gz": "x,y\n1,2\n"},
            "d",
            "d: has 'a.csv' twice, also compressed; leave one out",
        ),
        ({"d/a.csv": "x,y\n1,2\n", "d/b.csv": ""}, "d", "b.csv: cannot be read as CSV (No columns"),
        (
            {"d/a.csv": "x,y\n1,2\n", "d/b.libsvm": "1 1:2\n"},
            "d",
            "d: has files of .csv, .libsvm; give a pattern of one kind, such as '*.csv'",
        ),
        (
            {"d/a.csv": "x,y\n1,2\n3,4\n", "d/b.csv": "x,y\n1,2\nz,2\n"},
            "d",
            "d: column 'x', row 2 of 'b.csv' holds 'z'; turn it into a number",
        ),
        (
            {"d/train/a.csv": "x,y\n1,2\n", "d/test/b.csv": "x,y\n1,2\n"},
            "d",
            "problem.dataset: client 'b' has held-out rows and none to train with; give it some",
        ),
        (
            {"d/train/a.csv": "x,y\n1,2\n", "d/test.csv": "x,y\n1,2\n", "d/b.csv": "x,y\n1,2\n"},
            "d",
            "d: 'b' names no split, 'test' does; name one of train, validation and test",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(planned, tmp_path, files, path, line):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    assert line in wrong(planned, path)


def test_links(planned, tmp_path):
    """They are followed; one that leads nowhere is refused."""
    write(tmp_path, sites__a=[1], elsewhere__b=[2])
    (tmp_path / "sites" / "b.csv").symlink_to(tmp_path / "elsewhere" / "b.csv")
    assert rows(planned("sites")) == [[1], [2]]
    (tmp_path / "sites" / "c.csv").symlink_to(tmp_path / "nowhere.csv")
    assert "c.csv: cannot be read: No such file or directory" in wrong(planned, "sites")


def test_classes_of_held_out_rows(planned, tmp_path):
    for name, label in (("train_a", "01"), ("test_a", "02")):
        text = "x,y\n" + "".join(f"1,c{k}\n" for k in label)
        (tmp_path / f"{name}.csv").write_text(text)
    line = wrong(planned, "t*.csv", problem={"name": "softmax-regression"})
    assert "target 'y' holds 'c2', a class that is not in the training data" in line


def test_more_files_than_the_memory_holds(planned, tmp_path, monkeypatch):
    write(tmp_path / "d", a=range(1000), b=range(1000))
    monkeypatch.setattr("rayfed.core.files._ANYWHERE", 0)
    monkeypatch.setattr("rayfed.core.files.available_bytes", lambda: 100_000)
    line = wrong(planned, "d")
    assert "d: the cells of its 2 files take about" in line
