"""The data of a scenario as hosts see it: loaded, cast and split, each table only once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.clients.setup import DataView, DataViews, with_table
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError
from rayfed.core.machine import in_words
from rayfed.datasets.arrays import Arrays
from rayfed.datasets.base import Dataset, OnDemand, Source, Table
from rayfed.datasets.checked import check_shards, check_table
from rayfed.datasets.hub import SCHEME
from rayfed.datasets.partitions import Partition
from rayfed.datasets.shards import Shards
from rayfed.datasets.split import split
from rayfed.datasets.table import Rows, TableShards, centralised, server_test
from rayfed.datasets.tablefile import FileTable
from rayfed.datasets.tabular import Learned, Tabular
from rayfed.engine.evaluation import Scored
from rayfed.problems.base import Problem
from rayfed.problems.objective import Objective
from rayfed.study.plan.beware import of_table

MOST_POOLED = 2**30
"""Bytes of rows that are made on demand and put in one place, at most."""


@dataclass(frozen=True)
class Wanted:
    """What a scenario says about its data.

    Parameters
    ----------
    problem : Problem
    dataset : Dataset
    target : str, optional
        Column of the user's file to predict.
    test : float or str, optional
        Fraction held out, path of a test file, or the data set's own way if None.
    validation : float
        Fraction that each client holds out to choose settings by.
    partition : Partition, optional
    clients : int
        Number N of clients.
    dtype : numpy.dtype
    source : Source
        Where files may be found.
    """

    problem: Problem
    dataset: Dataset
    target: str | None
    test: float | str | None
    validation: float
    partition: Partition | None
    clients: int | None
    dtype: np.dtype[Any]
    source: Source


@dataclass(frozen=True)
class Views:
    """The data of one seed.

    Parameters
    ----------
    shards : Shards
        The clients' rows, without their table.
    server : Shards, optional
        The server's own test rows, without their table.
    data : dict
        Names of the tables of ``shards`` and ``server``.
    start : (p,) array, optional
        A first model that comes with the data.
    labels : tuple
        What the data calls its classes; empty where they have no names.
    note : str
        What readers of results should know of the data.
    client_names : tuple of str
        What the data calls its clients; empty where they have no names.
    beware : tuple of str
        What often is not what was meant, of these rows.
    """

    problem: Problem
    shards: Shards
    server: Shards | None
    data: dict[str, str]
    start: Array | None = None
    labels: tuple[Any, ...] = ()
    note: str = ""
    client_names: tuple[str, ...] = ()
    beware: tuple[str, ...] = ()

    @property
    def scored(self) -> Scored:
        """Which rows accuracy is measured on."""
        if self.server is not None:
            return "server"
        return "held-out" if self.shards.total("test") else "training"

    @property
    def validated(self) -> bool:
        """Whether clients hold rows out to choose settings by."""
        return self.shards.total("validation") > 0

    @property
    def objective(self) -> Objective:
        """What is averaged over what, for the clients' own rows."""
        shards, problem = self.shards, self.problem
        samples, mass = shards.totals
        return Objective(problem, shards.clients, samples, shards.features, mass=mass)

    def whole(self, tables: dict[str, Any]) -> Shards:
        """Return the clients' rows with their table."""
        name = self.data["clients"]
        return with_table(self.shards, tables[name]) if name else self.shards

    def of(self, algorithm: Algorithm, tables: dict[str, Any]) -> DataViews:
        """Return the views of a run, without their tables.

        Parameters
        ----------
        algorithm : Algorithm
            A baseline may want all rows in one place.
        tables : dict of str to Rows
            Gets a new table where rows that are made on demand are put in one place.

        Raises
        ------
        ScenarioError
            If the algorithm needs all rows in one place and cannot have them.
        """
        objective = self.objective
        training = whole = DataView(self.shards, objective, self.data["clients"])
        if algorithm.centralised:
            everyone = np.arange(self.shards.clients)
            sizes, mass = self.shards.sizes(everyone), self.shards.mass(everyone)
            shards, table = self._centralised(algorithm, tables)
            training = DataView(shards, objective.centralised(sizes, mass), table)
        if self.server is None:
            return DataViews(training, whole)
        return DataViews(training, whole, DataView(self.server, objective, self.data["server"]))

    def _centralised(self, algorithm: Algorithm, tables: dict[str, Any]) -> tuple[Shards, str]:
        """Return the shards of one client that has all rows, and the name of their table."""
        if isinstance(self.shards, TableShards):
            return centralised(self.shards), self.data["clients"]
        size = self.shards.total() * self.shards.features * self.shards.dtype.itemsize
        if size > MOST_POOLED:
            raise ScenarioError(
                "algorithms",
                f"'{algorithm.name}' needs all rows in one place, {in_words(size)} that "
                "this data set makes on demand; leave the baseline out or use fewer clients",
            )
        made, name = centralised(self.shards), f"{self.shards}:centralised"
        tables[name] = made.table
        return with_table(made, None), name


