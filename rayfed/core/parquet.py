"""Parquet tables of NumPy arrays, with titles and units as metadata of fields.

`pandas.read_parquet` ignores the metadata; `columns_in` and ``pyarrow.parquet.read_schema`` return
it.

PyArrow's own conversions, and its readers of folders, import pandas: 48 MB and a third of a second
in each process that executes runs. `table`, `read` and `values` do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.core.arrays import Array, Bools
from rayfed.core.columns import Better, Column, Dtype
from rayfed.core.inside import opened

_TYPES: dict[Dtype, pa.DataType] = {
    "float64": pa.float64(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "category": pa.dictionary(pa.int8(), pa.string()),
}
_DTYPES = {kind: name for name, kind in _TYPES.items()}
_NUMBERS = {pa.float64(): np.float64, pa.int64(): np.int64, pa.int8(): np.int8}
_PIECE = 65_536
_TEXTS = ("title", "unit", "better", "about")


def schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of a table with these columns.

    Each field has the metadata ``title``, ``unit``, ``better`` and ``about``, except those that are
    empty.
    """
    return pa.schema([_field(column) for column in columns])


def _field(column: Column) -> pa.Field:
    texts = {name: getattr(column, name) for name in _TEXTS}
    metadata = {name: text for name, text in texts.items() if text}
    return pa.field(column.name, _TYPES[column.dtype], metadata=metadata)


def columns_in(fields: pa.Schema) -> dict[str, Column]:
    """Return the columns that the fields of a schema describe, by name.

    Fields without a title are skipped: the file was not written by rayfed, or by a version that did
    not store titles.

    Examples
    --------
    >>> loss = Column("loss", "training loss", better="lower")
    >>> columns_in(schema([loss])) == {"loss": loss}
    True
    """
    return {field.name: _column(field) for field in fields if b"title" in (field.metadata or {})}


def _column(field: pa.Field) -> Column:
    texts = {name: field.metadata.get(name.encode(), b"").decode() for name in _TEXTS}
    known: dict[str, Better] = {"lower": "lower", "higher": "higher"}
    better = known.get(texts["better"])
    dtype = _DTYPES.get(field.type, "float64")
    return Column(field.name, texts["title"], texts["unit"], better, texts["about"], dtype)


def table(columns: Mapping[str, Any], fields: pa.Schema) -> pa.Table:
    """Return a table without missing values.

    Parameters
    ----------
    columns : mapping of str to sequence
        Numbers, bools or texts for every field; of a category a pair (codes, texts).
    fields : pyarrow.Schema
        What `schema` returns.

    Examples
    --------
    >>> fields = schema([Column("round", dtype="int64"), Column("label", dtype="string")])
    >>> table({"round": [0, 1], "label": ["a", "b"]}, fields).to_pylist()
    [{'round': 0, 'label': 'a'}, {'round': 1, 'label': 'b'}]
    """
    arrays = [_array(columns[field.name], field.type) for field in fields]
    return pa.Table.from_arrays(arrays, schema=fields)


def _array(items: Any, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        codes, texts = items
        return pa.DictionaryArray.from_arrays(
            _array(codes, kind.index_type), _array(texts, kind.value_type)
        )
    if kind == pa.string():
        return _texts(items)
    if kind == pa.bool_():
        return bools(items)
    data = np.ascontiguousarray(items, dtype=_NUMBERS[kind])
    return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(data)])


def bools(items: Sequence[bool] | Bools) -> pa.Array:
    """Return bools as PyArrow's `filter` takes them."""
    bits = np.packbits(np.asarray(items, dtype=np.bool), bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(items), [None, pa.py_buffer(bits)])


def _texts(items: Sequence[str]) -> pa.Array:
    encoded = [text.encode() for text in items]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(items), buffers)


@contextmanager
def _opened(part: Path) -> Iterator[pq.ParquetFile]:
    """Open a table of a result folder."""
    with opened(part) as file, pq.ParquetFile(file) as table:
        yield table


def fields_of(path: Path) -> pa.Schema:
    """Return the schema of a Parquet file in a result folder."""
    with _opened(path) as file:
        return file.schema_arrow


def read(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return some columns of a Parquet file or of a folder of parts; all columns if None."""
    return read_parts(sorted(path.glob("part-*.parquet")) if path.is_dir() else [path], columns)


def read_parts(parts: Iterable[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """Return some columns of Parquet files, one below the other; all columns if None."""
    names = None if columns is None else list(columns)
    tables = []
    for part in parts:
        with _opened(part) as file:
            tables.append(file.read(names, use_threads=file.metadata.num_rows > _PIECE))
    return pa.concat_tables(tables, promote_options="permissive")


def read_first(parts: Iterable[Path], most: int) -> pa.Table:
    """Return about `most` of the first rows of Parquet files, of which no more are read."""
    batches: list[pa.RecordBatch] = []
    for part in parts:
        with _opened(part) as file:
            for batch in file.iter_batches(most):
                batches.append(batch)
                if sum(each.num_rows for each in batches) >= most:
                    return pa.Table.from_batches(batches)
    return pa.Table.from_batches(batches)


def read_where(
    parts: Iterable[Path], name: str, value: int, columns: Sequence[str]
) -> pa.Table | None:
    """Return columns of the rows of Parquet files with a given value in column `name`.

    Row groups that cannot hold it, by their statistics, are not read. Of the others
    a piece is held at a time.
    """
    batches: list[pa.RecordBatch] = []
    for part in parts:
        with _opened(part) as file:
            groups = [k for k in range(file.num_row_groups) if _may_hold(file, k, name, value)]
            for batch in file.iter_batches(_PIECE, groups, [*columns, name], use_threads=False):
                rows = np.flatnonzero(batch[name].to_numpy() == value)
                if len(rows):
                    batches.append(batch.select([*columns]).take(pa.array(rows)))
    return pa.Table.from_batches(batches) if batches else None


def _may_hold(file: pq.ParquetFile, group: int, name: str, value: int) -> bool:
    """Return whether a row group may have a value in a column, by its least and largest."""
    statistics = file.metadata.row_group(group).column(file.schema.names.index(name)).statistics
    return (
        statistics is None
        or not statistics.has_min_max
        or statistics.min <= value <= statistics.max
    )


def values(held: pa.Table, name: str) -> Array:
    """Return a column without missing values: numbers, bools, or the codes of a category."""
    combined = held[name].combine_chunks()
    if pa.types.is_dictionary(combined.type):
        combined = combined.indices
    part, data = (
        slice(combined.offset, combined.offset + len(combined)),
        combined.buffers()[1] or b"",
    )
    if combined.type == pa.bool_():
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[part] > 0
    return np.frombuffer(data, _NUMBERS[combined.type])[part]
