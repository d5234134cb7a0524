"""Tables in several files: a pattern, a folder or an address, read as one."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError, listed
from rayfed.core.files import SUFFIXES, check_room, reading
from rayfed.datasets.layout import Place, files, is_hidden, places
from rayfed.datasets.libsvm import LIBSVM, is_libsvm
from rayfed.datasets.shards import PARTS

if TYPE_CHECKING:
    import pandas as pd

CLIENT = "client"
_PIECE = 2**16  # bytes of a file from which the memory of its cells is estimated
_CELL = 24  # bytes that pandas takes for a cell of a CSV file in addition to its text

Read: TypeAlias = "Callable[[Path], pd.DataFrame]"


@dataclass(frozen=True)
class Gathered:
    """The cells of one or several files.

    Parameters
    ----------
    frame : DataFrame
        Rows of all files, in the order of their paths.
    part : (n,) array of int8, optional
        Which of `PARTS` each row is of, where the paths say so.
    client : str, optional
        Column of clients that was made of the paths.
    names : tuple of str
        Paths of the F files, relative to the folder that they have in common; empty if it is one
        file.
    starts : (F,) array of int
        First row of each file.
    """

    frame: pd.DataFrame
    part: npt.NDArray[np.int8] | None = None
    client: str | None = None
    names: tuple[str, ...] = ()
    starts: Ints = field(default_factory=lambda: np.zeros(1, np.int64))


def is_many(path: str) -> bool:
    """Return whether a path is a folder or a pattern, and no file.

    Examples
    --------
    >>> is_many("hospital_*.csv"), is_many("hospital_a.csv")
    (True, False)
    """
    given = Path(path)
    return given.is_dir() or (glob.has_magic(path) and not given.exists())


def found(path: Path) -> tuple[Path, list[Path]]:
    """Return the tables that a folder holds or a pattern matches, sorted, and their folder.

    Raises
    ------
    ScenarioError
        If there are none, or they are of several formats.
    """
    if path.is_dir():
        folder, matched = path, list(files(path, SUFFIXES + LIBSVM))
        missing = f"holds no file that ends in {listed(SUFFIXES + LIBSVM)}"
        missing += "; give another folder, or a pattern such as '*.txt'"
    else:
        first = next(k for k, part in enumerate(path.parts) if glob.has_magic(part))
        folder = Path(*path.parts[:first])
        every = sorted(map(Path, glob.glob(str(path), recursive=True)))
        matched = [each for each in every if each.is_file() and not is_hidden(each.name)]
        missing = "matches no file; give a pattern that does"
    if not matched:
        raise ScenarioError(str(path), missing)
    kinds = sorted({_suffix(each) for each in matched})
    if len(kinds) > 1:
        text = f"has files of {listed(kinds)}"
        raise ScenarioError(str(path), f"{text}; give a pattern of one kind, such as '*{kinds[0]}'")
    known = set(matched)
    for each in matched:
        if each.with_name(f"{each.name}.gz") in known:
            text = f"has '{each.name}' twice, also compressed; leave one out"
            raise ScenarioError(str(path), text)
    return folder, matched


def _suffix(path: Path) -> str:
    """Return the suffix of a table, by which it is read; that of compressed CSV is CSV's."""
    name = path.name.lower().removesuffix(".gz")
    return next((each for each in SUFFIXES + LIBSVM if name.endswith(each)), "")


def gather(path: Path, client: str | None, read: Read) -> Gathered:
    """Read the tables of a folder or a pattern, one below the other.

    Parameters
    ----------
    path : Path
    client : str, optional
        Column of clients that the user named.
    read : callable
        Reads one file.

    Raises
    ------
    ScenarioError
        If there are no files, one cannot be read or has no rows, they differ in their columns, or
        the memory cannot hold them.
    """
    folder, paths = found(path)
    names = [each.relative_to(folder).as_posix() for each in paths]
    size = sum(map(_estimated, paths))
    check_room(size, str(path), f"the cells of its {len(paths):,} files", "give fewer or smaller")
    sparse = is_libsvm(paths[0], SUFFIXES)
    return joined(str(path), names, [read(each) for each in paths], client, sparse=sparse)


