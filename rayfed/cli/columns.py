"""Output of ``rayfed list columns``: the columns of the result tables, as they are declared."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from rayfed.core.errors import ScenarioError, unknown
from rayfed.engine.columns import ColumnEntry, catalogue


def columns() -> list[Table]:
    """Return one table for each result table, with a line for each of its columns."""
    entries = catalogue()
    return [
        _table(name, [entry for entry in entries if entry.table == name])
        for name in dict.fromkeys(entry.table for entry in entries)
    ]


def _table(name: str, entries: list[ColumnEntry]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(name, no_wrap=True, max_width=34)
    for title in ("unit", "better"):
        table.add_column(title, no_wrap=True)
    table.add_column("what it is", ratio=1)
    for entry in entries:
        column = entry.column
        who = ", ".join(entry.declared_by)
        about = column.about if who == "every run" else f"{column.about} ({who})"
        table.add_row(column.name, *map(escape, (column.unit, column.better or "", about)))
    return table


def column(name: str) -> str:
    """Return what is declared about the columns of a name, a paragraph for each.

    Raises
    ------
    ScenarioError
        If no table has such a column; the message names the nearest one.
    """
    entries = [entry for entry in catalogue() if entry.column.name == name]
    if not entries:
        known = dict.fromkeys(entry.column.name for entry in catalogue())
        raise ScenarioError("", unknown("column", name, known))
    return "\n\n".join(map(_paragraph, entries))


def _paragraph(entry: ColumnEntry) -> str:
    column = entry.column
    facts = {
        "title": column.title,
        "unit": column.unit or "none",
        "dtype": column.dtype,
        "better": column.better or "neither way",
        "of": ", ".join(entry.declared_by),
    }
    lines = [f"{column.name} in {entry.table}", column.about]
    return "\n".join(filter(None, [*lines, *(f"  {key}: {text}" for key, text in facts.items())]))
