"""Tables of one's own: columns by name, categories, empty cells, units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np

from rayfed.core.arrays import Array, Bools
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.frames import BLANKS, Form
from rayfed.core.plugins import FilePath
from rayfed.datasets.base import Dataset, Source, Table, standardise
from rayfed.datasets.fetch import SCHEME
from rayfed.datasets.libsvm import LIBSVM
from rayfed.datasets.pixels import Size
from rayfed.datasets.split import Split
from rayfed.datasets.tablefile import FileTable, Rules, Task, load_file


@dataclass(frozen=True, kw_only=True)
class Tabular(Dataset):
    """CSV or Parquet files: a target column, features, and perhaps a column of clients.

    A path alone, ``dataset: sales.csv``, stands for this data set with its defaults. The target is
    `problem.target`, one column or several. Clients, categories and classes are texts, as they are
    written; all other columns are numbers. Whole numbers are written as 1 or as 1.0.

    Of several files, each is a client, unless they have a column of clients: a client is called by
    the words in which the paths differ, such as ``a`` for ``hospital_a.csv``. Files of one table,
    such as ``part-0.parquet``, are none. Paths that name splits (``train``, ``val``, ``test``) say
    which rows a client holds out, or the server if there are no clients. Folders ``column=value``
    are columns. A column of images, as data sets of the Hub have it, is the only feature.

    What is learned of columns (means, deviations, categories) is learned of the training rows
    alone, those of all clients together. Held-out rows and test files are treated by the same
    numbers.

    Parameters
    ----------
    path : str
        A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``, relative to the scenario; a
        LIBSVM file; a pattern such as ``hospital_*.csv`` or a folder of such files; or Parquet
        files of the Hugging Face Hub, such as
        ``hf://datasets/user/name/data/train-*.parquet`` (extra ``hf``).
    client : str, optional
        The column with the client of each row; ``client``, if there is one, if null.
    categorical : "auto" or list of str
        Columns that become one column of 0 and 1 for each value that a training row has; "auto"
        for all that are text, of at most 256 values. A value that no training row has is none of
        them: all are 0.
    missing : "refuse", "drop" or "mean"
        Empty cells are refused, or their rows left out, or numbers get the mean of their column
        and categories are none. Numbers that are infinite count as empty in the last two. A target,
        and whose a row is, must be there or dropped.
    missing_values : list of str or numbers
        Values of empty cells, such as "?" or -999, in addition to cells without text; among
        numbers also NA, NaN, None and null.
    separator : str, optional
        What separates the cells of a CSV file: a character, or "blanks" for any number of them.
        Whichever of comma, semicolon and tab the first line has most of if null, and blanks if it
        has none.
    decimal : "." or ",", optional
        Decimal sign of a CSV file's numbers; detected from its beginning if null.
    encoding : str
        Of a CSV file, such as cp1252.
    columns : list of str
        Names of the columns of a CSV file that has no header.
    standardise : bool or "client"
        Whether columns of numbers are brought to mean 0 and variance 1; "client" by each client's
        own training rows. A constant column becomes 0.
    size : (height, width), optional
        Size that images are brought to, bilinearly; if None, all must have one size.

    Examples
    --------
    >>> Tabular(path="sales.csv", categorical="auto", standardise=True).missing
    'refuse'
    """

    name: ClassVar[str] = "table"

    path: FilePath
    client: str | None = None
    categorical: Literal["auto"] | tuple[str, ...] = ()
    missing: Literal["refuse", "drop", "mean"] = "refuse"
    standardise: bool | Literal["client"] = False
    size: Size | None = None
    missing_values: tuple[str | int | float, ...] = ()
    separator: str | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str = "utf-8"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        written = (self.separator, self.decimal, *self.columns, self.encoding != "utf-8")
        if any(written) and self.path.endswith((".parquet", *LIBSVM)):
            text = "separator, decimal, encoding and columns are of CSV files; leave them out"
            raise ScenarioError("path", f"found '{clipped(self.path, 60)}', and {text}")
        if self.separator not in (None, BLANKS) and len(self.separator or "") != 1:
            text = f"found '{clipped(self.separator, 20)}'; give one character, or {BLANKS}"
            raise ScenarioError("separator", text)
        try:
            "".encode(self.encoding)
        except LookupError as error:
            text = f"unknown encoding '{clipped(self.encoding, 20)}'; give one that Python has"
            raise ScenarioError("encoding", f"{text}, such as cp1252") from error

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return one with every kind of column."""
        path = folder / "example.csv"
        cells = "\n".join(f"{k % 3},{k / 2},{'ab'[k % 2]},{k}" for k in range(24))
        path.write_text(f"client,age,kind,y\n{cells}\n")
        return cls(path=str(path), categorical="auto", standardise=True)

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows as they stand in the file, to predict the numbers of column ``y``."""
        return self.read(source, None, "regression")

    def read(
        self, source: Source, target: str | tuple[str, ...] | None, task: Task,
        file: str | None = None, like: Table | None = None,
    ) -> FileTable:  # fmt: skip
        """Return all rows as they stand in the file, or in a file of test rows.

        Parameters
        ----------
        target, task, like
            See `load_file`.
        file : str, optional
            Of the test rows; they are `like` those of training.
        """
        path = self.path if file is None else file
        form = Form(
            self.separator, self.decimal, self.encoding, _stripped(self.columns),
            tuple(map(str, self.missing_values)),
        )  # fmt: skip
        client = None if self.client is None else self.client.strip()
        rules = Rules(client, self.categorical, self.missing, form, self.size)
        if rules.categorical != "auto":
            rules = replace(rules, categorical=_stripped(rules.categorical))
        where = path if path.startswith(SCHEME) else source.folder / Path(path).expanduser()
        table = load_file(where, target, task, like, rules)
        if table.images and self.standardise is not False:
            text = f"is for numbers, but rows are images, of column '{table.images}'; leave it out"
            raise ScenarioError("problem.dataset.standardise", text)
        return table

    def learns_of(self, table: FileTable) -> bool:
        """Whether training rows of a table decide its encoding; not for images."""
        learns = self.categorical or self.missing == "mean" or self.standardise is not False
        return bool(learns) and not table.images


def _stripped(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of columns as tables have them, without blanks around."""
    return tuple(name.strip() for name in names)


