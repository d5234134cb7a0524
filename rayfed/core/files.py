"""Reading of user files: checks that all readers share.

A path may name a pipe or a device, which never ends. A file may be damaged, or claim sizes that no
memory holds. So a reader opens regular files alone, judges sizes before it allocates, and whatever
it raises becomes one line that names the file.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.frames import BLANKS, PLAIN, Form, dialect, of_arrow, opened, read_csv
from rayfed.core.inside import NotRegular, check_kind
from rayfed.core.inside import opened as opened_inside
from rayfed.core.machine import available_bytes, in_words

if TYPE_CHECKING:  # NumPy is imported late, as a shell that completes reads no arrays
    import pandas as pd

    from rayfed.core.arrays import Array

SUFFIXES = (".csv", ".csv.gz", ".parquet")
"""Ends of the names of tables."""
MOST_COLUMNS = 20_000
"""Largest number of columns of a table; pandas takes minutes for a million."""
_LONGEST_HEADER = 2**21  # bytes
_PIECE = 2**20  # bytes that are looked at together
_CELL = 24  # bytes that pandas takes for a cell of a CSV file in addition to its text
_VALUE = 16  # bytes of a value of a Parquet file, in Arrow and in pandas
_JSON = 8  # bytes of Python's objects for each byte of JSON with numbers
_ANYWHERE = 2**24  # bytes that are always there
_EPOCH_S = 1e9  # in September 2001; no trace begins 32 years after it began


def check_regular(path: Path) -> None:
    """Raise OSError unless a path names a regular file.

    Raises
    ------
    NotRegular
        If it is neither a file nor a folder.
    OSError
        If it does not exist, or is a folder.
    """
    check_kind(path, os.stat(path).st_mode)


@contextmanager
def reading(
    path: Path, kind: str, remedy: str = "replace the file", key: str = ""
) -> Iterator[None]:
    """Check that a path names a regular file, and reduce errors of its reader to one line.

    Parameters
    ----------
    path : Path
    kind : str
        What the file should be, with its article.
    remedy : str
        What to change.
    key : str
        Key of the scenario that names the file, if errors are said there.

    Raises
    ------
    ScenarioError
        If anything is raised that is not of rayfed already.
    """
    try:
        check_regular(path)
        yield
    except RayfedError:
        raise
    except NotRegular as error:
        more = "" if ";" in str(error.strerror) else "; give the path of one"
        raise _refused(path, key, f"{error.strerror}{more}") from error
    except Exception as error:  # readers of damaged files raise what the damage makes them raise
        if isinstance(error, OSError) and error.strerror:  # the reason of the system
            problem = f"cannot be read: {error.strerror}" + (f"; {remedy}" if key else "")
        else:
            problem = f"cannot be read as {kind} ({_why(error, path)}); {remedy}"
        raise _refused(path, key, problem) from error


def _refused(path: Path, key: str, problem: str) -> ScenarioError:
    if key:
        return ScenarioError(key, f"'{clipped(path.name, 60)}' {problem}")
    return ScenarioError(str(path), problem)


def _why(error: Exception, path: Path) -> str:
    """Return an exception in a few words."""
    if isinstance(error, RecursionError):
        return "its parts lie too deep in each other"
    if isinstance(error, MemoryError):
        return "it needs more memory than is available"
    line = str(error).partition("\n")[0].replace(str(path), path.name)
    known = isinstance(error, (ValueError, OSError))
    return clipped(line if known and line else f"{type(error).__name__}: {line}".rstrip(": "), 120)


def check_room(size: float, place: str, what: str, remedy: str) -> None:
    """Refuse allocations that exceed the memory of this machine.

    Parameters
    ----------
    size : float
        Bytes.
    place : str
        Key of the scenario, or file.
    what : str
        What would take them, in the plural.
    remedy : str
        What to change.

    Raises
    ------
    ScenarioError
        If fewer are available.
    """
    free = available_bytes() if size > _ANYWHERE else _ANYWHERE
    if size > free:
        text = f"{what} take about {in_words(size)} of memory, but {in_words(free)} are available"
        raise ScenarioError(place, f"{text}; {remedy}")


def of_epoch(seconds: float) -> str:
    """Return the error of a trace's start time; empty if it is valid.

    Examples
    --------
    >>> of_epoch(1.7e9), of_epoch(1.7e12), of_epoch(3600)
    ('looks like seconds since 1970', 'looks like milliseconds since 1970', '')
    """
    if seconds < _EPOCH_S:
        return ""
    return f"looks like {'milliseconds' if seconds > 1e2 * _EPOCH_S else 'seconds'} since 1970"


def open_regular(path: Path, results: bool) -> BinaryIO:
    """Open a regular file; one of a result folder is reached through no link."""
    if results:
        return opened_inside(path)
    check_regular(path)
    return path.open("rb")


def read_json(path: Path, *, results: bool = False) -> Any:
    """Return the content of a JSON file; no link is followed to one of a result folder.

    Raises
    ------
    OSError
        If it is no regular file, or cannot be read.
    ValueError
        If it is no JSON, or lists and mappings lie too deep in each other.
    ScenarioError
        If the memory cannot hold it.
    """
    with open_regular(path, results) as file:
        size = os.fstat(file.fileno()).st_size
        check_room(_JSON * size, str(path), "its values", "split the file")
        return parse_json(file.read())


def parse_json(text: str | bytes) -> Any:
    """Return the content of JSON text; raise ValueError with its first error.

    Examples
    --------
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: lists and mappings lie too deep in each other
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists and mappings lie too deep in each other") from None


