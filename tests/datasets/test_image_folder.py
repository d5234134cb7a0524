"""Folders of images, by class and by client."""

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs pillow")

from PIL import Image

from rayfed.core.errors import ScenarioError
from rayfed.datasets import ImageFolder
from rayfed.datasets.base import Source
from rayfed.datasets.split import split as split_rows
from rayfed.datasets.table import Rows


def draw(path, colour=(10, 20, 30), size=(3, 2)):
    """Write an image, all of one colour, but for white in its first pixel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", size, colour)
    image.putpixel((0, 0), (255, 255, 255))
    image.save(path)


def load(folder, **settings):
    return ImageFolder(path=folder.name, **settings).load(Source(folder=folder.parent), 0)


@pytest.fixture
def animals(tmp_path):
    folder = tmp_path / "animals"
    draw(folder / "dog" / "1.png")
    draw(folder / "cat" / "1.png", (40, 50, 60))
    draw(folder / "cat" / "0.bmp", (70, 80, 90))
    (folder / "cat" / "notes.txt").write_text("no image")
    (folder / ".hidden").mkdir()
    return folder


def test_classes_in_sorted_order_and_channels_first(animals):
    table = load(animals)
    assert (table.classes, table.labels, table.shape) == (2, ("cat", "dog"), (3, 2, 3))
    assert table.y.tolist() == [0, 0, 1]
    assert table.client is None
    images = table.X.reshape(3, 3, 2, 3)
    assert (images[:, :, 0, 0] == 255).all()
    assert images[:, :, 1, 2].tolist() == [[70, 80, 90], [40, 50, 60], [10, 20, 30]]


def test_grey_values_of_another_size(animals):
    table = load(animals, colour=False, size=(4, 5))
    assert table.shape == (1, 4, 5)
    grey = np.array([78, 48, 18])  # 0.299 red + 0.587 green + 0.114 blue
    np.testing.assert_allclose(table.X[:, -1], grey, atol=1)


def test_folders_of_clients_and_test_images_at_the_server(tmp_path):
    folder = tmp_path / "phones"
    for client, classes in {"anna": ("cat", "dog"), "ben": ("dog",)}.items():
        for label in classes:
            draw(folder / "train" / client / label / "1.png")
    draw(folder / "test" / "dog" / "1.png")
    table = load(folder, by="client")
    assert table.client.tolist() == [0, 0, 1]
    assert table.y.tolist() == [0, 1, 1]
    assert table.test is not None
    assert table.test.y.tolist() == [1]
    draw(folder / "test" / "horse" / "1.png")
    with pytest.raises(ScenarioError, match="is of class 'horse', of which there is no training"):
        load(folder, by="client")


def test_what_does_not_fit_is_refused(animals, monkeypatch):
    draw(animals / "dog" / "2.png", size=(5, 5))
    with pytest.raises(ScenarioError, match=r"2.png: is 5 x 5, others are 2 x 3; give 'size'"):
        load(animals)
    (animals / "dog" / "3.png").write_bytes(b"no image")
    with pytest.raises(ScenarioError, match=r"3.png: cannot be read as an image"):
        load(animals, size=(2, 2))
    with pytest.raises(ScenarioError, match=r"cat: holds images, but the folder of a client"):
        load(animals, by="client")
    (animals.parent / "none" / "anna").mkdir(parents=True)
    with pytest.raises(ScenarioError, match=r"0 classes; files <client>/<class>/<image>"):
        load(animals.parent / "none", by="client")
    with pytest.raises(ScenarioError, match=r"nowhere: cannot be read .no such file"):
        load(animals.parent / "nowhere")
    monkeypatch.setattr("rayfed.datasets.pixels.find_spec", lambda name: None)
    with pytest.raises(ScenarioError, match="needs Pillow; install it with: pip install 'pillow"):
        load(animals)


def values(table, rows):
    """Return the red value of the second pixel of some rows."""
    X = table.X.reshape(len(table.y), *table.shape)[rows]
    return X[:, 0, 0, 1].tolist()


SITES = {
    "anna": {"train": ("cat", "dog"), "val": ("cat",), "test": ("dog", "cat")},
    "ben": {"train": ("dog",), "test": ("dog",)},
}


@pytest.mark.parametrize("clients_first", [True, False])
def test_each_client_has_its_own_test_and_validation_images(tmp_path, clients_first):
    folder, red = tmp_path / "sites", {}
    for client, splits in SITES.items():
        for split, classes in splits.items():
            for label in classes:
                red[client, split, label] = 10 * len(red)
                outer, inner = (client, split) if clients_first else (split, client)
                draw(folder / outer / inner / label / "1.png", (red[client, split, label], 0, 0))
    table = load(folder, by="client")
    assert table.client_names == ("anna", "ben")
    assert (table.test, table.files, table.labels) == (None, 7, ("cat", "dog"))
    found = {}
    for row, (client, label) in enumerate(zip(table.client, table.y, strict=True)):
        split = ("train", "test", "val")[table.part[row]]
        key = (table.client_names[client], split, table.labels[label])
        found[key] = values(table, [row])[0]
    assert found == red
    parts = split_rows(table, None, None, 0, 0.0)
    assert np.diff(parts.train.offsets).tolist() == [2, 1]
    assert np.diff(parts.test.offsets).tolist() == [2, 1]
    assert np.diff(parts.validation.offsets).tolist() == [1, 0]


def test_splits_of_classes(tmp_path):
    """As of chest X-rays: test rows at the server, validation rows dealt to clients."""
    folder = tmp_path / "xray"
    for split, reds in {"train": (1, 2), "val": (3,), "test": (4,)}.items():
        for red in reds:
            for label in ("normal", "sick"):
                draw(folder / split / label / f"{red}.png", (red, 0, 0))
    (folder / "train" / "README.md").write_text("no class")
    (folder / "train" / "sick" / "Thumbs.db").write_text("no image")
    table = load(folder)
    assert table.client is None
    assert values(table, table.given("train")) == [1, 2, 1, 2]
    assert values(table, table.given("validation")) == [3, 3]
    assert values(table.test, [0, 1]) == [4, 4]
    assert table.test.y.tolist() == [0, 1]
    parts = split_rows(table, None, 2, 0, 0.0)
    assert sorted(parts.train.rows.tolist()) == np.flatnonzero(table.given("train")).tolist()
    assert len(parts.validation.rows) == 2
    assert len(parts.test.rows) == 0


def test_layouts_that_do_not_fit(tmp_path):
    folder = tmp_path / "sites"
    for client in ("anna", "ben"):
        for label in ("cat", "dog"):
            draw(folder / client / "train" / label / "1.png")
    with pytest.raises(ScenarioError, match=r"1.png: lies below the folder .* set by: client"):
        load(folder)
    draw(folder / "carl" / "test" / "cat" / "1.png")
    with pytest.raises(ScenarioError, match=r"carl: holds test and no 'train'; give it rows"):
        load(folder, by="client")
    draw(folder / "carl" / "train" / "cat" / "1.png")
    draw(folder / "carl" / "test" / "horse" / "1.png")
    with pytest.raises(ScenarioError, match="is of class 'horse', of which there is no training"):
        load(folder, by="client")


def test_a_client_with_test_images_alone(tmp_path):
    folder = tmp_path / "sites"
    for client, split in (("anna", "train"), ("anna", "test"), ("ben", "test")):
        for label in ("cat", "dog"):
            draw(folder / split / client / label / "1.png")
    table = load(folder, by="client")
    line = "client 'ben' has held-out rows and none to train with; give it some, or leave it out"
    with pytest.raises(ScenarioError, match=line):
        split_rows(table, None, None, 0, 0.0)


def grey16(path, numbers, size=(3, 2)):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.array(numbers, np.uint16).reshape(size[::-1]))
    image.save(path)


DEEP = [0, 1, 255, 256, 40_000, 65_535]


@pytest.mark.parametrize("suffix", ["png", "tiff"])
def test_images_of_16_bits_keep_their_range(tmp_path, suffix):
    folder = tmp_path / "scans"
    grey16(folder / "a" / f"1.{suffix}", DEEP)
    grey16(folder / "b" / f"1.{suffix}", DEEP[::-1])
    table = load(folder, colour=False)
    assert (table.shape, table.scale) == ((1, 2, 3), 65535)
    assert table.X.tolist() == [DEEP, DEEP[::-1]]
    rows = Rows.of(table, dtype=np.float64, intercept=True)
    np.testing.assert_allclose(rows.X[0, :6], np.array(DEEP) / 65535, rtol=1e-15)
    coloured = load(folder)
    assert coloured.shape == (3, 2, 3)
    assert coloured.X.reshape(2, 3, 6)[0].tolist() == [DEEP] * 3
    smaller = load(folder, colour=False, size=(1, 1))
    assert 255 < smaller.X.min() < 65_535


def test_images_of_8_bits_beside_those_of_16(tmp_path):
    """White is 255 of 255, and 65,535 of 65,535."""
    grey16(tmp_path / "scans" / "a" / "1.png", DEEP)
    draw(tmp_path / "scans" / "b" / "1.png", (0, 0, 0))
    table = load(tmp_path / "scans", colour=False)
    assert table.X.tolist() == [DEEP, [65_535, 0, 0, 0, 0, 0]]


def test_images_of_32_bits_are_refused(tmp_path):
    for label, numbers in (("a", [0, 70_000]), ("b", [0.5, 0.25])):
        kind = np.int32 if label == "a" else np.float32
        (tmp_path / "scans" / label).mkdir(parents=True)
        Image.fromarray(np.array([numbers], kind)).save(tmp_path / "scans" / label / "1.tiff")
    with pytest.raises(ScenarioError, match=r"1.tiff: has values of 32 bits; save it with 8"):
        load(tmp_path / "scans", colour=False)


def test_links_are_followed(animals, tmp_path):
    (tmp_path / "cats").mkdir()
    (animals / "cat").rename(tmp_path / "cats" / "cat")
    (animals / "cat").symlink_to(tmp_path / "cats" / "cat")
    assert load(animals).y.tolist() == [0, 0, 1]
