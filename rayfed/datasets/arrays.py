"""Arrays of one's own: a NumPy file, or in Python arrays and torch data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError, listed
from rayfed.core.files import read_arrays, reading
from rayfed.core.frames import text_of
from rayfed.core.names import distinct
from rayfed.core.plugins import FilePath
from rayfed.datasets.base import Dataset, Source, Table
from rayfed.datasets.tablefile import client_names

_LARGEST = np.iinfo(np.int64).max
_KEYS = ("X", "y", "client", "X_test", "y_test", "client_test")


class InMemory:
    """Arrays given in Python, by name; records hold a digest of them.

    Parameters
    ----------
    arrays : mapping of str to array
    """

    def __init__(self, arrays: Mapping[str, npt.ArrayLike]) -> None:
        self.arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        digest = sha256()
        for name in sorted(self.arrays):
            value = self.arrays[name]
            digest.update(f"{name}:{value.dtype}:{value.shape}".encode())
            digest.update(value.tobytes() if value.dtype == object else value.data)
        self.digest = digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return f"arrays in memory, sha256 {self.digest}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InMemory) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, kw_only=True)
class Arrays(Dataset):
    """Rows of one's own, of any shape: a NumPy file, or in Python arrays or a torch data set.

    ``X`` (n, ...) holds the rows, images as (n, C, H, W), and ``y`` (n,) whole numbers from 0 on
    for classes, or other numbers for regression. Networks also take several values a row, ``y``
    (n, ...): numbers, labels, masks or sequences, where whole numbers are classes and -100 marks
    positions that do not count; and rows without ``y``, which are targets themselves
    (autoencoders). ``client`` (n,), if present, is the client of a
    row, and ``X_test`` and ``y_test``, if there, are test rows at the server, or of the clients in
    ``client_test``. Bytes are divided by 255; other numbers are taken as they are.

    Parameters
    ----------
    path : str, optional
        An ``.npz`` file with these names, relative to the scenario.
    data : object, optional
        In Python, in place of a file: a mapping of these names to arrays; a pandas DataFrame of
        numbers, whose columns ``y`` and, if there, ``client`` are these and all others features; or
        a sequence of pairs (row, target) such as a ``torch.utils.data.Dataset``, whose pairs are
        read once. The result folder does not keep it, so that such a study cannot be resumed; save
        a file for that.

    Raises
    ------
    ScenarioError
        If not one of `path` and `data` is given, or `data` is neither.

    Examples
    --------
    >>> pictures = Arrays(data={"X": np.zeros((4, 1, 2, 2), np.uint8), "y": [0, 1, 1, 0]})
    >>> table = pictures.load(Source(), seed=0)
    >>> table.X.shape, table.shape, table.classes
    ((4, 4), (1, 2, 2), 2)
    """

    name: ClassVar[str] = "arrays"

    path: FilePath | None = None
    data: Any = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.data is None):
            text = "needs the path of an .npz file, or data in Python; give one of them"
            raise ScenarioError("path", text)
        if self.data is not None and not isinstance(self.data, InMemory):
            object.__setattr__(self, "data", InMemory(_gathered(self.data)))

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows, with the test rows at the server."""
        place = "problem.dataset" if self.path is None else str(source.folder / self.path)
        held = self.data.arrays if self.path is None else _file(Path(place))
        try:
            return _table(held)
        except ValueError as error:
            raise ScenarioError(place, str(error)) from error

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return two classes of small images, for the checks of plug-ins."""
        images = np.arange(96, dtype=np.uint8).reshape(24, 1, 2, 2)
        return cls(data={"X": images, "y": np.arange(24) % 2})


def _gathered(data: Any) -> dict[str, Array]:
    """Return arrays by name, given such a mapping, a DataFrame, or pairs of row and target."""
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return _of_frame(data)
    if isinstance(data, Mapping):
        return {str(name): _array(str(name), value) for name, value in data.items()}
    if isinstance(data, str) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        text = "in Python, give a mapping of arrays, a DataFrame or pairs (row, target)"
        raise ScenarioError("data", f"found {data!s:.60}; {text}")
    try:
        pairs = [data[index] for index in range(len(data))]
        rows, targets = zip(*((np.asarray(x), np.asarray(y)) for x, y in pairs), strict=True)
        return {"X": np.stack(rows), "y": np.stack(targets)}
    except (TypeError, ValueError) as error:
        text = f"holds no pairs (row, target) of one shape ({type(error).__name__}: {error})"
        raise ScenarioError("data", text) from error


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:
        text = f"{name} has entries of unequal lengths; make them one shape, padded where needed"
        raise ScenarioError("data", text) from error


def _of_frame(frame: Any) -> dict[str, Array]:
    """Return arrays by name, given a pandas DataFrame."""
    from pandas.api.types import is_numeric_dtype

    columns = list(frame.columns)
    if "y" not in columns:
        text = f"is a frame of the columns {listed(map(str, columns))}; name the target y"
        raise ScenarioError("data", text)
    for name in columns:
        if name != "client" and not is_numeric_dtype(frame[name]):
            text = f"column '{name}' is {frame[name].dtype}; turn it into numbers, or drop it"
            raise ScenarioError("data", f"{text} (classes of y are numbered from 0)")
    held = {"X": frame.drop(columns=["y", "client"], errors="ignore").to_numpy(dtype=float)}
    held["y"] = frame["y"].to_numpy()
    if "client" in columns:
        clients = frame["client"].astype(object)
        held["client"] = clients.where(clients.notna(), None).to_numpy()
    return held


def _file(path: Path) -> dict[str, Array]:
    with reading(path, "an .npz file"):
        return read_arrays(path)


def _table(held: Mapping[str, Array]) -> Table:
    """Return the table of arrays by name; raise ValueError for arrays that do not fit."""
    strange = sorted(set(held) - set(_KEYS))
    if strange or "X" not in held:
        raise ValueError(f"holds {listed(held) or 'nothing'}; give X and y, and no more than "
                         f"{listed(_KEYS)}")  # fmt: skip
    if ("y_test" in held) != ("X_test" in held and "y" in held):
        raise ValueError("holds one of X_test and y_test; give both or none")
    X, y = _rows(held, "")
    classes = int(y.max()) + 1 if y.dtype.kind == "i" and y.ndim == 1 else 0
    if classes > len(y):
        raise ValueError(f"has labels up to {y.max():,} for {len(y):,} rows; number them 0, 1, ...")
    test = None
    if "X_test" in held:
        test = _part(*_rows(held, "_test"), classes)
        if test.shape != (X.shape[1:]):
            raise ValueError(f"has test rows of shape {test.shape}, others of {X.shape[1:]}")
        if test.y.shape[1:] != y.shape[1:]:
            raise ValueError(f"has y_test of {test.y.shape} and y of {y.shape}; give one shape")
        whole = y.dtype.kind == "i"
        if test.y.dtype.kind != y.dtype.kind or (whole and test.y.max() > y.max()):
            raise ValueError("has targets in y_test that are not among those of y")
    table = _part(X, y, classes, test)
    if test is not None and test.scale != table.scale:
        raise ValueError("has bytes in one of X and X_test, and other numbers in the other")
    return _owned(table, held)


def _owned(table: Table, held: Mapping[str, Array]) -> Table:
    """Return a table with the clients of its rows, and of its test rows."""
    if "client" not in held:
        if "client_test" in held:
            raise ValueError("has client_test and no client; give both, or client alone")
        return table
    count, test = len(table.y), table.test
    if held["client"].shape != (count,):
        raise ValueError(f"has {held['client'].shape} clients for {count} rows; give (n,)")
    if "client_test" not in held:
        names, client = _clients(held["client"])
        return replace(table, client=client, client_names=names)
    if test is None or held["client_test"].shape != test.y.shape[:1]:
        raise ValueError(f"has {held['client_test'].shape} clients of test rows; give one for each")
    names, both = _clients(np.concatenate([held["client"], held["client_test"]]))
    client, tests = both[:count], both[count:]
    for row in np.flatnonzero(~np.isin(tests, client))[:1]:
        text = f"has test rows of client {held['client_test'][row]}, who has no training rows"
        raise ValueError(text)
    owned = replace(table, test=None, client=client, client_names=names)
    return owned.with_tests(replace(test, client=tests))


def _clients(given: Array) -> tuple[tuple[str, ...], Ints]:
    """Return the names of clients, if they are not 0, 1, ..., and the number (n,) of each row's."""
    if given.dtype.kind not in "biufSUO":
        raise ValueError(f"has clients of {given.dtype}; give whole numbers or names")
    named = given.astype(str) if given.dtype.kind == "S" else given
    try:
        cells = [text_of(cell) for cell in named.tolist()]
    except TypeError as error:
        raise ValueError(f"has a client that {error}") from error
    values, client = distinct(cells)
    for row in np.flatnonzero(client < 0)[:1]:
        raise ValueError(f"has no client in row {row + 1}; give each row one")
    return client_names(values), client