@dataclass
class Loader:
    """Loads what scenarios want and keeps it, so that runs share it.

    Attributes
    ----------
    tables : dict of str to Rows
        Every table that some shards need, by name.
    files : dict of str to dict
        What is known of other files, by their paths; see `rayfed.runs.identity`.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    loaded: dict[Any, Table] = field(default_factory=dict)
    checked: set[Any] = field(default_factory=set)
    digests: dict[Any, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    told: dict[Any, tuple[str, ...]] = field(default_factory=dict)

    def views(self, wanted: Wanted, seed: int) -> Views:
        """Return the data of one seed.

        Raises
        ------
        ScenarioError
            If the data is missing, is not what the problem needs, or cannot be split.
        """
        dataset = wanted.dataset
        if isinstance(dataset, OnDemand):
            return self._on_demand(wanted, dataset, seed)
        table, key = self._table(wanted, seed)
        _check_task(wanted.problem, table.classes, dataset)
        fraction = self._fraction(wanted, table)
        how = (wanted.partition, wanted.clients, seed, fraction, wanted.validation)
        parts = split(table, *how)
        learned = None
        if isinstance(dataset, Tabular) and dataset.learns:
            assert isinstance(table, FileTable)
            learned = Learned(dataset, table, parts)
            table, key = learned.whole(), (key, how)
        name = self._rows(key, table, wanted)
        shards = TableShards.of(self.tables[name], parts, table.classes, table.mass)
        partition = wanted.partition
        names = table.client_names if partition is None else partition.names(table, parts.clients)
        _check_names(names)
        server, server_name = self._server(wanted, table, name, learned)
        return Views(
            wanted.problem, with_table(shards, None), server,
            {"clients": name, "server": server_name}, table.start, table.labels, table.note, names,
            self._beware(key, table, dataset),
        )  # fmt: skip

    def _beware(self, key: Any, table: Table, dataset: Dataset) -> tuple[str, ...]:
        """Return what `of_table` says of a table, which is looked at once."""
        if key not in self.told:
            ours = type(dataset).__module__.startswith("rayfed.")
            own = not ours or isinstance(dataset, (Arrays, Tabular))
            self.told[key] = of_table(table, own=own)
        return self.told[key]

    def digest(self, wanted: Wanted, seed: int) -> dict[str, Any] | None:
        """Return number and digest of the rows of a data set, of a file not made from a seed.

        A file of the user's is known by itself, and rows that are drawn by their seed: None then.
        """
        dataset = wanted.dataset
        by_itself = isinstance(dataset, Tabular) and not dataset.path.startswith(SCHEME)
        if by_itself or dataset.random:
            return None
        table, key = self._table(wanted, seed)
        if key not in self.digests:
            found = {"name": _called(dataset), "rows": len(table.y), "digest": _digest(table)}
            self.digests[key] = found
        return self.digests[key]

    def _on_demand(self, wanted: Wanted, dataset: OnDemand, seed: int) -> Views:
        if wanted.partition is not None:
            raise ScenarioError(
                "partition", f"dataset '{dataset.name}' makes each client's rows; leave it out"
            )
        if wanted.clients is None:
            raise ScenarioError("clients.count", "is missing; say how many clients there are")
        if isinstance(wanted.test, str):
            raise ScenarioError("problem.test", "a generator takes a fraction, not a file")
        test = dataset.default_test if wanted.test is None else wanted.test
        shards = dataset.shards(
            wanted.clients, seed, dtype=wanted.dtype, intercept=wanted.problem.intercept,
            test=test, validation=wanted.validation,
        )  # fmt: skip
        _check_task(wanted.problem, shards.classes, dataset)
        if (dataset, seed, test) not in self.checked:
            check_shards(shards, f"problem.dataset ({dataset.name})")
            self.checked.add((dataset, seed, test))
        return Views(wanted.problem, shards, None, {"clients": "", "server": ""})

    def _table(self, wanted: Wanted, seed: int) -> tuple[Table, Any]:
        dataset, task = wanted.dataset, wanted.problem.task
        if isinstance(dataset, Tabular):
            key: Any = (dataset, wanted.target, task)
            if key not in self.loaded:
                self.loaded[key] = dataset.read(wanted.source, wanted.target, task)
            return self.loaded[key], key
        key = (dataset, dataset.seeded(seed) if dataset.random else None)
        if key not in self.loaded:
            self.loaded[key] = _load(dataset, wanted.source, seed)
            check_table(self.loaded[key], f"problem.dataset ({dataset.name})")
        return self.loaded[key], key

    def _fraction(self, wanted: Wanted, table: Table) -> float:
        """Return the fraction that each client holds out."""
        if isinstance(wanted.test, str):
            return 0.0
        if wanted.test is not None:
            return wanted.test
        return wanted.dataset.default_test if table.test is None else 0.0

    def _rows(self, key: Any, table: Table, wanted: Wanted) -> str:
        name = f"{key}:{wanted.dtype}:{wanted.problem.intercept}"
        if name not in self.tables:
            self.tables[name] = Rows.of(
                table, dtype=wanted.dtype, intercept=wanted.problem.intercept
            )
        return name

    def _server(
        self, wanted: Wanted, table: Table, name: str, learned: Learned | None
    ) -> tuple[Shards | None, str]:
        """Return the server's test rows: a test file, or the data set's own."""
        if isinstance(wanted.test, str):
            test = _test_file(wanted, wanted.test, table, learned)
        elif wanted.test is None and table.test is not None:
            test = table.test
        else:
            return None, ""
        held = Table(table.X, table.y, table.classes, test=test)
        shards = server_test(held, dtype=wanted.dtype, intercept=wanted.problem.intercept)
        if shards is None or shards.table is None:
            return None, ""
        self.tables[name + ":test"] = shards.table
        return with_table(shards, None), name + ":test"


def _test_file(wanted: Wanted, file: str, table: Table, learned: Learned | None) -> Table:
    """Return the rows of a test file, of which training rows say what its columns become."""
    reader = wanted.dataset if isinstance(wanted.dataset, Tabular) else Tabular(path=file)
    whole = table if learned is None else learned.table
    test = reader.read(wanted.source, wanted.target, wanted.problem.task, file, whole)
    return test if learned is None else learned.of(test)


def _digest(table: Table) -> str:
    """Return the digest of the rows of a table, and of whose they are."""
    made = hashlib.blake2b(digest_size=16)
    while True:
        parts = (table.X, table.y, table.client, table.writer, table.mass, table.start)
        for part in (*parts, table.scale, table.shift):
            array = np.ascontiguousarray(0 if part is None else part)
            made.update(f"{array.dtype} {array.shape}".encode())
            made.update(array.data)
        if table.test is None:
            return made.hexdigest()
        table = table.test


def _check_names(names: Sequence[str]) -> None:
    """Refuse a client whose name is that of a missing value in every table."""
    for number, name in enumerate(names):
        if name.strip().lower() == "nan":
            text = f"client {number} is called '{name}', which tables take for a missing value"
            raise ScenarioError("problem.dataset", f"{text}; give it another name")


def _load(dataset: Dataset, source: Source, seed: int) -> Table:
    if dataset.seeded(seed) < 2**32:
        return dataset.load(source, seed)
    try:
        return dataset.load(source, seed)
    except ValueError as error:  # of NumPy's legacy generator
        text = f"found {dataset.seeded(seed)}; '{dataset.name}' takes seeds below 2**32"
        raise ScenarioError("problem.dataset.seed", f"{text}, give a smaller one") from error


def _called(dataset: Dataset) -> str:
    return dataset.path if isinstance(dataset, Tabular) else dataset.name


def _check_task(problem: Problem, classes: int, dataset: Dataset) -> None:
    """Refuse a problem that the targets do not fit."""
    name = _called(dataset)
    if problem.task == "regression" and classes:
        text = f"'{problem.name}' predicts numbers, but dataset '{name}' has {classes} classes"
        remedy = "use logistic-regression or softmax-regression"
        raise _misfit(problem, text, "multiclass", remedy)
    if problem.task != "regression" and not classes:
        text = f"'{problem.name}' predicts classes, but the target of dataset '{name}' is numbers"
        raise _misfit(problem, text, "regression", "use least-squares")
    if problem.task == "binary" and classes != 2:
        text = f"'{problem.name}' needs 2 classes, but dataset '{name}' has {classes}"
        raise _misfit(problem, text, "multiclass", "use softmax-regression")


def _misfit(problem: Problem, text: str, task: str, remedy: str) -> ScenarioError:
    """Return the refusal of a problem; where its loss is a setting, another loss is the remedy."""
    fitting = [loss for loss, predicted in problem.named_losses.items() if predicted == task]
    if not fitting:
        return ScenarioError("problem.name", f"{text}; {remedy}")
    return ScenarioError("problem.loss", f"{text}; use {fitting[0]}")
