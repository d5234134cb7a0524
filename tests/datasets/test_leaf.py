"""LEAF's layout, in small files written here: FEMNIST and Shakespeare."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rayfed.core.errors import DataMissing, ScenarioError
from rayfed.datasets import FEMNIST, IID, Shakespeare, Writers
from rayfed.datasets.base import Source
from rayfed.datasets.leaf import CHARACTERS
from rayfed.datasets.split import split
from rayfed.testing import tiny_run

LINE = "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer woe"


def write(folder, part, name, users):
    (folder / part).mkdir(parents=True, exist_ok=True)
    held = {"users": list(users), "num_samples": [], "user_data": users}
    (folder / part / name).write_text(json.dumps(held))


def spoken(starts):
    return {"x": [LINE[s : s + 80] for s in starts], "y": [LINE[s + 80] for s in starts]}


@pytest.fixture
def plays(tmp_path):
    folder = tmp_path / "shakespeare"
    write(folder, "train", "b.json", {"FERDINAND": spoken([2])})
    write(folder, "train", "a.json", {"HAMLET": spoken([0, 1, 3]), "OPHELIA": spoken([1])})
    write(folder, "test", "a.json", {"HAMLET": spoken([4])})
    return Source(home=tmp_path)


def test_rows_are_characters_and_targets_the_ones_that_follow(plays):
    table = Shakespeare().load(plays, 0)
    assert (table.X.shape, table.shape, table.classes) == ((5, 80), (80,), len(CHARACTERS))
    texts = ["".join(CHARACTERS[number] for number in row) for row in table.X]
    assert texts == [LINE[s : s + 80] for s in (0, 1, 3, 1, 2)]
    assert [CHARACTERS[number] for number in table.y] == [LINE[s + 80] for s in (0, 1, 3, 1, 2)]
    assert table.test is not None
    assert len(table.test.y) == 1


def test_speakers_are_clients_in_the_order_of_the_files(plays):
    found = split(Shakespeare().load(plays, 0), Writers(), None, 0, 0.0)
    assert found.train.sizes(np.arange(3)).tolist() == [3, 1, 1]


def test_clients_have_the_names_of_their_speakers(plays):
    table = Shakespeare().load(plays, 0)
    assert Writers().names(table, 3) == ("HAMLET", "OPHELIA", "FERDINAND")
    assert Writers().names(table, 2) == ("HAMLET", "OPHELIA")
    assert Writers().names(replace(table, writer_names={0: "HAMLET"}), 3) == ()
    assert IID().names(table, 3) == ()


def test_the_alphabet_is_that_of_leaf():
    assert len(set(CHARACTERS)) == len(CHARACTERS) == 80
    assert list(CHARACTERS) == sorted(CHARACTERS)


def test_digits_and_letters_of_writers(tmp_path):
    image = np.round(np.linspace(0, 1, 784), 4).tolist()
    users = {"f1": {"x": [image, image], "y": [0, 61]}, "f2": {"x": [image], "y": [10]}}
    write(tmp_path / "mine", "train", "x.json", users)
    table = FEMNIST(path="mine").load(Source(folder=tmp_path), 0)
    assert (table.classes, table.shape, table.test) == (62, (1, 28, 28), None)
    assert [table.labels[label] for label in table.y] == ["0", "z", "A"]
    assert table.writer.tolist() == [0, 0, 1]
    np.testing.assert_allclose(table.X[0] / table.scale, image, atol=0.5 / 255)


def test_digits_of_writers_in_leaf_s_layout(real):
    folder = real.home / "mnist-writers" / "leaf"
    table = FEMNIST(path=str(folder)).load(real, 0)
    assert table.test is not None
    assert (len(table.y), len(table.test.y), len(np.unique(table.writer))) == (1140, 125, 12)
    assert table.y.max() == 9


@pytest.mark.parametrize(
    ("dataset", "data", "message"),
    [
        (FEMNIST, {"x": [[0.5] * 783], "y": [0]}, r"user 'u': found rows of shape \(783,\)"),
        (FEMNIST, {"x": [[1.5] * 784], "y": [0]}, "784 values from 0 to 1"),
        (FEMNIST, {"x": [[0.5] * 784], "y": [62]}, "labels up to 62"),
        (FEMNIST, {"x": [[0.5] * 784], "y": [1, 2]}, "1 rows and 2 labels"),
        (FEMNIST, {"y": [1, 2]}, "user 'u': found 'x'"),
        (Shakespeare, {"x": ["To be"], "y": ["!"]}, "texts of 5 characters"),
        (Shakespeare, {"x": [80 * "é"], "y": ["!"]}, "the character 'é'"),
        (Shakespeare, {"x": [80 * "e"], "y": [""]}, "no single characters"),
    ],
)
def test_unexpected_rows_are_refused(tmp_path, dataset, data, message):
    write(tmp_path, "train", "x.json", {"u": data})
    with pytest.raises(ScenarioError, match=message):
        dataset(path=str(tmp_path)).load(Source(), 0)


def test_missing_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(DataMissing, match="folder 'femnist' with 'train' in it is not available"):
        FEMNIST().load(Source(), 0)
    (tmp_path / "train").mkdir()
    with pytest.raises(ScenarioError, match="holds no users"):
        FEMNIST(path=str(tmp_path)).load(Source(), 0)
    (tmp_path / "train" / "x.json").write_text('{"users": ["u"]}')
    with pytest.raises(ScenarioError, match="cannot be read as LEAF's JSON"):
        FEMNIST(path=str(tmp_path)).load(Source(), 0)


def test_a_network_learns_the_next_character_of_each_speaker(plays, tmp_path):
    model = {"name": "charlstm", "embedding": 4, "hidden": 8}
    task = {"name": "network", "model": model}
    task["dataset"] = {"name": "shakespeare", "path": str(tmp_path / "shakespeare")}
    local = {"steps": 8, "batch": 2, "lr": 1.0}
    result = tiny_run(
        tmp_path / "out", {"name": "fedavg", "local": local}, problem=task, partition="writers",
        clients={}, participation={}, rounds=2,
    )  # fmt: skip
    loss = result.rounds.loss.dropna().to_numpy()
    assert loss[0] == pytest.approx(np.log(80), rel=0.05)  # the first model knows nothing
    assert loss[-1] < 0.8 * loss[0]