def _part(X: Array, y: Array, classes: int, test: Table | None = None) -> Table:
    scale = 255.0 if X.dtype == np.uint8 else 1.0
    flat = X.reshape(len(X), -1)
    return Table(flat, y, classes, test=test, scale=scale, shape=X.shape[1:])


def _rows(held: Mapping[str, Array], part: str) -> tuple[Array, Array]:
    """Return rows and targets; whole numbers are labels (int64), others float64."""
    X = held[f"X{part}"]
    y = held[f"y{part}"] if f"y{part}" in held else np.zeros((len(X), 0))
    if X.ndim < 2 or X.dtype.kind not in "biuf" or not X.size:
        raise ValueError(f"has X{part} of {X.dtype} {X.shape}; give numbers (n, ...)")
    empty = f"y{part}" in held and not y.size
    if y.shape[:1] != (len(X),) or y.dtype.kind not in "biuf" or empty:
        raise ValueError(f"has y{part} of {y.dtype} {y.shape}; give {len(X)} numbers")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError(f"has numbers in X{part} or y{part} that are not finite")
    if y.dtype.kind == "f":
        return X, y.astype(np.float64)
    if y.ndim > 1 and y.max() <= _LARGEST:
        return X, y.astype(np.int64)  # `check_table` knows which classes there may be
    if y.min() < 0 or y.max() > _LARGEST or (y.min() > 0 and not part):
        text = f"has labels {y.min()} to {y.max()} in y{part}"
        raise ValueError(f"{text}; number them from 0, or give float numbers for regression")
    return X, y.astype(np.int64)
