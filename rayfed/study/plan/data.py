"""The data of a scenario as hosts see it: loaded, cast and split, each table only once.

Of one seed, they are `SeedData`. What a run makes of them is said by functions of it: rows that
drift, labels that are wrong, all rows in one place, losses of some rows alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.channel.faulty import Faulty
from rayfed.clients.setup import DataView, DataViews, with_table
from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError, many, under, unknown
from rayfed.core.machine import in_words
from rayfed.core.names import numbered
from rayfed.core.rng import Key
from rayfed.core.shares import rounded
from rayfed.core.targets import Targets
from rayfed.datasets.arrays import Arrays
from rayfed.datasets.base import Dataset, OnDemand, Source, Table
from rayfed.datasets.checked import check_shards, check_table
from rayfed.datasets.drift import Drift
from rayfed.datasets.drifting import DriftingShards
from rayfed.datasets.fetch import SCHEME
from rayfed.datasets.gather import is_many
from rayfed.datasets.partitions.base import Partition
from rayfed.datasets.shards import PARTS, Shards
from rayfed.datasets.split import Split, split
from rayfed.datasets.table import Rows, TableShards, centralised, server_test, some_of
from rayfed.datasets.tablefile import FileTable
from rayfed.datasets.tabular import Learned, Tabular
from rayfed.measures.evaluation import Scored
from rayfed.population import Population
from rayfed.problems.base import Problem
from rayfed.problems.objective import Objective
from rayfed.solvers.sampling import Subsample
from rayfed.study.plan.notices import of_table
from rayfed.study.plan.shared import Shared

MOST_POOLED = 2**30
"""Bytes of rows that are made on demand and put in one place, at most."""
_LOOKED_AT = 10_000  # unseen clients, of which one has to hold out rows
_CALLED = {"train": "training", "test": "held-out", "validation": "validation"}


@dataclass(frozen=True)
class Wanted:
    """The data settings of a scenario.

    Parameters
    ----------
    problem : Problem
    dataset : Dataset
    target : str or tuple of str, optional
        Column of the user's file to predict, or columns.
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
    unseen : float, optional
        Fraction of the clients that never train.
    """

    problem: Problem
    dataset: Dataset
    target: str | tuple[str, ...] | None
    test: float | str | None
    validation: float
    partition: Partition | None
    clients: int | None
    dtype: np.dtype[Any]
    source: Source
    unseen: float | None = None


@dataclass(frozen=True)
class SeedData:
    """The data of one seed.

    Parameters
    ----------
    shards : Shards
        The clients' rows, without their table.
    server : Shards, optional
        The server's own test rows, without their table.
    tables : dict
        Names of the tables of ``shards``, under "clients", and ``server``.
    start : (p,) array, optional
        A first model that comes with the data.
    labels : tuple
        What the data calls its classes; empty where they have no names.
    note : str
        What readers of results should know of the data.
    client_names : tuple of str
        What the data calls its clients; empty where they have no names.
    notices : tuple of str
        What often is not what was meant, of these rows.
    files : int
        Number of files that the rows were read from; 0 if that is of no interest.
    unseen : Shards, optional
        The clients' rows followed by those of clients that never train, without their table.
    """

    problem: Problem
    shards: Shards
    server: Shards | None
    tables: dict[str, str]
    start: Array | None = None
    labels: tuple[Any, ...] = ()
    note: str = ""
    client_names: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    files: int = 0
    unseen: Shards | None = None

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
        """The objective of the clients' own rows."""
        shards, problem = self.shards, self.problem
        samples, mass = shards.totals
        return Objective(problem, shards.clients, samples, shards.features, mass=mass)

    def full(self, tables: dict[str, Any]) -> Shards:
        """Return the clients' rows with their table."""
        name = self.tables["clients"]
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
        training = full = DataView(self.shards, objective, self.tables["clients"])
        if algorithm.centralised:
            all_ids = np.arange(self.shards.clients)
            sizes, mass = self.shards.sizes(all_ids), self.shards.mass(all_ids)
            shards, table = self._centralised(algorithm, tables)
            training = DataView(shards, objective.centralised(sizes, mass), table)
        views = DataViews(training, full)
        if self.server is not None:
            server = DataView(self.server, objective, self.tables["server"])
            views = replace(views, server=server)
        if self.unseen is not None:
            views = replace(views, unseen=replace(full, shards=self.unseen))
        return views

    def _centralised(self, algorithm: Algorithm, tables: dict[str, Any]) -> tuple[Shards, str]:
        """Return the shards of one client that has all rows, and the name of their table."""
        if isinstance(self.shards, TableShards):
            return centralised(self.shards), self.tables["clients"]
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
    """Loads and keeps data, so that runs share them.

    Attributes
    ----------
    tables : dict of str to Rows
        Every table that some shards need, by name.
    known : Shared
        What was read and found of it.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    known: Shared = field(default_factory=Shared)

    def load(self, wanted: Wanted, seed: int) -> SeedData:
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
        _check_task(wanted.problem, table.classes, Targets.of(table.y), dataset)
        fraction = self._fraction(wanted, table)
        how = (wanted.partition, wanted.clients, seed, fraction, wanted.validation)
        parts = whole = split(table, *how)
        order = np.arange(parts.clients)
        if wanted.unseen is not None:
            order, count = _seen_first(wanted, parts, seed)
            whole = parts.of_clients(order)
            parts = whole.of_clients(np.arange(count))
        learned = None
        if (
            isinstance(dataset, Tabular)
            and isinstance(table, FileTable)
            and dataset.learns_of(table)
        ):
            learned = Learned(dataset, table, parts)
            table, key = learned.all_rows(), (key, how, wanted.unseen)
        name = self._rows(key, table, wanted)
        mass = None if table.mass is None else table.mass[order]
        shards = TableShards.of(self.tables[name], parts, table.classes, mass)
        unseen = None if whole is parts else replace(shards, split=whole, clients=whole.clients)
        partition = wanted.partition
        names = table.client_names if partition is None else partition.names(table, whole.clients)
        names = tuple(names[i] for i in order[: parts.clients].tolist()) if names else names
        server, server_name = self._server(wanted, table, name, learned)
        return SeedData(
            wanted.problem, with_table(shards, None), server,
            {"clients": name, "server": server_name}, table.start, table.labels, table.note, names,
            self.known.get(
                ("notices", key), lambda: of_table(table, seed, own=_of_users(dataset))
            ),
            table.files, unseen and with_table(unseen, None),
        )  # fmt: skip

    def digest(self, wanted: Wanted, seed: int) -> dict[str, Any] | None:
        """Return number and digest of the rows of a data set, of a file not made from a seed.

        A file of the user's is known by itself, and rows that are drawn by their seed: None then.
        """
        dataset = wanted.dataset
        files = [getattr(dataset, "path", None), wanted.test]
        one = not any(isinstance(file, str) and _is_many(file) for file in files)
        if (isinstance(dataset, Tabular) and one) or dataset.random:
            return None
        table, key = self._table(wanted, seed)
        return self.known.get(
            ("digest", key),
            lambda: {"name": _called(dataset), "rows": len(table.y), "digest": _digest(table)},
        )

    def _on_demand(self, wanted: Wanted, dataset: OnDemand, seed: int) -> SeedData:
        if wanted.clients is None:
            raise ScenarioError("clients.count", "is missing; give the number of clients")
        if isinstance(wanted.test, str):
            raise ScenarioError("problem.test", "a generator takes a fraction, not a file")
        test = dataset.default_test if wanted.test is None else wanted.test
        made = partial(
            dataset.shards, seed=seed, dtype=wanted.dtype, intercept=wanted.problem.intercept,
            test=test, validation=wanted.validation,
        )  # fmt: skip
        shards, unseen = made(wanted.clients), None
        if wanted.unseen is not None:
            count = wanted.clients - _unseen(wanted, wanted.clients)
            shards, unseen = made(count), shards
            some = np.arange(count, min(unseen.clients, count + _LOOKED_AT))
            _check_scored(unseen.sizes(some, "test"))
        _check_task(wanted.problem, shards.classes, shards.target, dataset)
        place = f"problem.dataset ({dataset.name})"
        self.known.get(("checked", dataset, seed, test), lambda: check_shards(shards, place))
        tables = {"clients": "", "server": ""}
        return SeedData(wanted.problem, shards, None, tables, unseen=unseen)

    def _table(self, wanted: Wanted, seed: int) -> tuple[Table, Any]:
        dataset, source = wanted.dataset, wanted.source
        if isinstance(dataset, Tabular):
            how = (wanted.target, wanted.problem.task)
            key: Any = (dataset, *how)
            table = self.known.get(key, lambda: dataset.read(source, *how))
            if not isinstance(wanted.test, str):
                return table, key
            file, key = wanted.test, (*key, wanted.test)
            return self.known.get(key, lambda: _with_tests(dataset, wanted, file, table)), key
        key = (dataset, dataset.seeded(seed) if dataset.random else None)
        return self.known.get(key, lambda: _load(dataset, source, seed)), key

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
        if isinstance(wanted.test, str) and not isinstance(wanted.dataset, Tabular):
            _check_unmoved(wanted.dataset)
            reader = Tabular(path=wanted.test)
            test: Table = reader.read(
                wanted.source, wanted.target, wanted.problem.task, None, table
            )
        elif (wanted.test is not None and not isinstance(wanted.test, str)) or table.test is None:
            return None, ""
        else:
            test = table.test if learned is None else learned.of_server()
        held = Table(table.X, table.y, table.classes, test=test)
        shards = server_test(held, dtype=wanted.dtype, intercept=wanted.problem.intercept)
        if shards is None or shards.table is None:
            return None, ""
        self.tables[name + ":test"] = shards.table
        return with_table(shards, None), name + ":test"


def _check_unmoved(dataset: Dataset) -> None:
    """Refuse a test file for standardised features: it has them as they are."""
    if getattr(dataset, "standardise", False):
        text = f"found a file, but the features of '{dataset.name}' are standardised"
        raise ScenarioError(
            "problem.test", f"{text}; give a fraction, or set standardise of the data to false"
        )


def _seen_first(wanted: Wanted, parts: Split, seed: int) -> tuple[Ints, int]:
    """Return the clients in another order, the unseen ones last, and the number of the others.

    Raises
    ------
    ScenarioError
        If no client or every client is unseen, none of them holds out rows, or rows are
        standardised client by client.
    """
    if getattr(wanted.dataset, "standardise", False) == "client":
        text = "found client, but unseen clients are scaled by the rows of the others; give true"
        raise ScenarioError("problem.dataset.standardise", text)
    partition, count = wanted.partition, parts.clients
    unseen = _unseen(wanted, count)
    if partition is not None and partition.seed is not None:
        seed = partition.seed
    ids = Key(seed, "unseen").permutation(count)(np.arange(count))
    order = np.concatenate([np.sort(ids[unseen:]), np.sort(ids[:unseen])])
    _check_scored(parts.test.sizes(order[count - unseen :]))
    return order, count - unseen


def _unseen(wanted: Wanted, count: int) -> int:
    """Return the number of unseen clients among all."""
    assert wanted.unseen is not None
    unseen = int(rounded(wanted.unseen, np.array(count)))
    if 0 < unseen < count:
        return unseen
    text = f"found {wanted.unseen:g}, which is {unseen} of {many(count, 'client')}"
    raise ScenarioError("problem.test.clients", f"{text}; leave some of both kinds")


def _check_scored(sizes: Ints) -> None:
    """Refuse unseen clients that hold out no rows."""
    if not sizes.any():
        raise ScenarioError("problem.test.rows", "no unseen client holds out rows; give 0.2")


def _is_many(path: str) -> bool:
    """Return whether a path names no single file of this machine."""
    return path.startswith(SCHEME) or is_many(path)


def _with_tests(dataset: Tabular, wanted: Wanted, file: str, table: FileTable) -> FileTable:
    """Return a table with the rows of a test file: of its clients, or of the server.

    They belong to the clients if the file gives the client of each row.
    """
    if table.test is not None or table.given("test").any():
        text = f"found '{file}', but the data mark test rows themselves; leave it out"
        raise ScenarioError("problem.test", text)
    test = dataset.read(wanted.source, wanted.target, wanted.problem.task, file, table)
    return replace(table, test=test) if test.client is None else table.with_tests(test)


def _digest(table: Table) -> str:
    """Return the digest of the rows of a table and of their clients."""
    made = hashlib.blake2b(digest_size=16)
    while True:
        parts: list[Any] = [table.X, table.y, table.client, table.writer, table.mass, table.start]
        parts += [table.scale, table.shift, *([] if table.part is None else [table.part])]
        for part in parts:
            array = np.ascontiguousarray(0 if part is None else part)
            made.update(f"{array.dtype} {array.shape}".encode())
            made.update(array.data)
        if table.test is None:
            return made.hexdigest()
        table = table.test


def _load(dataset: Dataset, source: Source, seed: int) -> Table:
    try:
        table = dataset.load(source, seed)
    except ValueError as error:  # of NumPy's legacy generator
        if dataset.seeded(seed) < 2**32:
            raise
        text = f"found {dataset.seeded(seed)}; '{dataset.name}' takes seeds below 2**32"
        raise ScenarioError("problem.dataset.seed", f"{text}, give a smaller one") from error
    check_table(table, f"problem.dataset ({dataset.name})")
    return table


def _of_users(dataset: Dataset) -> bool:
    """Whether the rows are the user's own; others are as their sources have them."""
    bundled = type(dataset).__module__.startswith("rayfed.")
    return not bundled or isinstance(dataset, (Arrays, Tabular))


