"""Cells of CSV and Parquet files: numbers, and texts as they are written.

Readers of tables guess types, and a guess changes identities: 06037 becomes 6037, NA an empty cell,
and 1 in a column with gaps 1.0. So whoever reads a table names the columns whose cells are
identities, such as clients, categories and classes; these stay text.
"""

from __future__ import annotations

import gzip
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from io import BufferedReader
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from rayfed.core.errors import ScenarioError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BLANKS = "blanks"
"""Separator of files whose cells are apart by any number of blanks."""
_SEPARATORS = ",;\t"
_BEGINNING = 2**16  # bytes from which the form of numbers and cells is detected
_DECIMALS = re.compile(r'"?[-+]?\d+,\d+"?'), re.compile(r'"?[-+]?\d+\.\d+"?')
NO_NUMBER = (
    "#N/A", "#NA", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""Words for a number that is not there; elsewhere they are texts like others."""
_SURPLUS = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")  # in errors of pandas
_INDEX = re.compile(r"__index_level_\d+__")  # a column that pandas adds to Parquet files


@dataclass(frozen=True)
class Form:
    """Notation of the cells of a file.

    Parameters
    ----------
    separator : str, optional
        What separates the cells of a CSV file: a character, or `BLANKS`. If None, whichever of
        comma, semicolon and tab the first line has most of, or blanks if it has none of them.
    decimal : str, optional
        Decimal sign of numbers in a CSV file, "." or ","; by the beginning of the file if None.
    encoding : str
        Of a CSV file.
    columns : tuple of str
        Names of the columns of a CSV file that has no header.
    missing : tuple of str
        Words that stand for an empty cell, in every column.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    columns: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


PLAIN = Form()
"""The form is detected from the beginning of the file, in UTF-8, with a header."""


def opened(path: Path) -> gzip.GzipFile | BufferedReader:
    """Open a file, decompressed if its name ends in ``.gz``."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def dialect(path: Path, form: Form) -> tuple[str, str]:
    """Return the cell separator of a CSV file, and the decimal sign of its numbers.

    Unless cells are separated by commas, numbers have decimal commas if the beginning of the file
    holds such a cell and none with a point.
    """
    with opened(path) as file:
        text = file.read(_BEGINNING).decode(form.encoding, "replace")
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").partition("\n")[0])
    separator = form.separator or max(_SEPARATORS, key=header.count)
    if form.separator is None and separator not in header and len(header.split()) > 1:
        separator = BLANKS
    cells = text.split() if separator == BLANKS else re.split(f"[{re.escape(separator)}\r\n]", text)
    commas, points = (any(map(sign.fullmatch, cells)) for sign in _DECIMALS)
    guess = "," if separator != "," and commas and not points else "."
    return separator, form.decimal or guess


def read_csv(path: Path, texts: Collection[str], form: Form) -> pd.DataFrame:
    """Read the cells of a CSV file.

    Parameters
    ----------
    path : Path
    texts : collection of str
        Columns whose cells are read as they are written; those that the file has.
    form : Form

    Returns
    -------
    DataFrame
        Columns without blanks around their names. One whose cells are numbers or truth values, or
        say that there is none, holds these; every other one texts, and NaN where a cell is empty.

    Raises
    ------
    ScenarioError
        If a row has more cells than the header, two columns have one name, or the text is not in
        the encoding.
    """
    import pandas as pd  # imported late: client actors do not need it

    separator, decimal = dialect(path, form)
    how: dict[str, Any] = {
        "sep": r"\s+" if separator == BLANKS else separator, "decimal": decimal,
        "encoding": form.encoding, "skipinitialspace": True, "keep_default_na": False,
    }  # fmt: skip
    with _explained(path, form):
        top = pd.read_csv(path, header=None, nrows=2, dtype=str, **how)
        names = list(form.columns) or _called(top.iloc[0].tolist())
        _check_header(str(path), names, top.iloc[0].astype(str).str.strip().tolist(), form)
        how |= {"names": names, "header": None if form.columns else 0, "low_memory": False}
        empty = ["", *form.missing]
        gaps = {name: empty if name in texts else [*empty, *NO_NUMBER] for name in names}
        kinds = dict.fromkeys(set(texts) & set(names), str)
        frame: pd.DataFrame = pd.read_csv(path, dtype=kinds, na_values=gaps, **how)
        words = [name for name in names if name not in texts and _is_text(frame[name])]
        if words:  # as they are written, NA and None as well
            how |= {"usecols": words, "dtype": str, "na_values": dict.fromkeys(words, empty)}
            frame[words] = pd.read_csv(path, **how)[words]
    return frame


def of_arrow(place: str, table: pa.Table, texts: Collection[str], form: Form) -> pd.DataFrame:
    """Return the cells of an Arrow table, such as a Parquet file holds.

    Parameters
    ----------
    place : str
        Where it comes from, for errors.
    table : pyarrow.Table
    texts : collection of str
        Columns whose cells become texts, see `text_of`; those that the table has.
    form : Form
        Its words for empty cells.

    Returns
    -------
    DataFrame
        As of `read_csv`; columns of other types than numbers, truth values and texts hold what
        pandas makes of them.

    Raises
    ------
    ScenarioError
        If two columns have one name, or a cell of `texts` is neither number, text nor time.
    """
    import pandas as pd
    import pyarrow as pa

    table = table.rename_columns([name.strip() for name in table.column_names])
    table = table.drop_columns([name for name in table.column_names if _INDEX.fullmatch(name)])
    _check_names(place, table.column_names)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    numbers = [number for word in form.missing if (number := _number(word)) is not None]
    words = {"", *form.missing, *map(text_of, numbers)}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        if any(is_text(kind) for is_text in kinds):
            frame[name] = column.to_pandas()
            frame[name] = frame[name].mask(frame[name].isin(words))
        elif name in texts:
            cells = pd.Series(named(place, name, column.to_pylist()), dtype=object)
            frame[name] = cells.mask(cells.isin(words), None)
        elif numbers and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            frame[name] = frame[name].mask(frame[name].isin(numbers))
    return frame


def text_of(cell: object) -> str | None:
    """Return a cell as the text that identifies a client, a category or a class.

    Whole numbers have no point, whatever their type.

    Returns
    -------
    str or None
        None of an empty cell.

    Raises
    ------
    TypeError
        If it is neither text, number, truth value nor time.

    Examples
    --------
    >>> text_of(7.0), text_of(Decimal("2.50")), text_of(date(2024, 3, 1)), text_of(True)
    ('7', '2.5', '2024-03-01', 'True')
    """
    if cell is None or cell != cell:
        return None
    if isinstance(cell, (str, Integral, date, time, UUID)):
        return str(cell)
    if isinstance(cell, Decimal):
        text = f"{cell:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(cell, Real):
        return str(int(float(cell))) if cell == cell // 1 else str(cell)
    raise TypeError(f"holds a {type(cell).__name__}; turn it into a number or a text")


def named(place: str, name: str, cells: Iterable[object]) -> list[str | None]:
    """Return the cells of a column as texts; see `text_of`.

    Raises
    ------
    ScenarioError
        If a cell is neither text, number, truth value nor time.
    """
    texts: list[str | None] = []
    for cell in cells:
        try:
            texts.append(text_of(cell))
        except TypeError as error:
            line = f"column '{name}', row {len(texts) + 1} {error}"
            raise ScenarioError(place, line) from error
    return texts


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _called(cells: list[str]) -> list[str]:
    """Return the names of columns, given the cells of the header: those of pandas, stripped."""
    names: dict[str, None] = {}
    for number, cell in enumerate(cells):
        first = str(cell).strip() or f"Unnamed: {number}"
        every = itertools.chain([first], (f"{first}.{again}" for again in itertools.count(1)))
        names[next(name for name in every if name not in names)] = None
    return list(names)


def _is_text(column: pd.Series[Any]) -> bool:
    import pandas as pd

    return not pd.api.types.is_numeric_dtype(column) and (
        pd.api.types.infer_dtype(column, skipna=True) not in ("boolean", "integer")
    )


def _check_header(place: str, names: list[str], first: list[str], form: Form) -> None:
    """Refuse names that do not fit the first line of a file."""
    _check_names(place, names)
    if not form.columns:
        return
    if len(first) != len(names):
        text = f"line 1 has {len(first)} cells, but columns has {len(names)} names"
        raise ScenarioError(place, f"{text}; give one for each")
    if first == names:
        text = "line 1 is a header that holds these names; leave columns out of the data set"
        raise ScenarioError(place, text)


def _check_names(place: str, names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ScenarioError(place, f"has two columns '{name}'; rename one of them")


@contextmanager
def _explained(path: Path, form: Form) -> Iterator[None]:
    """Report in one line a row with too many cells, or another encoding."""
    try:
        yield
    except UnicodeError as error:
        found = getattr(error, "object", b"")[getattr(error, "start", 0) :][:1].hex()
        text = f"is not written in {form.encoding} (byte 0x{found}); save it as UTF-8, or give its"
        where = "encoding, such as cp1252, in dataset: {name: table, path: ...}"
        raise ScenarioError(str(path), f"{text} {where}") from error
    except ValueError as error:  # pandas's errors of parsing are such
        found = _SURPLUS.search(str(error))
        if found is None:
            raise
        most, line, cells = found.groups()
        what = f"columns has {most} names" if form.columns else f"the header has {most}"
        text = f"line {line} has {cells} cells, but {what}; drop what is too much, or name it"
        raise ScenarioError(str(path), text) from error
