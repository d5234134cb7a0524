"""CIFAR: small folders in the published layout, and the subsets of RAYFED_DATA."""

import hashlib
import pickle
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from rayfed.cli.main import app
from rayfed.core.errors import ScenarioError
from rayfed.datasets import CIFAR10, CIFAR100
from rayfed.datasets.base import Source
from rayfed.datasets.table import Rows
from rayfed.testing import tiny_run
from rayfed.testing.toy import toy_scenario

rng = np.random.default_rng(0)


def batch(n, classes, *keys):
    pixels = rng.integers(0, 256, (n, 3072), dtype=np.uint8)
    return {b"data": pixels, **{key: [j % classes for j in range(n)] for key in keys}}


def write(folder, files):
    folder.mkdir(parents=True)
    for name, held in files.items():
        (folder / name).write_bytes(pickle.dumps(held, protocol=2))


@pytest.fixture
def tens(tmp_path):
    files = {f"data_batch_{k}": batch(4, 2, b"labels") for k in range(1, 6)}
    files |= {"test_batch": batch(3, 2, b"labels"), "batches.meta": {b"label_names": [b"a", b"b"]}}
    write(tmp_path / "cifar10-subset" / "cifar-10-batches-py", files)
    return Source(home=tmp_path), files


def test_batches_in_their_order_and_test_images_at_the_server(tens):
    source, files = tens
    table = CIFAR10().load(source, 0)
    held = [files[f"data_batch_{k}"][b"data"] for k in range(1, 6)]
    np.testing.assert_array_equal(table.X, np.concatenate(held))
    assert table.y.tolist() == 5 * [0, 1, 0, 1]
    assert (table.classes, table.labels, table.shape) == (2, ("a", "b"), (3, 32, 32))
    assert table.test is not None
    np.testing.assert_array_equal(table.test.X, files["test_batch"][b"data"])
    assert "a subset here, 20 of 50,000 training and 3 of 10,000 test images" in table.note


def test_channels_have_moments_of_their_own(tens):
    mean, deviation = (0.491, 0.482, 0.447), (0.247, 0.243, 0.262)
    table = CIFAR10(standardise=(mean, deviation)).load(tens[0], 0)
    X, _ = Rows.of(table, dtype="float32", intercept=False).take(np.arange(20))
    images = table.X.reshape(-1, 3, 1024) / 255
    expected = (images - np.array(mean)[:, None]) / np.array(deviation)[:, None]
    np.testing.assert_allclose(X.reshape(expected.shape), expected, atol=1e-6)
    with pytest.raises(ScenarioError, match="2 numbers for 3 channels"):
        CIFAR10(standardise=((0.1, 0.2), (1.0, 1.0, 1.0))).load(tens[0], 0)


def test_fine_and_coarse_classes(tmp_path):
    labels = {b"fine_labels": [4, 0], b"coarse_labels": [1, 0]}
    part = batch(2, 5) | labels
    names = {b"fine_label_names": 5 * [b"x"], b"coarse_label_names": [b"p", b"q"]}
    write(tmp_path / "cifar-100-python", {"train": part, "test": part, "meta": names})
    fine, coarse = (CIFAR100(classes=c).load(Source(home=tmp_path), 0) for c in ("fine", "coarse"))
    assert (fine.classes, fine.y.tolist()) == (5, [4, 0])
    assert (coarse.classes, coarse.labels, coarse.y.tolist()) == (2, ("p", "q"), [1, 0])


def test_the_archive_is_read_without_unpacking(tens, tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "cifar10").mkdir(parents=True)
    path = home / CIFAR10.archive.path
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "cifar10-subset" / CIFAR10.folder, CIFAR10.folder)
    with pytest.raises(ScenarioError, match="its checksum differs"):
        CIFAR10().load(Source(home=home), 0)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(CIFAR10, "archive", replace(CIFAR10.archive, sha256=digest))
    table = CIFAR10().load(Source(home=home), 0)
    np.testing.assert_array_equal(table.X, CIFAR10().load(tens[0], 0).X)


@pytest.mark.parametrize(
    ("name", "held", "message"),
    [
        ("data_batch_3", {b"labels": [0]}, "data_batch_3: holds no 'data'"),
        ("test_batch", {b"data": np.zeros((1, 10), np.uint8), b"labels": [0]}, "holds no images"),
        ("test_batch", batch(3, 3, b"labels"), "labels that fit no images"),
        ("batches.meta", [], "batches.meta: holds no 'label_names'"),
    ],
)
def test_unexpected_content_is_refused(tens, tmp_path, name, held, message):
    path = tmp_path / "cifar10-subset" / "cifar-10-batches-py" / name
    path.write_bytes(pickle.dumps(held))
    with pytest.raises(ScenarioError, match=message):
        CIFAR10().load(tens[0], 0)


def test_a_missing_batch_is_named(tens, tmp_path):
    (tmp_path / "cifar10-subset" / "cifar-10-batches-py" / "data_batch_5").unlink()
    with pytest.raises(ScenarioError, match=r"data_batch_5: cannot be read: No such file"):
        CIFAR10().load(tens[0], 0)


@pytest.mark.parametrize(("dataset", "classes"), [(CIFAR10, 10), (CIFAR100, 100)])
def test_real_images(real, dataset, classes):
    table = dataset(limit=100).load(real, 0)
    assert np.bincount(table.y).tolist() == [100] * classes
    assert table.test is not None
    assert len(set(np.bincount(table.test.y))) == 1
    mean = table.X.reshape(-1, 3, 1024).mean(axis=(0, 2)) / 255
    # the published mean of CIFAR-100's training images; CIFAR-10's is (0.491, 0.482, 0.447)
    np.testing.assert_allclose(mean, (0.507, 0.487, 0.441), atol=0.03)


def test_a_run_on_a_subset_warns_of_it(tens, tmp_path, monkeypatch):
    monkeypatch.setenv("RAYFED_DATA", str(tmp_path))
    task = {"name": "softmax-regression", "dataset": "cifar10"}
    result = tiny_run(tmp_path / "out", "fedavg", problem=task, clients={"count": 2}, rounds=1,
                      partition="iid", participation={})  # fmt: skip
    assert "'cifar10' is a subset here" in result.warnings[0]
    assert repr(result).splitlines()[-1] == f"warning: {result.warnings[0]}"
    scenario = toy_scenario("fedavg", problem=task, clients={"count": 2}, partition="iid",
                            participation={})  # fmt: skip
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario))
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "s.yaml")])
    assert checked.stderr.splitlines() == [f"warning: {result.warnings[0]}"]
