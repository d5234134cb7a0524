"""Column declarations in Parquet files: titles and units as metadata of a table's fields.

`pandas.read_parquet` ignores the metadata; `columns_in` and ``pyarrow.parquet.read_schema`` return
it.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from rayfed.core.columns import Better, Column, Dtype

_TYPES: dict[Dtype, pa.DataType] = {
    "float64": pa.float64(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "category": pa.dictionary(pa.int8(), pa.string()),
}
_DTYPES = {kind: name for name, kind in _TYPES.items()}
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
