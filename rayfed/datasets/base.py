"""Base classes of data sets: tables in memory, and generators of rows on demand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Lt

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.needs import BY_DATA, TABLE, Terms
from rayfed.core.plugins import PLACE
from rayfed.datasets.shards import PARTS, Shards


@dataclass(frozen=True)
class Source:
    """Where data files are searched.

    Parameters
    ----------
    folder : Path
        Folder of the scenario file; relative paths start there.
    home : Path, optional
        Folder of local data sets, usually from the environment variable ``RAYFED_DATA``.
    """

    folder: Path = field(default_factory=Path)
    home: Path | None = None

    @classmethod
    def here(cls, folder: Path | None = None) -> Source:
        """Return the source for a scenario's folder, with ``RAYFED_DATA`` as home."""
        home = os.environ.get("RAYFED_DATA")
        return cls(folder or Path(), Path(home).expanduser() if home else None)


@dataclass(frozen=True)
class Table:
    """Rows of data, all in memory.

    Parameters
    ----------
    X : (n, d) array
        Features; the value of a feature is ``X / scale - shift``. Images are kept as bytes until
        they are cast to the dtype of a study.
    y : (n,) or (n, ...) array
        float64 targets (``classes`` is 0), or int64 labels 0..classes-1. With several values a row
        (masks, sequences) ``classes`` is 0, and whole numbers are classes or
        `rayfed.core.targets.IGNORED`; (n, 0) if rows have no targets.
    classes : int
        Number of classes, 0 for regression.
    names : tuple of str
        Names of the d features.
    client : (n,) array of int64, optional
        Client 0..N-1 of each row; if given, it defines the partition.
    client_names : tuple of str
        Names of the N clients in the user's data, in the order of their numbers; empty if they have
        none.
    writer : (n,) array of int64, optional
        Writer of each row, as any integer.
    writer_names : mapping of int to str
        Names of writers, where the data name them.
    test : Table, optional
        Test rows at the server.
    labels : tuple
        Names of the classes in the user's file, in the order of the labels in y.
    scale, shift : float or (d,) array of float64
        Divisor of X, and offset subtracted after the division.
    mass : (N,) array of float64, optional
        Mass of each client in F and in size-weighted sampling, in place of its number of rows;
        requires `client`.
    start : (p,) array of float64, optional
        Initial model of studies that do not set one.
    shape : tuple of int
        Shape of one row for networks, whose product is d: (C, H, W) for images. Empty for (d,).
    note : str
        What readers of results should know of these rows: that they are a subset, for example.
    part : (n,) array of int8, optional
        Index into `rayfed.datasets.shards.PARTS` of each row, where the data say which rows their
        client holds out; those of the test rows in `test` are none of them.
    files : int
        Number of files that the rows were read from; 0 if that is of no interest.
    """

    X: Array
    y: Array
    classes: int = 0
    names: tuple[str, ...] = ()
    client: Ints | None = None
    writer: Ints | None = None
    test: Table | None = None
    labels: tuple[Any, ...] = ()
    scale: float | Floats = 1.0
    mass: npt.NDArray[np.float64] | None = None
    start: npt.NDArray[np.float64] | None = None
    shift: float | Floats = 0.0
    shape: tuple[int, ...] = ()
    note: str = ""
    client_names: tuple[str, ...] = ()
    writer_names: Mapping[int, str] = field(default_factory=dict)
    part: npt.NDArray[np.int8] | None = None
    files: int = 0

    def column(self, name: str) -> Array:
        """Return the values of a feature (n,).

        Raises
        ------
        ValueError
            If there is no such feature.
        """
        j, d = self.names.index(name), self.X.shape[1]
        scale, shift = (np.broadcast_to(value, d)[j] for value in (self.scale, self.shift))
        return np.asarray(self.X[:, j] / scale - shift)

    def given(self, part: str) -> Bools:
        """Return which rows (n,) are of a part; all are for training if the data do not say."""
        kinds = np.zeros(len(self.y), np.int8) if self.part is None else self.part
        return np.equal(kinds, PARTS.index(part))

    def apart(self, free: Bools) -> Self:
        """Return the table with test rows at the server: those that are of no client (n,)."""
        server = free & self.given("test")
        own = self._some(~server)
        if own.part is not None and not own.part.any():
            own = replace(own, part=None)
        return replace(own, test=replace(self._some(server), part=None)) if server.any() else own

    def with_tests(self, test: Table) -> Self:
        """Return the table with test rows that clients hold out, which have the same columns."""
        assert self.client is not None
        assert test.client is not None
        part = np.zeros(len(self.y), np.int8) if self.part is None else self.part
        tests = np.full(len(test.y), PARTS.index("test"), np.int8)
        return replace(
            self, X=np.concatenate([self.X, test.X]), y=np.concatenate([self.y, test.y]),
            client=np.concatenate([self.client, test.client]),
            part=np.concatenate([part, tests]), files=self.files + test.files,
        )  # fmt: skip

    def _some(self, rows: Bools) -> Self:
        """Return the table of some rows (n,); clients and writers are not known yet."""
        part = None if self.part is None else self.part[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], part=part)


