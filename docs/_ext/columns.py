"""The page of columns, from what tables and plug-ins declare."""

from __future__ import annotations

from pathlib import Path

import md
from sphinx.application import Sphinx

from rayfed.engine.columns import ColumnEntry, catalogue

HEAD = """# Columns

"Better" says which direction is better, if one is. "Of" says what a table has the column for:
every run, a key of the scenario, or a plug-in.

Each field of a Parquet file carries `title`, `unit`, `better` and `about` as metadata
(`pyarrow.parquet.read_schema`). `rayfed list columns` prints this page on a terminal."""


def columns_page() -> str:
    """Return the page that lists what the columns of every result table hold."""
    entries = catalogue()
    tables = dict.fromkeys(entry.table for entry in entries)
    return "\n\n".join([HEAD, *(_table(name, entries) for name in tables)]) + "\n"


def _table(name: str, entries: tuple[ColumnEntry, ...]) -> str:
    head = ("column", "dtype", "unit", "better", "meaning", "of")
    rows = [_row(entry) for entry in entries if entry.table == name]
    return f"## `{name}`\n\n{md.table(head, rows)}"


def _row(entry: ColumnEntry) -> tuple[str, ...]:
    column = entry.column
    texts = (column.dtype, column.unit, column.better or "", md.escaped(column.about))
    return (f"`{column.name}`", *texts, md.escaped(", ".join(entry.declared_by)))


def _generate(app: Sphinx) -> None:
    md.write(Path(app.srcdir), "columns.md", columns_page())


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