@dataclass(frozen=True)
class Learned:
    """Encoding of a file's columns, learned from the training rows of a split.

    Parameters
    ----------
    dataset : Tabular
    table : FileTable
        All rows, as they stand in the file.
    split : Split
    """

    dataset: Tabular
    table: FileTable
    split: Split

    def __post_init__(self) -> None:
        empty = np.isnan(self.means)
        if empty.any():
            name = self.table.names[int(np.argmax(empty))]
            text = f"column '{name}' is empty in every training row; leave it out of the file"
            raise ScenarioError(self.dataset.path, text)

    @cached_property
    def means(self) -> Array:
        """Means of the columns (d,) over training rows, without empty cells."""
        X = self.table.X[self.split.train.rows]
        present = ~np.isnan(X)
        counts = present.sum(axis=0)
        sums = np.where(present, X, 0.0).sum(axis=0)
        means: Array = np.full(len(counts), np.nan)
        means[counts > 0] = sums[counts > 0] / counts[counts > 0]
        return means

    @cached_property
    def present(self) -> Bools:
        """Columns (d,) that stay: all numbers, and the values that a training row has."""
        return ~self.table.coded | (self.means > 0)

    def of(self, table: FileTable) -> Table:
        """Return test rows as training rows are."""
        if self.dataset.standardise == "client":
            text = "found client, but test rows of the server have none; give true"
            raise ScenarioError("problem.dataset.standardise", text)
        by = self._filled(self.table.X[self.split.train.rows])
        X = self._filled(table.X)
        return self._named(table, X if self.dataset.standardise is False else self._scaled(X, by))

    def of_server(self) -> Table:
        """Return the test rows at the server, which the table must have."""
        assert isinstance(self.table.test, FileTable)
        return self.of(self.table.test)

    def all_rows(self) -> Table:
        """Return all rows of the file."""
        if self.dataset.standardise != "client":
            return self.of(self.table)
        X = self._filled(self.table.X)
        scaled = X.copy()
        for client in range(self.split.clients):
            by = X[self.split.train.of_client(client)]
            for part in ("train", "test", "validation"):
                rows = self.split.part(part).of_client(client)
                scaled[rows] = self._scaled(X[rows], by)
        return self._named(self.table, scaled)

    def _filled(self, X: Array) -> Array:
        return np.where(np.isnan(X), self.means, X)

    def _scaled(self, X: Array, by: Array) -> Array:
        return np.where(self.table.coded, X, standardise(X, by))

    def _named(self, table: FileTable, X: Array) -> Table:
        names = tuple(np.array(self.table.names)[self.present].tolist())
        return replace(table, X=X[:, self.present], names=names)