@dataclass(frozen=True, kw_only=True)
class UnseenClients:
    """Clients that never train, to test a model on clients that training has not seen.

    H. Yuan, W. Morningstar, L. Ning, K. Singhal, "What Do We Mean by Generalization in Federated
    Learning?", ICLR 2022, https://arxiv.org/abs/2110.14216.

    Parameters
    ----------
    clients : float
        Fraction of the clients, drawn by the seed.
    rows : float, optional
        Fraction of each client's rows that is held out, as without unseen clients. An unseen client
        personalises with its other rows.
    """

    clients: Annotated[float, Gt(0), Lt(1)]
    rows: Annotated[float, Ge(0), Lt(1)] | None = None


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Base of all data sets.

    In a scenario file the last three are keys of ``problem``, next to ``dataset``.

    Parameters
    ----------
    seed : int, optional
        Seed of the data, in place of the run's seed.
    target : str or tuple of str, optional
        Column of the user's file that is predicted; "y" if None.
    test : float, path or UnseenClients, optional
        Fraction of each client's rows that is held out, or the path of a test file; `default_test`
        or the data set's own test rows if None. Or which clients never train.
    validation : float, optional
        Further fraction that is held out, to choose settings by; none if None.
    """

    name: ClassVar[str]
    default_test: ClassVar[float] = 0.0
    """Default fraction of each client's rows that is held out."""
    random: ClassVar[bool] = False
    """Whether the rows depend on the seed."""
    gives: ClassVar[Terms] = BY_DATA
    """Terms that others may need, from `rayfed.core.needs`."""

    seed: int | None = None
    target: str | tuple[str, ...] | None = field(default=None, metadata={PLACE: "problem.target"})
    test: float | str | UnseenClients | None = field(default=None, metadata={PLACE: "problem.test"})
    validation: float | None = field(default=None, metadata={PLACE: "problem.validation"})

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows.

        Parameters
        ----------
        source : Source
            Where files are searched.
        seed : int
            Seed of the run; the data set's seed takes precedence.

        Raises
        ------
        ScenarioError
            If a file is missing or has unexpected content.
        """
        raise NotImplementedError

    def seeded(self, seed: int) -> int:
        """Return the data set's seed, or the run's if it has none."""
        return seed if self.seed is None else self.seed


@dataclass(frozen=True, kw_only=True)
class OnDemand(Dataset):
    """Base of data sets that generate the rows of a client on demand.

    They work for any number of clients and take no partition.
    """

    random: ClassVar[bool] = True
    gives: ClassVar[Terms] = BY_DATA - {TABLE}

    def shards(
        self,
        clients: int,
        seed: int,
        *,
        dtype: npt.DTypeLike,
        intercept: bool,
        test: float,
        validation: float = 0.0,
    ) -> Shards:
        """Return the rows of N clients, generated lazily.

        Parameters
        ----------
        clients : int
            Number N of clients.
        seed : int
            Seed of the run; the data set's seed takes precedence.
        dtype : dtype
            Of X, and of y for regression.
        intercept : bool
            Whether a column of ones is appended to X.
        test, validation : float
            Fractions of each client's rows that are held out: for tests, and to choose settings by.
        """
        raise NotImplementedError


def standardise(X: Array, by: Array | None = None) -> Array:
    """Return columns with mean 0 and variance 1; a constant column becomes 0.

    Parameters
    ----------
    X : (n, d) array
        Rows to transform.
    by : (m, d) array, optional
        Rows that mean and variance are computed from; X if None.
    """
    reference = np.asarray(X if by is None else by, dtype=np.float64)
    spread = reference.std(axis=0)
    constant = spread <= 1e-12 * np.abs(reference).max(axis=0, initial=0.0)
    spread[constant] = np.inf
    return np.asarray((X - reference.mean(axis=0)) / spread)
