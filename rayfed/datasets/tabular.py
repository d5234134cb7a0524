"""Tables of one's own: columns by name, categories, empty cells, units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np

from rayfed.core.arrays import Array, Bools
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import FilePath
from rayfed.datasets.base import Dataset, Source, Table, standardise
from rayfed.datasets.fetch import SCHEME
from rayfed.datasets.split import Split
from rayfed.datasets.tablefile import FileTable, Rules, Task, load_file


@dataclass(frozen=True, kw_only=True)
class Tabular(Dataset):
    """A CSV or Parquet file: a target column, features, and perhaps a column of clients.

    A path alone, ``dataset: sales.csv``, stands for this data set with its defaults. The target is
    `problem.target`. Cells of CSV files may be separated by commas, semicolons or tabs, and numbers
    have decimal points or, where commas do not separate cells, decimal commas.

    What is learned of columns (means, deviations, categories) is learned of the training rows
    alone, those of all clients together. Held-out rows and test files are treated by the same
    numbers.

    Parameters
    ----------
    path : str
        A file that ends in ``.csv``, ``.csv.gz`` or ``.parquet``, relative to the scenario; or
        Parquet files of the Hugging Face Hub, such as
        ``hf://datasets/user/name/data/train-*.parquet`` (``pip install 'rayfed[hf]'``).
    client : str, optional
        The column that says which client has a row; ``client``, if there is one, if null.
    categorical : "auto" or list of str
        Columns that become one column of 0 and 1 for each value that a training row has; "auto"
        for all that are text. A value that no training row has is none of them: all are 0.
    missing : "refuse", "drop" or "mean"
        Empty cells are refused, or their rows left out, or numbers get the mean of their column
        and categories are none. A target, and whose a row is, must be there or dropped.
    standardise : bool or "client"
        Whether columns of numbers are brought to mean 0 and variance 1; "client" by each client's
        own training rows. A constant column becomes 0.

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
        self, source: Source, target: str | None, task: Task,
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
        rules = Rules(self.client, self.categorical, self.missing)
        where = path if path.startswith(SCHEME) else source.folder / Path(path).expanduser()
        return load_file(where, target, task, like, rules)

    @property
    def learns(self) -> bool:
        """Whether training rows say what columns become."""
        return bool(self.categorical) or self.missing == "mean" or self.standardise is not False


@dataclass(frozen=True)
class Learned:
    """What the training rows of a split say of the columns of a file.

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

    @property
    def means(self) -> Array:
        """Means of the columns (d,) over training rows, without empty cells."""
        X = self.table.X[self.split.train.rows]
        there = ~np.isnan(X)
        counts = there.sum(axis=0)
        sums = np.where(there, X, 0.0).sum(axis=0)
        means: Array = np.full(len(counts), np.nan)
        means[counts > 0] = sums[counts > 0] / counts[counts > 0]
        return means

    @property
    def kept(self) -> Bools:
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

    def whole(self) -> Table:
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
        names = tuple(np.array(self.table.names)[self.kept].tolist())
        return replace(table, X=X[:, self.kept], names=names)