def _called(dataset: Dataset) -> str:
    return dataset.path if isinstance(dataset, Tabular) else dataset.name


def _check_task(problem: Problem, classes: int, target: Targets | None, dataset: Dataset) -> None:
    """Refuse a problem that the targets do not fit; a network compares several with its loss."""
    name = _called(dataset)
    if target is not None and not problem.several:
        text = f"'{problem.name}' predicts one label or number, but '{name}' has {target}"
        raise ScenarioError("problem.name", f"{text}; use network, or give one target for each row")
    if problem.task == "own" or target is not None:
        return
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
    suitable = [loss for loss, predicted in problem.named_losses.items() if predicted == task]
    if not suitable:
        return ScenarioError("problem.name", f"{text}; {remedy}")
    return ScenarioError("problem.loss", f"{text}; use {suitable[0]}")


def drifting(data: SeedData, drift: Drift, population: Population) -> SeedData:
    """Return the data of one seed with rows that change over rounds.

    Raises
    ------
    ScenarioError
        If the rows cannot drift so, the clients do not exist, or the server has test rows of its
        own.
    """
    if data.server is not None:
        text = "the server's own test rows belong to no client and would not drift"
        raise ScenarioError("problem.test", f"{text}; give the fraction that clients hold out")
    if data.unseen is not None:
        text = "unseen clients would not drift; give the fraction of rows that clients hold out"
        raise ScenarioError("problem.test", text)
    with under("drift"):
        changing = _changing(drift, population)
        shards = DriftingShards.of(data.shards, drift, population.seed, changing)
    return replace(data, shards=shards)


