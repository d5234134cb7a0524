"""What a data set is: a table in memory, or a generator that makes rows on demand."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Ints
from rayfed.datasets.shards import Shards


@dataclass(frozen=True)
class Source:
    """Where files may be found.

    Parameters
    ----------
    folder : Path
        Folder of the scenario file; relative paths start there.
    home : Path, optional
        Folder of data sets at hand, usually that of the environment variable ``RAYFED_DATA``.
    """

    folder: Path = field(default_factory=Path)
    home: Path | None = None

    @classmethod
    def here(cls, folder: Path | None = None) -> Source:
        """Return the source for a scenario's folder, with the home that ``RAYFED_DATA`` names."""
        home = os.environ.get("RAYFED_DATA")
        return cls(folder or Path(), Path(home).expanduser() if home else None)


@dataclass(frozen=True)
class Table:
    """Rows of data, all in memory.

    Parameters
    ----------
    X : (n, d) array
        Features; the value of a feature is ``X / scale - shift``. Images stay bytes until they
        are cast to the dtype of a study.
    y : (n,) array
        float64 targets (``classes`` is 0), or int64 labels 0..classes-1.
    classes : int
        Number of classes, 0 for regression.
    names : tuple of str
        Names of the d features.
    client : (n,) array of int64, optional
        Client 0..N-1 of each row; where given, it is the partition.
    writer : (n,) array of int64, optional
        Who wrote each row, any number.
    test : Table, optional
        Test rows that the server holds.
    labels : tuple
        What the user's file calls the classes, in the order of the numbers in y.
    scale, shift : float
        Divisor of X, and what is subtracted then.
    mass : (N,) array of float64, optional
        What each client counts for in F and in a draw by size, in place of its number of rows;
        the table names the clients then.
    start : (p,) array of float64, optional
        The first model of a study that names none.
    """

    X: Array
    y: Array
    classes: int = 0
    names: tuple[str, ...] = ()
    client: Ints | None = None
    writer: Ints | None = None
    test: Table | None = None
    labels: tuple[Any, ...] = ()
    scale: float = 1.0
    mass: npt.NDArray[np.float64] | None = None
    start: npt.NDArray[np.float64] | None = None
    shift: float = 0.0

    def column(self, name: str) -> Array:
        """Return the values of the feature of that name (n,).

        Raises
        ------
        ValueError
            If there is no such feature.
        """
        return np.asarray(self.X[:, self.names.index(name)] / self.scale - self.shift)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Base of all data sets: settings, and how to get the rows.

    Parameters
    ----------
    seed : int, optional
        Fixes the data apart from the run's seed.
    """

    name: ClassVar[str]
    default_test: ClassVar[float] = 0.0
    """Fraction of each client's rows that is held out where the scenario does not say."""
    random: ClassVar[bool] = False
    """Whether the rows depend on the seed."""

    seed: int | None = None

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows.

        Parameters
        ----------
        source : Source
            Where files may be found.
        seed : int
            Seed of the run; the data set's own goes first.

        Raises
        ------
        ScenarioError
            If a file is missing or is not what it should be.
        """
        raise NotImplementedError

    def seeded(self, seed: int) -> int:
        """Return the seed of the rows: the data set's own, or else the run's."""
        return seed if self.seed is None else self.seed


@dataclass(frozen=True, kw_only=True)
class OnDemand(Dataset):
    """Base of data sets that make the rows of a client when they are asked for.

    They are split over any number of clients by construction and take no partition.
    """

    random: ClassVar[bool] = True

    def shards(
        self, clients: int, seed: int, *, dtype: npt.DTypeLike, intercept: bool, test: float
    ) -> Shards:
        """Return the rows of N clients, none of which is made yet.

        Parameters
        ----------
        clients : int
            Number N of clients.
        seed : int
            Seed of the run; the data set's own goes first.
        dtype : dtype
            Of X, and of y for regression.
        intercept : bool
            Whether a column of ones is appended to X.
        test : float
            Fraction of each client's rows that is held out.
        """
        raise NotImplementedError


def standardise(X: Array, by: Array | None = None) -> Array:
    """Return columns with mean 0 and variance 1; a constant column becomes 0.

    Parameters
    ----------
    X : (n, d) array
        Rows to transform.
    by : (m, d) array, optional
        Rows that mean and variance are taken from; X itself if None.
    """
    reference = np.asarray(X if by is None else by, dtype=np.float64)
    spread = reference.std(axis=0)
    constant = spread <= 1e-12 * np.abs(reference).max(axis=0, initial=0.0)
    spread[constant] = np.inf
    return np.asarray((X - reference.mean(axis=0)) / spread)