def read_arrays(path: Path, *, results: bool = False) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file by name, or that of an ``.npy`` file as "x".

    No link is followed to a file of a result folder.

    Raises
    ------
    OSError
        If it is no regular file, or cannot be read.
    ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError
        If it is neither, is damaged, holds Python objects, or an array claims more than it has.
    ScenarioError
        If the memory cannot hold them.
    """
    import numpy as np

    with open_regular(path, results) as file:
        packed = zipfile.is_zipfile(file)
        file.seek(0)
        if not packed:
            _check_arrays(_claimed(file, "it", os.fstat(file.fileno()).st_size), path)
            file.seek(0)
            return {"x": np.load(file, allow_pickle=False)}
        with zipfile.ZipFile(file) as held:
            _check_arrays(sum(_member(held, member) for member in held.infolist()), path)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)


def _member(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    with packed.open(member) as file:
        name = clipped(member.filename.removesuffix(".npy"), 40)
        return _claimed(file, f"'{name}'", member.file_size)


def _claimed(file: IO[bytes], name: str, size: int) -> int:
    """Return the bytes of an array by its header, in a file of `size` bytes."""
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    try:
        read = readers[npy.read_magic(file)]
    except (KeyError, ValueError):
        raise ValueError(f"{name} is no array of NumPy's") from None
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which could run code; save numbers")
    claimed: int = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed > size - file.tell():
        raise ValueError(f"{name} claims the shape {clipped(shape, 40)}, and holds less")
    return claimed


def _check_arrays(size: int, path: Path) -> None:
    check_room(size, str(path), "its arrays", "give smaller ones")


def read_frame(path: Path, texts: Collection[str] = (), form: Form = PLAIN) -> pd.DataFrame:
    """Read a table: Parquet if the name ends so, else CSV.

    Parameters
    ----------
    path : Path
        A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
    texts : collection of str
        Columns whose cells are read as they are written, if the file has them; see
        `rayfed.core.frames.read_csv`.
    form : Form
        How cells are written.

    Raises
    ------
    ScenarioError
        If it is no regular file, cannot be read, has too many columns, or more cells than the
        memory holds, or a row has more cells than the header.
    """
    parquet = path.suffix == ".parquet"
    with reading(path, "Parquet" if parquet else "CSV"):
        width, size = _of_parquet(path) if parquet else _of_csv(path, form)
        check_width(width, str(path))
        check_room(size, str(path), "its cells", "give fewer rows or columns")
        if not parquet:
            return read_csv(path, texts, form)
        import pyarrow.parquet as pq  # imported late: client actors do not need it

        return of_arrow(str(path), pq.read_table(path), texts, form)


def check_width(columns: int, place: str, what: str = "columns or more") -> None:
    """Refuse a table of too many columns.

    Raises
    ------
    ScenarioError
        If there are more than `MOST_COLUMNS`.
    """
    if columns > MOST_COLUMNS:
        text = f"has {columns:,} {what}; at most {MOST_COLUMNS:,} can be read"
        raise ScenarioError(place, text)


def _of_parquet(path: Path) -> tuple[int, int]:
    """Return the number of columns of a Parquet file, and the bytes that its table takes."""
    import pyarrow.parquet as pq

    held = pq.read_metadata(path)
    packed = sum(held.row_group(k).total_byte_size for k in range(held.num_row_groups))
    return len(held.schema.to_arrow_schema()), packed + _VALUE * held.num_rows * held.num_columns


def _of_csv(path: Path, form: Form) -> tuple[int, int]:
    """Return the number of columns of a CSV file, and the bytes that its table takes.

    Columns are those of the (possibly truncated) first line. No more of the file is read than the
    memory could hold.
    """
    separator, _ = dialect(path, form)
    mark = b" " if separator == BLANKS else separator.encode()
    free, size = available_bytes(), 0
    with opened(path) as file:
        width = file.readline(_LONGEST_HEADER).count(mark) + 1
        if path.suffix != ".gz" and path.stat().st_size * (1 + _CELL // 2) <= free:
            return width, 0  # it fits even if every other byte is a comma
        while size <= free and (piece := file.read(_PIECE)):
            size += len(piece) + _CELL * (piece.count(mark) + piece.count(b"\n"))
    return width, size