def _changing(drift: Drift, population: Population) -> Ints | float:
    """Return the ids of the clients that drift, ascending, or the share of them."""
    if isinstance(drift.clients, tuple):
        with under("clients"):
            ids = np.unique(np.array(numbered(drift.clients, population.names), dtype=np.int64))
        if len(ids) < len(drift.clients):
            raise ScenarioError("clients", "lists a client twice; list each once")
        return ids
    if not isinstance(drift.clients, str):
        return drift.clients
    names = [group.name for group in population.groups]
    if drift.clients not in names:
        text = unknown("group", drift.clients, names) if names else "there are no client groups"
        raise ScenarioError("clients", f"{text}; give a share, ids or one of clients.groups")
    groups = population.group_of(np.arange(population.count))
    return np.flatnonzero(groups == names.index(drift.clients) + 1)


def with_wrong_labels(
    view: DataView, faults: Sequence[Faulty], tables: Mapping[str, Any]
) -> DataView:
    """Return a view of the data in which the training labels of some clients are wrong."""
    wrong, shards = [faulty for faulty in faults if faulty.fault.rows], view.shards
    if not wrong:
        return view
    assert isinstance(shards, TableShards)  # `LabelFlip` needs a table
    train = shards.split.train
    rows = np.zeros(len(tables[view.table].y), np.bool_)
    for faulty in wrong:
        for client in faulty.clients.tolist():
            rows[train.rows[train.offsets[client] : train.offsets[client + 1]]] = True
    if shards.split.flipped is not None:
        rows ^= shards.split.flipped
    return replace(view, shards=replace(shards, split=replace(shards.split, flipped=rows)))


