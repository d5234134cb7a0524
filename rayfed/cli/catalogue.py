"""Output of ``rayfed list``: plug-ins, from their own docstrings, and columns, as declared."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from rich.markup import escape
from rich.table import Table

from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.needs import VECTORS
from rayfed.core.plugins import ALL_KINDS, declared, find, resolve, settings
from rayfed.core.yamlfile import yaml_text
from rayfed.engine.columns import ColumnEntry, catalogue
from rayfed.study import described, plain


def kinds() -> Table:
    """Return one line for every kind of plug-in: the names that are found."""
    table = Table("kind", "known", box=None, pad_edge=False)
    for kind in ALL_KINDS:
        table.add_row(kind, ", ".join(declared(kind)))
    return table


def overview(kind: str) -> Table:
    """Return one line for every plug-in of a kind."""
    table = Table("name", "description", box=None, pad_edge=False)
    for name, cls in find(kind).items():
        table.add_row(name, escape(first_line(cls) + _marks(cls)))
    return table


def first_line(cls: type[Any]) -> str:
    """Return the first sentence of a docstring."""
    return (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")


def _marks(cls: type[Any]) -> str:
    sees = isinstance(needs := getattr(cls, "needs", None), frozenset) and VECTORS in needs
    marks = {"sees single vectors": sees, "baseline": getattr(cls, "baseline", False)}
    shown = [text for text, holds in marks.items() if holds]
    return f" ({', '.join(shown)})" if shown else ""


def details(kind: str, name: str) -> tuple[str, Table]:
    """Return the description of a plug-in with its paper, and the table of its settings.

    Raises
    ------
    ScenarioError
        If there is no such plug-in; the message names the nearest one.
    """
    cls = resolve(kind, name)
    text = inspect.getdoc(cls) or ""
    about = text.split("\n\nParameters\n")[0]
    paper = _paper(cls)
    notes = _section(text, "Notes")
    parts = [about, *(["Source: " + paper] if paper else []), *([notes] if notes else [])]
    return "\n\n".join(parts), _settings(cls)


def _settings(cls: type[Any]) -> Table:
    table = Table("setting", "type", "default", "meaning", box=None, pad_edge=False)
    if not dataclasses.is_dataclass(cls):  # a panel, which has none
        return table
    hints = get_type_hints(cls)
    meanings = described(cls)
    for field in settings(cls):
        cells = (_type(hints[field.name]), _default(field), meanings.get(field.name, ""))
        table.add_row(field.name, *map(escape, cells))
    return table


def _default(field: dataclasses.Field[Any]) -> str:
    """Return a default as a scenario file would give it."""
    default = field.default
    if field.default_factory is not dataclasses.MISSING:
        made = field.default_factory()
        default = getattr(made, "name", made)
    if default is dataclasses.MISSING:
        return "(required)"
    text = yaml_text(plain(default), default_flow_style=True, width=math.inf)
    return str(text).removesuffix("...\n").strip()


def _type(hint: Any) -> str:
    """Return a type in the words of a scenario file."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " | ".join(map(_type, parts))
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin is tuple:
        return f"list of {_type(parts[0])}"
    if origin is Mapping:
        return "mapping"
    if hint is type(None):
        return "null"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _section(text: str, title: str) -> str:
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.M | re.S)
    return match.group(1).strip("\n") if match else ""


def _paper(cls: type[Any]) -> str:
    """Return the reference in the docstring of a plug-in's module: the paragraph with a link."""
    text = inspect.getdoc(inspect.getmodule(cls)) or ""
    linked = [part for part in text.split("\n\n") if "http" in part]
    return " ".join(linked[0].split()) if linked else ""


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
    table.add_column("description", ratio=1)
    for entry in entries:
        column = entry.column
        sources = ", ".join(entry.declared_by)
        about = column.about if sources == "every run" else f"{column.about} ({sources})"
        table.add_row(column.name, *map(escape, (column.unit, column.better or "", about)))
    return table


def column(name: str) -> str:
    """Return the declarations of the columns of a name, a paragraph for each.

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
