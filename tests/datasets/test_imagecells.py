"""Images in Parquet files, as the Hugging Face Hub has them."""

import io

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("PIL", reason="needs pillow")

from PIL import Image

from rayfed import api
from rayfed.clients.setup import with_table
from rayfed.core.errors import ScenarioError


def encoded(pixels, form="PNG"):
    """Return an array as the bytes of an image file."""
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).save(file, form)
    return file.getvalue()


def of_hub(pixels):
    return {"bytes": encoded(pixels), "path": None}


GREY = np.arange(24, dtype=np.uint8).reshape(4, 2, 3) * 10
COLOUR = np.arange(72, dtype=np.uint8).reshape(4, 2, 3, 3)
DEEP = GREY.astype(np.uint16) * 270


@pytest.fixture
def planned(tmp_path):
    """Return a function that plans a study of a Parquet file with these columns."""

    def plan(columns, problem=(), **settings):
        frame = pd.DataFrame({"writer_id": ["f1", "f0", "f1", "f1"], "label": [0, 1, 1, 0]})
        for name, cells in columns.items():
            frame[name] = list(cells)
        frame.to_parquet(tmp_path / "train-00000-of-00001.parquet")
        dataset = {"name": "table", "path": str(tmp_path / "train-00000-of-00001.parquet")}
        dataset |= {"client": "writer_id"} | settings
        task = {"name": "softmax-regression", "target": "label", "intercept": False}
        task |= {"dataset": dataset} | dict(problem)
        whole = {"rounds": 1, "algorithms": ["fedavg"], "problem": task}
        return api.prepare(api.read(whole))

    return plan


def wrong(plan, *given, **settings):
    with pytest.raises(ScenarioError) as error:
        plan(*given, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


def of_first(plan):
    """Return the shape of rows, and the one row of client f0."""
    view = plan.runs[0].federation.views.training
    whole = with_table(view.shards, plan.tables[view.table])
    X, y = whole.rows(np.array([0]), 1)
    assert y.tolist() == [[1]]
    return whole.shape, X[0, 0]


@pytest.mark.parametrize("of", [of_hub, encoded])
def test_structs_and_bytes(planned, of):
    """The second row is that of client f0."""
    plan = planned({"image": map(of, GREY)})
    assert plan.runs[0].federation.clients.names == ("f0", "f1")
    shape, row = of_first(plan)
    assert shape == (1, 2, 3)
    np.testing.assert_allclose(row, GREY[1].ravel() / 255, rtol=1e-12)


def test_colours_are_channels_first(planned):
    shape, row = of_first(planned({"img": map(of_hub, COLOUR)}))
    assert shape == (3, 2, 3)
    np.testing.assert_allclose(row, COLOUR[1].transpose(2, 0, 1).ravel() / 255, rtol=1e-12)


def test_grey_images_among_others_have_three_equal_channels(planned):
    cells = [of_hub(COLOUR[0]), *map(of_hub, GREY[1:])]
    shape, row = of_first(planned({"img": cells}))
    assert shape == (3, 2, 3)
    np.testing.assert_allclose(row, np.tile(GREY[1].ravel(), 3) / 255, rtol=1e-12)


def test_images_of_16_bits(planned):
    _, row = of_first(planned({"scan": map(of_hub, DEEP)}))
    np.testing.assert_allclose(row, DEEP[1].ravel() / 65535, rtol=1e-12)


def test_of_another_size(planned):
    shape, _ = of_first(planned({"image": map(of_hub, GREY)}, size=[5, 4]))
    assert shape == (1, 5, 4)


def test_columns_beside_images_are_left_out_with_a_note(planned):
    plan = planned({"image": map(of_hub, GREY), "hsf_id": [1, 2, 3, 4]})
    note = plan.runs[0].record["data_note"]
    assert note == "columns other than the images of 'image' are left out: hsf_id"
    assert planned({"image": map(of_hub, GREY)}).runs[0].record["data_note"] == ""


def test_test_rows_of_clients(planned, tmp_path):
    frame = pd.DataFrame({"image": [of_hub(GREY[0])], "label": 1, "writer_id": "f1"})
    frame.to_parquet(tmp_path / "t.parquet")
    test = {"test": str(tmp_path / "t.parquet")}
    shards = planned({"image": map(of_hub, GREY)}, test).runs[0].federation.views.training.shards
    assert shards.sizes(np.arange(2), "test").tolist() == [0, 1]
    line = wrong(planned, {"image": map(of_hub, DEEP)}, test)
    assert "images are (1, 2, 3) of up to 255, those for training (1, 2, 3) of up to 65535" in line


@pytest.mark.parametrize(
    ("columns", "settings", "line"),
    [
        (
            {"image": [*map(of_hub, GREY[:3]), {"bytes": None, "path": "a.png"}]},
            {},
            "column 'image', row 4 holds no bytes of an image; put the files' bytes into",
        ),
        (
            {"image": [*map(encoded, GREY[:2]), b"no image", b""]},
            {},
            "column 'image', row 3 is no image (UnidentifiedImageError); replace it",
        ),
        (
            {"image": [*map(encoded, GREY[:3]), encoded(GREY[:, :, 0])]},
            {},
            "column 'image', row 4 is 4 x 2, others are 2 x 3; give 'size'",
        ),
        (
            {"image": [*map(encoded, GREY[:3]), None]},
            {},
            "column 'image', row 4",
        ),
        (
            {"a": map(encoded, GREY), "b": map(encoded, GREY)},
            {},
            "has images in the columns a, b; leave one in the file",
        ),
        (
            {"image": map(encoded, GREY)},
            {"standardise": True},
            "problem.dataset.standardise: is for numbers, but rows are images, of column 'image'",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(planned, columns, settings, line):
    assert line in wrong(planned, columns, **settings)


def test_empty_cells_are_dropped(planned):
    plan = planned({"image": [None, *map(encoded, GREY[1:])]}, missing="drop")
    assert plan.runs[0].federation.views.training.shards.total() == 3
    cells = [None, encoded(GREY[1]), b"broken", encoded(GREY[3])]
    assert "column 'image', row 3 is no image" in wrong(planned, {"image": cells}, missing="drop")


def test_more_images_than_the_memory_holds(planned, monkeypatch):
    big = Image.new("L", (4000, 4000))
    file = io.BytesIO()
    big.save(file, "PNG")
    monkeypatch.setattr("rayfed.core.files.available_bytes", lambda: 2**26)
    line = wrong(planned, {"image": [file.getvalue()] * 4})
    assert "4 images of 4000 x 4000 take about" in line
