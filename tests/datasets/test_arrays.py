"""Arrays of one's own, from files and in Python."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Arrays
from rayfed.datasets.base import Source
from rayfed.testing import toy_scenario

IMAGES = np.arange(48, dtype=np.uint8).reshape(4, 3, 2, 2)
GIVEN = {"X": IMAGES, "y": np.array([2, 0, 1, 0])}


def test_a_file_of_images_with_clients_and_test_rows(tmp_path):
    more = {"client": np.array(["b", "a", "b", "c"]), "X_test": IMAGES[:1], "y_test": [1]}
    np.savez(tmp_path / "mine.npz", **GIVEN, **more)
    table = Arrays(path="mine.npz").load(Source(folder=tmp_path), 0)
    np.testing.assert_array_equal(table.X, IMAGES.reshape(4, 12))
    assert (table.classes, table.shape, table.scale) == (3, (3, 2, 2), 255.0)
    assert table.client.tolist() == [1, 0, 1, 2]
    assert table.test is not None
    assert (table.test.y.tolist(), table.test.shape, table.test.scale) == ([1], (3, 2, 2), 255.0)


def test_numbers_for_regression():
    table = Arrays(data={"X": np.ones((2, 5)), "y": [0.5, 2]}).load(Source(), 0)
    assert (table.classes, table.shape, table.scale) == (0, (5,), 1.0)
    assert table.y.tolist() == [0.5, 2.0]


def test_a_torch_data_set():
    tensors = torch.rand(5, 1, 4, 4)
    data = TensorDataset(tensors, torch.tensor([0, 1, 1, 0, 2]))
    table = Arrays(data=data).load(Source(), 0)
    assert (table.classes, table.shape, table.y.tolist()) == (3, (1, 4, 4), [0, 1, 1, 0, 2])
    np.testing.assert_array_equal(table.X, tensors.numpy().reshape(5, 16))


def test_equal_arrays_are_equal_data_sets_and_others_are_not():
    same, other = ({**GIVEN, "y": np.array(y)} for y in ([2, 0, 1, 0], [2, 0, 1, 1]))
    assert Arrays(data=GIVEN) == Arrays(data=same)
    assert hash(Arrays(data=GIVEN)) == hash(Arrays(data=same))
    assert Arrays(data=GIVEN) != Arrays(data=other)


def test_a_scenario_records_a_digest_and_asks_for_the_arrays(tmp_path):
    task = {"name": "softmax-regression", "dataset": {"name": "arrays", "data": GIVEN}}
    few = {"clients": {"count": 2}, "participation": {}, "partition": "iid"}
    study = api.read(toy_scenario("fedavg", problem=task, **few))
    assert api.prepare(study).clients == 2
    written = study.to_yaml()
    assert "arrays in memory, sha256 " in written
    (tmp_path / "scenario.yaml").write_text(written)
    with pytest.raises(ScenarioError, match=r"found arrays in memory.*; in Python, give a mapping"):
        api.recorded(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [1, 2, 3, 4]}, r"has X of int64 \(4,\); give numbers"),
        ({"y": [0, 1]}, r"has y of int64 \(2,\); give 4 numbers"),
        ({"y": [0, -1, 0, 1]}, "labels -1 to 1 in y; number them from 0"),
        ({"y": [0.0, 1.0, np.nan, 1.0]}, "not finite"),
        ({"colour": [1]}, "holds X, colour and y|holds X, y, colour|holds X, y and colour"),
        ({"X_test": IMAGES}, "one of X_test and y_test"),
        ({"X_test": IMAGES[:, :1], "y_test": [0, 0, 0, 0]}, r"test rows of shape \(1, 2, 2\)"),
        ({"X_test": IMAGES[:1], "y_test": [3]}, "not among those of y"),
        ({"X_test": IMAGES[:1].astype(int), "y_test": [1]}, "has bytes in one of X and X_test"),
        ({"client": [0, 1]}, "clients for 4 rows"),
        ({"client": [0.0, np.nan, 1.0, 1.0]}, "has no client in row 2; give each row one"),
        ({"client": np.array([b"x", None, 1, 1], object)}, "has a client that holds a bytes; turn"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ScenarioError, match=message):
        Arrays(data={**GIVEN, **change}).load(Source(), 0)


def test_what_is_no_data_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="give one of them"):
        Arrays()
    with pytest.raises(ScenarioError, match="found 7; in Python, give a mapping"):
        Arrays(data=7)
    with pytest.raises(ScenarioError, match="holds no pairs"):
        Arrays(data=[1, 2])
    with pytest.raises(ScenarioError, match="data: X has entries of unequal lengths; make them"):
        Arrays(data={"X": [[1.0], [1.0, 2.0]], "y": [0, 1]})
    with pytest.raises(ScenarioError, match=r"no\.npz: cannot be read: No such file"):
        Arrays(path="no.npz").load(Source(folder=tmp_path), 0)
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(ScenarioError, match=r"cannot be read as an \.npz file"):
        Arrays(path="damaged.npz").load(Source(folder=tmp_path), 0)
    np.savez(tmp_path / "objects.npz", X=np.array([{}, None]))
    with pytest.raises(ScenarioError, match=r"cannot be read as an \.npz file"):
        Arrays(path="objects.npz").load(Source(folder=tmp_path), 0)


def test_a_frame_is_its_columns():
    frame = pd.DataFrame(
        {"a": [1, 2, 3], "client": ["x", "y", "x"], "y": [0, 1, 1]}, index=[7, 8, 9]
    )
    table = Arrays(data=frame.assign(b=[0.5, 0.25, 1.0])).load(Source(), seed=0)
    assert table.X.tolist() == [[1, 0.5], [2, 0.25], [3, 1]]
    assert (table.y.tolist(), table.classes) == ([0, 1, 1], 2)
    assert (table.client.tolist(), table.client_names) == ([0, 1, 0], ("x", "y"))


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ({"a": [1], "target": [0]}, "data: is a frame of the columns a, target; name the target y"),
        (
            {"a": [1], "y": ["cat"]},
            "data: column 'y' is str; turn it into numbers, or drop it (classes of y are numbered",
        ),
        ({"a": ["red"], "y": [0]}, "data: column 'a' is str; turn it into numbers, or drop it"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(frame, told):
    with pytest.raises(ScenarioError) as error:
        Arrays(data=pd.DataFrame(frame))
    assert str(error.value).startswith(told)


def test_test_rows_of_clients(tmp_path):
    held = {"X": IMAGES[:4], "y": [0, 1, 1, 0], "client": ["b", "a", "b", "c"]}
    held |= {"X_test": IMAGES[:2], "y_test": [1, 0], "client_test": ["c", "b"]}
    np.savez(tmp_path / "own.npz", **{name: np.array(value) for name, value in held.items()})
    table = Arrays(path="own.npz").load(Source(folder=tmp_path), 0)
    assert table.test is None
    assert table.client.tolist() == [1, 0, 1, 2, 2, 1]
    assert table.given("test").tolist() == [False] * 4 + [True] * 2
    assert table.X[4:].tolist() == IMAGES[:2].reshape(2, -1).tolist()
    assert table.y.tolist() == [0, 1, 1, 0, 1, 0]


def test_test_rows_of_clients_with_numbers_for_names():
    """In the order of numbers: client 9 is the first, and 10 the second."""
    held = {"X": IMAGES[:2], "y": [0, 1], "client": [10, 9]}
    held |= {"X_test": IMAGES[:2], "y_test": [1, 0], "client_test": [9, 10]}
    table = Arrays(data=held).load(Source(), 0)
    assert (table.client_names, table.client.tolist()) == (("9", "10"), [1, 0, 0, 1])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"client_test": ["d"]}, "has test rows of client d, who has no training rows"),
        ({"client_test": ["a", "a"]}, "clients of test rows; give one for each"),
        ({"X_test": IMAGES[:1] / 255}, "has bytes in one of X and X_test, and other numbers in"),
        ({"client": None}, "has client_test and no client; give both, or client alone"),
    ],
)
def test_test_rows_of_strangers(change, line):
    held = {"X": IMAGES[:2], "y": [0, 1], "client": ["b", "a"]}
    held |= {"X_test": IMAGES[:1], "y_test": [1], "client_test": ["a"]} | change
    with pytest.raises(ScenarioError, match=line):
        Arrays(data={k: v for k, v in held.items() if v is not None}).load(Source(), 0)
