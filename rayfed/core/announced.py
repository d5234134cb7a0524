"""Parts of a run's tables that count: those that the run has announced.

While a run goes on it adds a line about each part to ``parts.jsonl``; ``run.json`` of a run that
has ended lists all files. What else lies in the folder of a table, such as the copy of a program
that syncs folders, is none of the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rayfed.core.entries import Damaged, Entry, check, described, entries
from rayfed.core.inside import opened

if TYPE_CHECKING:
    import pyarrow as pa

PARTS = "parts.jsonl"
"""File in the folder of a run that goes on, with a line for each part of its tables."""
Parts: TypeAlias = Mapping[str, Mapping[str, Entry]]
"""The parts of tables by their names, such as "rounds"."""
_PART = re.compile(r"part-\d+\.parquet")


def run_folders(folder: Path) -> list[Path]:
    """Return the folders of the runs in a result folder, also of those that lost their record."""
    found = {path.parent for path in folder.glob("*/run.json")}
    return sorted(found | {path.parents[1] for path in folder.glob("*/checkpoint/manifest.json")})


def header(identity: str | None) -> str:
    """Return the first line: the run by the digest of its decisive settings."""
    return json.dumps({"of": identity}) + "\n"


def line_of(parts: Parts, kind: str = "parts") -> str:
    """Return a line that announces parts, or, of `kind` "instead", those that replace a table's."""
    return json.dumps({kind: {name: described(held) for name, held in parts.items()}}) + "\n"


def parts_of(run: Path, tables: Iterable[str], record: Mapping[str, Any]) -> dict[str, list[Path]]:
    """Return the parts of tables that a run has announced, in their order; none of one without.

    Parameters
    ----------
    run : Path
        Its folder.
    tables : iterable of str
        Such as "rounds".
    record : mapping
        What its ``run.json`` holds; the caller has checked the files that it lists.

    Raises
    ------
    Damaged
        If a part is not as it was written.
    """
    lines = None if record.get("files") else _lines(run / PARTS)
    return {table: _parts_of(run, table, record, lines) for table in tables}


def _parts_of(
    run: Path, table: str, record: Mapping[str, Any], lines: list[str] | None
) -> list[Path]:
    """Return the parts of a table; `lines` are those of ``parts.jsonl``, None without."""
    folder = run / f"{table}.parquet"
    files = record.get("files")
    if files:  # whose entries the caller has checked
        prefix = f"{folder.name}/"
        names = sorted(name.removeprefix(prefix) for name in files if name.startswith(prefix))
        return [folder / name for name in names]
    if lines is None:  # an earlier version wrote it
        found = folder.iterdir() if folder.is_dir() else ()
        parts = sorted(part for part in found if part.is_file() and _PART.fullmatch(part.name))
        return [folder] if folder.is_file() else parts
    try:
        made = json.loads(lines[0])["of"]
        announced = _announced(lines[1:], table)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise Damaged(f"{PARTS} is not what was written") from error
    identity = record.get("identity") or {}
    if made and identity and made not in (identity.get("digest"), *identity.get("before", ())):
        raise Damaged(f"run.json and {PARTS} are of different runs")
    damage: Damaged | None = None
    for held in announced:  # while a table is replaced, either may be there
        try:
            check(folder, held)
            return [folder / name for name in sorted(held)]
        except Damaged as error:
            damage = damage or error
    raise damage or Damaged(f"{PARTS} is not what was written")


def read_table(
    run: Path, table: str, record: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pa.Table | None:
    """Return some columns of a table that a run has announced; None if there are no rows.

    Parameters and errors are those of `parts_of`; all columns are read if `columns` is None.
    """
    from rayfed.core import parquet  # late: it imports PyArrow

    parts = parts_of(run, (table,), record)[table]
    return parquet.read_parts(parts, columns) if parts else None


def _lines(path: Path) -> list[str] | None:
    """Return the lines that are written; None if there is no such file.

    Raises
    ------
    Damaged
        If the last one has no end; it may come yet.
    """
    try:
        with opened(path) as file:
            *lines, rest = str(file.read(), "utf-8", "replace").split("\n")
    except FileNotFoundError:
        return None
    if rest:
        raise Damaged(f"{path.name} is not what was written")
    return lines


def _announced(lines: Iterable[str], table: str) -> list[dict[str, Entry]]:
    """Return the parts of a table in announced lines, and their replacements."""
    parts: dict[str, Entry] = {}
    instead: dict[str, Entry] | None = None
    for line in lines:
        announced = json.loads(line)
        parts |= entries((announced.get("parts") or {}).get(table) or {})
        if table in (announced.get("instead") or {}):
            instead = entries(announced["instead"][table])
    return [parts] if instead is None else [parts, instead]
