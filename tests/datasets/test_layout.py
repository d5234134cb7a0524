"""What the places of files say of their rows."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.datasets.layout import files, places, split_folders


def clients(*names):
    return [place.client for place in places(names, "data")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["hospital_a", "hospital_b"], ["a", "b"]),
        (["a_2024", "b_2024"], ["a", "b"]),
        (["site-01-x", "site-02-x"], ["01", "02"]),
        (["site_1", "site-1", "site_2"], ["_1", "-1", "_2"]),
        (["site1", "site2"], ["site1", "site2"]),  # words are whole
        (["north east", "north west"], ["east", "west"]),
        (["hospital", "hospital_b"], ["hospital", "hospital_b"]),
        (["a/data", "b/data"], ["a", "b"]),
        (["a/2023", "a/2024", "b/2023"], ["a", "a", "b"]),  # a folder with several files
        (["eu/a/data", "us/a/data"], ["eu", "us"]),
        (["part-0", "part-1"], ["", ""]),
        (["part-00000-5b2c-c000.snappy", "part-00001-5b2c-c000.snappy"], ["", ""]),
        (["a/part-0", "a/part-1", "b/part-0"], ["a", "a", "b"]),
        (["train-00000-of-00002", "train-00001-of-00002"], ["", ""]),
        (["alone"], [""]),
    ],
)
def test_clients_are_called_by_what_differs(names, expected):
    assert clients(*names) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train/a", "test/a"], [("", "train"), ("", "test")]),
        (
            ["train/h_a", "test/h_a", "train/h_b"],
            [("a", "train"), ("a", "test"), ("b", "train")],
        ),
        (["a/train", "a/val", "b/train"], [("a", "train"), ("a", "validation"), ("b", "train")]),
        (["a_train", "a_test", "b_train"], [("a", "train"), ("a", "test"), ("b", "train")]),
        (["a/train_1", "a/train_2", "b/train_1", "b/test_1"],
         [("a", "train"), ("a", "train"), ("b", "train"), ("b", "test")]),
        (["Training/a", "Testing/a"], [("", "train"), ("", "test")]),
        (["train-00000-of-00001", "test-00000-of-00001"], [("", "train"), ("", "test")]),
        (["train_a", "train_b"], [("a", "train"), ("b", "train")]),
        (["test_a", "test_b"], [("a", "train"), ("b", "train")]),  # as a file of test rows
    ],
)  # fmt: skip
def test_splits(names, expected):
    assert [(place.client, place.part) for place in places(names, "data")] == expected


def test_folders_of_columns():
    found = places(["center=1/part-0", "center=north%20east/part-0"], "data")
    assert [dict(place.columns) for place in found] == [{"center": "1"}, {"center": "north east"}]
    found = places(["split=train/center=1/x", "split=test/center=1/x"], "data")
    assert [place.part for place in found] == ["train", "test"]
    assert [dict(place.columns) for place in found] == [{"center": "1"}] * 2


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (["a", "b", "test"], "'a' names no split, 'test' does; name one of train, validation"),
        (["train/a", "train/test_b"], "'train/test_b' names test, train; name one of"),
        (["val/a", "test/a"], "has files of test, validation and none to train with"),
        (["center=1/a", "b"], "'b' lies in folders of no columns, 'center=1/a' in folders of"),
    ],
)
def test_what_is_ambiguous_is_refused(names, line):
    with pytest.raises(ScenarioError) as error:
        places(names, "data")
    assert str(error.value).startswith(f"data: {line}")


def test_files_are_sorted_and_links_are_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "c.csv").touch()
    folder = tmp_path / "data"
    (folder / "z").mkdir(parents=True)
    for name in ("b.csv", "a.CSV", ".hidden.csv", "README.md", "Thumbs.db", ".DS_Store", "z/d.csv"):
        (folder / name).touch()
    (folder / "m").symlink_to(elsewhere)
    (folder / "z" / "again").symlink_to(folder)  # ends nowhere
    found = [path.relative_to(folder).as_posix() for path in files(folder, (".csv",))]
    assert found == ["a.CSV", "b.csv", "m/c.csv", "z/d.csv"]


def test_folders_of_splits(tmp_path):
    for name in ("train", "val", ".git", "__MACOSX"):
        (tmp_path / name).mkdir()
    assert split_folders(tmp_path) == {
        "train": tmp_path / "train",
        "validation": tmp_path / "val",
    }
    (tmp_path / "valid").mkdir()
    with pytest.raises(ScenarioError, match="holds train, val, valid, two of one split; put them"):
        split_folders(tmp_path)
    (tmp_path / "valid").rmdir()
    (tmp_path / "other").mkdir()
    with pytest.raises(ScenarioError, match="holds 'other' next to train, val; move it elsewhere"):
        split_folders(tmp_path)
    (tmp_path / "val").rmdir()
    assert split_folders(tmp_path) is None  # 'train' is a class, as of vehicles