def evaluation_rows(
    full: SeedData, evaluated: Ints, most: int | None, seed: int
) -> tuple[SeedData, Subsample | None, str]:
    """Return data of which evaluations look at some rows alone.

    Parameters
    ----------
    full : SeedData
    evaluated : (K,) array of int
        The clients that are evaluated.
    most : int, optional
        Rows of a part that are looked at, at most; all if None.
    seed : int

    Returns
    -------
    data : SeedData
        Its server has no more test rows of its own.
    subsample : Subsample or None
        Which rows of the evaluated clients losses are of; None if all are.
    words : str
        How many rows of how many; empty if all are.
    """
    if most is None:
        return full, None, ""
    if full.unseen is not None:
        text = "unseen clients are evaluated on all their rows; leave it out"
        raise ScenarioError("evaluate.rows", text)
    sizes = {part: full.shards.sizes(evaluated, part) for part in PARTS}
    subsample = Subsample(seed, most, {part: int(sizes[part].sum()) for part in PARTS})
    counts = [
        (int(subsample.counts(sizes[part], part).sum()), subsample.totals[part], name)
        for part, name in _CALLED.items()
    ]
    data = full
    if isinstance(full.server, TableShards):
        server = some_of(full.server, most, Key(seed, "evaluate/server"))
        data = replace(full, server=server)
        counts.append((server.total("test"), full.server.total("test"), "test"))
    words = ", ".join(f"{some:,} of {n:,} {name} rows" for some, n, name in counts if some < n)
    return data, None if all(map(subsample.takes_all, PARTS)) else subsample, words
