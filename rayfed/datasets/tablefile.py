"""Tables from a user's CSV, Parquet or LIBSVM files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import read_frame
from rayfed.datasets.base import Table
from rayfed.datasets.libsvm import LABEL, read_libsvm

if TYPE_CHECKING:
    import pandas as pd

_NAMES = (str, int, float, np.number, np.bool_, Decimal, date, UUID)
"""Types of cells that can identify a client or a class."""

Task: TypeAlias = Literal["regression", "binary", "multiclass"]

CLIENT = "client"
SUFFIXES = (".csv", ".csv.gz", ".parquet")
"""Of tables with named columns."""
LIBSVM = (".libsvm", ".svm")


def is_file(dataset: str) -> bool:
    """Return whether ``problem.dataset`` names a file.

    Examples
    --------
    >>> is_file("data/houses.csv.gz"), is_file("mnist")
    (True, False)
    """
    return dataset.endswith(SUFFIXES + LIBSVM)


def load_file(path: Path, target: str | None, task: Task, like: Table | None = None) -> Table:
    """Read a CSV, Parquet or LIBSVM file.

    Parameters
    ----------
    path : Path
        A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``, or in ``.libsvm`` or ``.svm``.
    target : str, optional
        The column to predict; ``y`` if None, which is what labels of LIBSVM files are called.
    task : "regression", "binary" or "multiclass"
        Task of the problem. Classes, numbers or text, are numbered in sorted order.
    like : Table, optional
        The training table, if the file holds test rows: its features and classes are used, and no
        ``client`` column is needed.

    Returns
    -------
    Table
        Every column but the target and ``client`` is a feature. The values of ``client`` are
        numbered in sorted order; other values than 0, 1, ... are kept as names.

    Raises
    ------
    ScenarioError
        If there is no such file, it cannot be read or has no rows, the target or a feature is
        missing, a cell is text, empty or infinite, or the target does not fit the task.
    """
    reader = _Reader(path, _frame(path, () if like is None else like.names))
    column = LABEL if target is None else target
    y, labels = reader.target(column, task, like)
    names = reader.features(column) if like is None else like.names
    called, client = reader.clients() if like is None else ((), None)
    X = reader.numbers(names)
    return Table(
        X, y, classes=len(labels), names=names, client=client, labels=labels, client_names=called
    )


def _frame(path: Path, names: tuple[str, ...]) -> pd.DataFrame:
    """Return the cells of a file; of a LIBSVM file these features too, be they all 0."""
    return read_libsvm(path, names) if path.suffix in LIBSVM else read_frame(path)


def client_names(values: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of clients, given their sorted values; none if these are 0, 1, ...

    Examples
    --------
    >>> client_names(["hospital-03", "hospital-07"]), client_names([0, 1, 2]), client_names([7, 9])
    (('hospital-03', 'hospital-07'), (), ('7', '9'))
    """
    if list(values) == list(range(len(values))):
        return ()
    return tuple(str(value) for value in values)


