"""Columns survive the way through a Parquet file, and frames do not notice them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayfed.core import parquet
from rayfed.core.columns import Column
from rayfed.core.parquet import columns_in, schema

COLUMNS = (
    Column("loss", "training loss", better="lower", about="Mean loss."),
    Column("gain", better="higher"),
    Column("bytes_up", "uploaded", "B", dtype="int64"),
    Column("away", dtype="bool"),
    Column("label", dtype="string"),
    Column("status", dtype="category"),
)
ROWS = {
    "loss": [0.5, float("nan")], "gain": [1.0, 2.0], "bytes_up": [3, 4], "away": [True, False],
    "label": ["a", "b"], "status": ["used", "late"],
}  # fmt: skip


OURS = ROWS | {"status": ([0, 1], ["used", "late"])}


@pytest.fixture
def table():
    return pa.Table.from_pydict(ROWS, schema=schema(COLUMNS))


def test_a_file_gives_back_what_was_declared(table, tmp_path):
    pq.write_table(table, tmp_path / "part.parquet")
    assert columns_in(pq.read_schema(tmp_path / "part.parquet")) == {c.name: c for c in COLUMNS}


def test_a_folder_of_parts_read_as_one_and_a_choice_of_rows_keep_it(table, tmp_path):
    for number in range(2):
        pq.write_table(table, tmp_path / f"part-{number}.parquet")
    whole = pq.read_table(tmp_path)
    assert len(whole) == 4
    chosen = whole.filter([True, False, True, False])
    assert columns_in(chosen.schema) == {c.name: c for c in COLUMNS}


def test_pandas_reads_the_frame_of_a_file_without_titles(table, tmp_path):
    plain = pa.Table.from_pydict(ROWS, schema=table.schema.remove_metadata())
    bare = pa.schema([pa.field(f.name, f.type) for f in plain.schema])
    for name, one in (("titled", table), ("bare", plain.cast(bare))):
        pq.write_table(one, tmp_path / f"{name}.parquet")
    titled, bare = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("titled", "bare"))
    pd.testing.assert_frame_equal(titled, bare)
    assert str(titled["status"].dtype) == "category"


def test_fields_that_describe_nothing_are_left_out():
    found = pa.schema([pa.field("old", pa.float64()), *schema(COLUMNS[:1])])
    assert list(columns_in(found)) == ["loss"]
    assert columns_in(found)["loss"].about == "Mean loss."


def test_texts_of_other_writers_are_taken_as_far_as_they_are_known():
    field = pa.field("a", pa.float32(), metadata={"title": "A", "better": "sideways"})
    assert columns_in(pa.schema([field])) == {"a": Column("a", "A")}


def test_arrays_make_the_file_that_pyarrow_makes(table, tmp_path):
    ours = parquet.table(OURS | {"gain": np.array([1, 2])}, table.schema)
    for name, each in (("ours", ours), ("theirs", table)):
        pq.write_table(each, tmp_path / name)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_labels_of_any_language_and_length():
    fields = schema([Column("label", dtype="string")])
    labels = ["", "prävalenz", "ε = 10⁻³", "", "x"]
    assert parquet.table({"label": labels}, fields)["label"].to_pylist() == labels


def test_values_of_parts_and_of_some_rows(table, tmp_path):
    more = {
        "loss": [2.0], "gain": [3.0], "bytes_up": [2**60], "away": [True], "label": ["c"],
        "status": ([1], ["used", "late"]),
    }  # fmt: skip
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    for number, rows in enumerate((OURS, more)):
        pq.write_table(parquet.table(rows, table.schema), folder / f"part-{number}.parquet")
    (folder / ".part-2.parquet.tmp").write_text("half a part")
    held = parquet.read(folder)
    assert held.schema == table.schema
    np.testing.assert_array_equal(parquet.values(held, "loss"), [0.5, np.nan, 2.0])
    assert parquet.values(held, "bytes_up").tolist() == [3, 4, 2**60]
    assert parquet.values(held, "away").tolist() == [True, False, True]
    assert parquet.values(held, "status").tolist() == [0, 1, 1]
    some = held.filter(parquet.bools([False, True, True])).slice(1)
    assert parquet.values(some, "away").tolist() == [True]
    assert parquet.read(folder, ["label"]).column_names == ["label"]


def test_a_table_without_rows_keeps_its_types(table):
    none = parquet.table(dict.fromkeys(ROWS, ()) | {"status": ((), ["late"])}, table.schema)
    assert (none.num_rows, none.schema) == (0, table.schema)
    assert parquet.values(none, "away").dtype == np.bool
    assert parquet.values(none, "bytes_up").dtype == np.int64


@pytest.mark.parametrize(("most", "rows"), [(1, 1), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_the_first_rows_of_parts(table, tmp_path, most, rows):
    parts = [tmp_path / f"part-{k}.parquet" for k in range(2)]
    for part in parts:
        pq.write_table(table, part)
    found = parquet.read_first(parts, most)
    assert rows <= found.num_rows <= rows + 1  # of the last part a whole batch
    assert found.slice(0, rows)["bytes_up"].to_pylist() == [3, 4, 3, 4][:rows]


def test_rows_of_a_value_are_read_of_all_parts_without_groups_that_cannot_hold_it(tmp_path):
    """A group that is not read may be anything, here no Parquet at all."""
    parts = [tmp_path / f"part-{k}.parquet" for k in range(2)]
    held = pa.table({"client": [1, 2, 5, 7, 3, 7], "round": range(6), "loss": [0.5] * 6})
    for part in parts:
        pq.write_table(held, part, row_group_size=2)
    first = pq.read_metadata(parts[1]).row_group(0)
    with parts[1].open("r+b") as file:
        file.seek(4)
        file.write(bytes(first.column(2).data_page_offset - 4))
    found = parquet.read_where(parts, "client", 7, ["round", "client"])
    assert found.to_pydict() == {"round": [3, 5, 3, 5], "client": [7] * 4}
    assert parquet.read_where(parts, "client", 3, ["round"]).to_pydict() == {"round": [4, 4]}
    assert parquet.read_where(parts[:1], "client", 4, ["round"]) is None