def _estimated(path: Path) -> float:
    """Return the approximate bytes of a file's cells; twice the file size for Parquet.

    Files that are compressed as wholes are judged when they are read.
    """
    with reading(path, "a table"):
        size = path.stat().st_size
        if path.suffix != ".csv" or not size:
            return 2.0 * size
        with path.open("rb") as file:
            piece = file.read(_PIECE)
    cells = sum(map(piece.count, (b",", b";", b"\t", b"\n")))
    return 2.0 * size * (1 + _CELL * cells / len(piece))


def joined(
    place: str,
    names: Sequence[str],
    frames: Sequence[pd.DataFrame],
    client: str | None,
    *,
    sparse: bool = False,
) -> Gathered:
    """Return the rows of several files, with the properties that their paths give.

    Parameters
    ----------
    place : str
        Where they are, for errors.
    names : sequence of str
        Relative paths of the files.
    frames : sequence of DataFrame
        Their cells.
    client : str, optional
        Column of clients that the user named.
    sparse : bool
        Whether features that a file does not name are 0.

    Raises
    ------
    ScenarioError
        If a file has no rows, they differ in their columns, or nothing determines which of several
        folders ``column=value`` clients are.
    """
    import pandas as pd  # imported late: client actors do not need it

    frames = _alike(place, names, frames, sparse=sparse)
    known = places([name.removesuffix(_suffix(Path(name))) for name in map(_plain, names)], place)
    sizes = [len(frame) for frame in frames]
    frame = pd.concat(frames, ignore_index=True)
    for key in known[0].columns:
        if key not in frame.columns:
            frame[key] = np.repeat([each.columns[key] for each in known], sizes)
    made = _clients(place, frame, known, sizes, client)
    kinds = np.array([PARTS.index(each.part) for each in known], dtype=np.int8)
    part = np.repeat(kinds, sizes) if kinds.any() else None
    return Gathered(frame, part, made, tuple(names), np.cumsum([0, *sizes[:-1]]))


def _plain(name: str) -> str:
    return name.removesuffix(".gz")


def _alike(
    place: str, names: Sequence[str], frames: Sequence[pd.DataFrame], *, sparse: bool
) -> Sequence[pd.DataFrame]:
    """Return frames with the columns of the first, in its order; sparse ones with those of all."""
    for frame, name in zip(frames, names, strict=True):
        frame.columns = [str(column) for column in frame.columns]
        if not len(frame):
            text = f"'{name}' has no rows; give it one, or leave it out"
            raise ScenarioError(place, text)
    if sparse:
        widest = max(frames, key=lambda frame: len(frame.columns)).columns
        return [frame.reindex(columns=widest, fill_value=0.0) for frame in frames]
    first = list(frames[0].columns)
    for frame, name in zip(frames, names, strict=True):
        more = [column for column in frame.columns if column not in first]
        less = [column for column in first if column not in frame.columns]
        if more or less:
            differ = [f"lacks {listed(map(repr, less))}"] * bool(less)
            differ += [f"has {listed(map(repr, more))} besides"] * bool(more)
            text = f"the columns of '{name}' are not those of '{names[0]}'"
            text = f"{text}: it {' and '.join(differ)}"
            raise ScenarioError(place, f"{text}; give all files the same columns")
    return [frame[first] for frame in frames]


def _clients(
    place: str,
    frame: pd.DataFrame,
    known: Sequence[Place],
    sizes: Sequence[int],
    client: str | None,
) -> str | None:
    """Return the client column made from paths; None if another column names clients."""
    if client is not None or CLIENT in frame.columns:
        return None
    keys = list(known[0].columns)
    if len(keys) > 1:
        text = f"has folders of {listed(keys)}"
        raise ScenarioError(place, f"{text}; name the one of clients in client of the data set")
    if keys:
        return keys[0]
    if not known[0].client:
        return None
    frame[CLIENT] = np.repeat([each.client for each in known], sizes)
    return CLIENT
