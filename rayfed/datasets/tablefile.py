"""Tables from a user's CSV, Parquet or LIBSVM files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Bools, Ints
from rayfed.core.errors import ScenarioError, clipped, unknown
from rayfed.core.files import read_frame
from rayfed.datasets.base import Table
from rayfed.datasets.fetch import read_hub
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


@dataclass(frozen=True)
class Rules:
    """How the columns of a file are read; see `rayfed.datasets.tabular.Tabular`."""

    client: str | None = None
    categorical: Literal["auto"] | tuple[str, ...] = ()
    missing: Literal["refuse", "drop", "mean"] = "refuse"


@dataclass(frozen=True)
class FileTable(Table):
    """Rows of a file as they stand there, before training rows have said what to make of them.

    Parameters
    ----------
    coded : (d,) array of bool
        Columns that say whether a categorical column holds a value; the others are numbers, NaN
        where a cell is empty.
    """

    coded: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))


def load_file(
    path: Path | str,
    target: str | None,
    task: Task,
    like: Table | None = None,
    rules: Rules = Rules(),
) -> FileTable:
    """Read a CSV, Parquet or LIBSVM file.

    Parameters
    ----------
    path : Path or URL
        A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``, or in ``.libsvm`` or ``.svm``,
        or Parquet files at an ``hf://`` address.
    target : str, optional
        The column to predict; ``y`` if None, which is what labels of LIBSVM files are called.
    task : "regression", "binary" or "multiclass"
        Task of the problem. Classes, numbers or text, are numbered in sorted order.
    like : Table, optional
        The training table, if the file holds test rows: its features and classes are used, and no
        ``client`` column is needed.
    rules : Rules
        Which column says who has a row, which ones are categories, and what is done about cells
        that are empty.

    Returns
    -------
    FileTable
        Every column but the target and ``client`` is a feature. The values of ``client`` are
        numbered in sorted order; other values than 0, 1, ... are kept as names.

    Raises
    ------
    ScenarioError
        If there is no such file, it cannot be read or has no rows, the target or a feature is
        missing, a cell is text, empty or infinite, or the target does not fit the task.
    """
    known = () if like is None else like.names
    frame = read_hub(path) if isinstance(path, str) else _frame(path, known)
    column = LABEL if target is None else target
    reader = _Reader(path, frame, rules)
    used = reader.features(column) if like is None else reader.known_columns(like.names)
    note = reader.without_gaps([*used, column]) if rules.missing == "drop" else ""
    y, labels = reader.target(column, task, like)
    called, client = reader.clients() if like is None else ((), None)
    X, names, coded = reader.encoded(used) if like is None else reader.like(like)
    return FileTable(
        X, y, classes=len(labels), names=names, client=client, labels=labels,
        client_names=called, note=note, coded=coded,
    )  # fmt: skip


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

    def __init__(self, path: Path | str, frame: pd.DataFrame, rules: Rules) -> None:
        self.path, self.frame, self.rules = path, frame, rules
        self.columns = [str(name) for name in frame.columns]
        frame.columns = self.columns
        self.client = CLIENT if rules.client is None else rules.client
        if len(frame) == 0:
            raise self.error("has no rows; give at least one below the header")

    def error(self, problem: str) -> ScenarioError:
        return ScenarioError(str(self.path), problem)

    def features(self, target: str) -> tuple[str, ...]:
        """Return the columns that are features; those that the rules name must be there."""
        names = tuple(name for name in self.columns if name not in (target, self.client))
        if not names:
            raise self.error(f"has no feature columns beside '{target}'; add at least one")
        chosen = () if self.rules.categorical == "auto" else self.rules.categorical
        for name in chosen:
            if name not in names:
                raise self.error(unknown("feature", name, names))
        if self.rules.client is not None and self.client not in self.columns:
            raise self.error(unknown("column", self.client, self.columns))
        return names

    def known_columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that hold the features of the training data."""
        return tuple(dict.fromkeys(self.source(name)[0] for name in names))

    def source(self, name: str) -> tuple[str, str | None]:
        """Return the column of a feature, and the value of which it says whether it is there."""
        if name in self.columns:
            return name, None
        found = [c for c in self.columns if name.startswith(f"{c}=")]
        if not found:
            column = name.partition("=")[0]
            raise self.error(f"has no column '{column}', a feature of the training data")
        column = max(found, key=len)
        return column, name[len(column) + 1 :]

    def encoded(self, names: tuple[str, ...]) -> tuple[Array, tuple[str, ...], Bools]:
        """Return the features (n, d) of columns, what they are called, and which are coded (d,)."""
        parts: list[Array] = []
        called: list[str] = []
        coded: list[bool] = []
        for name in names:
            if not self.is_category(name):
                parts, called, coded = [*parts, self.number(name)], [*called, name], [*coded, False]
                continue
            cells = self.texts(name)
            for value in sorted(set(cells.tolist()) - {""}):
                parts.append((cells == value).astype(np.float64))
                called.append(f"{name}={value}")
                coded.append(True)
        return np.stack(parts, axis=1), tuple(called), np.array(coded)

    def like(self, table: Table) -> tuple[Array, tuple[str, ...], Bools]:
        """Return the features of the training data; values that it does not have are none."""
        parts, coded = [], []
        for name in table.names:
            column, value = self.source(name)
            coded.append(value is not None)
            parts.append(self.number(column) if value is None else self.texts(column) == value)
        return np.stack(parts, axis=1).astype(np.float64), table.names, np.array(coded)

    def is_category(self, name: str) -> bool:
        import pandas as pd

        if self.rules.categorical != "auto":
            return name in self.rules.categorical
        column = self.frame[name]
        if pd.api.types.is_numeric_dtype(column):
            return False
        try:
            column.dropna().astype(object).to_numpy().astype(np.float64)
        except (TypeError, ValueError):
            return True
        return False

    def texts(self, name: str) -> npt.NDArray[Any]:
        """Return the values of a categorical column as texts, empty ones as ""."""
        if self.rules.missing != "mean":
            self.complete(name)
        column = self.frame[name]
        return np.where(column.isna(), "", column.astype(str)).astype(str)

    def without_gaps(self, names: Sequence[str]) -> str:
        """Leave out rows with an empty cell in a column that is used; return a note of them."""
        used = [name for name in (*names, self.client) if name in self.columns]
        empty = self.frame[used].isna()
        gone = int(empty.any(axis=1).sum())
        if not gone:
            return ""
        if gone == len(self.frame):
            raise self.error("has an empty cell in every row; fill them, or set missing: mean")
        worst = str(empty.sum().idxmax())
        text = f"{gone:,} of {len(self.frame):,} rows have an empty cell and are left out"
        self.frame = self.frame[~empty.any(axis=1)].reset_index(drop=True)
        return f"{text}; most are in column '{worst}', {int(empty[worst].sum()):,}"

    def number(self, name: str) -> npt.NDArray[np.float64]:
        import pandas as pd

        column = self.frame[name]
        if self.rules.missing != "mean":
            self.complete(name)
        if pd.api.types.is_numeric_dtype(column):  # truth values included
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values = self.parsed(name)
        bad = np.flatnonzero(np.isinf(values))
        if len(bad):
            raise self.error(f"column '{name}', row {bad[0] + 1} is infinite; give a finite number")
        return values

    def parsed(self, name: str) -> npt.NDArray[np.float64]:
        """Return the numbers of a column that was not read as numbers, such as decimals."""
        column = self.frame[name]
        cells = column.astype(object).where(column.notna(), np.nan)
        for row, cell in enumerate(cells, start=1):
            try:
                float(cell)
            except (TypeError, ValueError) as error:
                raise self.error(
                    f"column '{name}', row {row} holds '{clipped(cell, 40)}'; "
                    "turn it into a number, or drop the column, or name it in categorical of "
                    "dataset: {name: table, path: ...}"
                ) from error
        return cells.to_numpy(dtype=np.float64)

    def complete(self, name: str) -> None:
        empty = np.flatnonzero(self.frame[name].isna().to_numpy())
        if len(empty):
            more = f", {len(empty):,} of {len(self.frame):,} rows are" if len(empty) > 1 else ""
            raise self.error(
                f"column '{name}', row {empty[0] + 1} is empty or NaN{more}; fill it or drop the "
                "row, or set missing in dataset: {name: table, path: ...}"
            )

    def clients(self) -> tuple[tuple[str, ...], Ints | None]:
        if self.client not in self.columns:
            return (), None
        self.complete(self.client)
        values, index = self.numbered(self.client)
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
        self.complete(name)
        if task == "regression":
            return self.number(name), ()
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