class _Reader:
    """Extracts validated columns from a frame; errors name the file."""

    def __init__(self, path: Path, frame: pd.DataFrame) -> None:
        self.path, self.frame = path, frame
        self.columns = [str(name) for name in frame.columns]
        frame.columns = self.columns
        if len(frame) == 0:
            raise self.error("has no rows; give at least one below the header")

    def error(self, problem: str) -> ScenarioError:
        return ScenarioError(str(self.path), problem)

    def features(self, target: str) -> tuple[str, ...]:
        names = tuple(name for name in self.columns if name not in (target, CLIENT))
        if not names:
            raise self.error(f"has no feature columns beside '{target}'; add at least one")
        return names

    def numbers(self, names: tuple[str, ...]) -> Array:
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise self.error(f"has no column '{missing[0]}', a feature of the training data")
        return np.stack([self.number(name) for name in names], axis=1)

    def number(self, name: str) -> npt.NDArray[np.float64]:
        import pandas as pd

        column = self.frame[name]
        self.complete(name)
        if pd.api.types.is_numeric_dtype(column):  # truth values included
            values = column.to_numpy(dtype=np.float64)
        else:
            values = self.parsed(name)
        bad = np.flatnonzero(np.isinf(values))
        if len(bad):
            raise self.error(f"column '{name}', row {bad[0] + 1} is infinite; give a finite number")
        return values

    def parsed(self, name: str) -> npt.NDArray[np.float64]:
        """Return the numbers of a column that was not read as numbers, such as decimals."""
        cells = self.frame[name].astype(object)
        for row, cell in enumerate(cells, start=1):
            try:
                float(cell)
            except (TypeError, ValueError) as error:
                raise self.error(
                    f"column '{name}', row {row} holds '{clipped(cell, 40)}'; "
                    "turn it into a number, or drop the column"
                ) from error
        return cells.to_numpy(dtype=np.float64)

    def complete(self, name: str) -> None:
        empty = np.flatnonzero(self.frame[name].isna().to_numpy())
        if len(empty):
            raise self.error(
                f"column '{name}', row {empty[0] + 1} is empty or NaN; fill it or drop the row"
            )

    def clients(self) -> tuple[tuple[str, ...], Ints | None]:
        if CLIENT not in self.columns:
            return (), None
        self.complete(CLIENT)
        values, index = self.numbered(CLIENT)
        return client_names(values), index

    def numbered(self, name: str) -> tuple[tuple[Any, ...], Ints]:
        """Return the distinct values of a column, sorted, and the index of each row's value."""
        column = self.frame[name].to_numpy()
        if column.dtype == object:  # text, or mixed values that cannot be compared
            for row, cell in enumerate(column, start=1):
                if not isinstance(cell, _NAMES):
                    text = f"column '{name}', row {row} holds a {type(cell).__name__}"
                    raise self.error(f"{text}; turn it into a number or a text")
            column = column.astype(str)
        values, index = np.unique(column, return_inverse=True)
        return tuple(values.tolist()), index.astype(np.int64)

    def target(self, name: str, task: Task, like: Table | None) -> tuple[Array, tuple[Any, ...]]:
        if name not in self.columns:
            raise self.error(f"has no target column '{name}'; {self.nearest(name)}")
        if task == "regression":
            return self.number(name), ()
        self.complete(name)
        labels, y = self.numbered(name)
        if like is not None:
            return self.known(name, labels, y, like.labels)
        self.fit(name, task, labels)
        return y, labels

    def nearest(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.columns, n=1, cutoff=0.4)
        shown = ", ".join(self.columns[:8]) + (", ..." if len(self.columns) > 8 else "")
        hint = f"did you mean '{near[0]}'?" if near else f"the columns are {shown}."
        return f"{hint} Set problem.target"

    def fit(self, name: str, task: Task, labels: tuple[Any, ...]) -> None:
        parts = [label for label in labels if isinstance(label, float) and label % 1 != 0]
        if parts:
            raise self.error(
                f"target '{name}' holds numbers such as {parts[0]:g}, not classes; "
                "use a regression problem"
            )
        if task == "binary" and len(labels) != 2:
            raise self.error(
                f"target '{name}' has {len(labels)} classes where the problem takes 2; "
                "use a multiclass problem such as softmax-regression"
                if len(labels) > 2
                else f"target '{name}' has 1 class where the problem takes 2; check the column"
            )
        if len(labels) < 2:
            raise self.error(f"target '{name}' has 1 class; at least 2 are needed")

    def known(
        self, name: str, labels: tuple[Any, ...], y: Ints, trained: tuple[Any, ...]
    ) -> tuple[Array, tuple[Any, ...]]:
        strange = [label for label in labels if label not in trained]
        if strange:
            raise self.error(
                f"target '{name}' holds {strange[0]!r}, a class that is not in the training data"
            )
        return np.array([trained.index(label) for label in labels])[y], trained
