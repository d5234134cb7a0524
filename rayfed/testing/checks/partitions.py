"""Checks of partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import Partition
from rayfed.datasets.split import Split, split
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import COUNT

_ROWS = 480
_CLASSES = 4


def check_owners(partition: Partition) -> None:
    """Check that every row has one client or none, and every client has rows."""
    table = toy_table()
    clients = partition.count(table) or COUNT
    owner = partition.assign(table, clients, seed=0)
    require(owner.shape == (_ROWS,), f"{partition}: {owner.shape} owners of {_ROWS} rows")
    require(owner.dtype.kind == "i", f"{partition}: owners are {owner.dtype}, not int")
    require((owner >= -1) & (owner < clients), f"{partition}: an owner that does not exist")
    counts = np.bincount(owner[owner >= 0], minlength=clients)
    require(counts > 0, f"{partition}: client {counts.argmin()} has no rows")


def check_pure(partition: Partition) -> None:
    """Check that the same seed gives the same rows to everybody, and the table stays as it is."""
    first, again = (_split(partition, seed=3) for _ in range(2))
    for part in ("train", "test"):
        rows, same = (found.part(part) for found in (first, again))
        require_equal(same.rows, rows.rows, f"{partition}: the same seed, other {part} rows")
        require_equal(same.offsets, rows.offsets, f"{partition}: the same seed, other clients")


def check_own_seed(partition: Partition) -> None:
    """Check that a seed of its own fixes the rows of clients for every seed of the run."""
    fixed = replace(partition, seed=11)
    first, other = (_split(fixed, seed) for seed in (0, 1))
    require_equal(other.train.rows, first.train.rows, f"{fixed}: the run's seed matters")


def toy_table() -> Table:
    """Return 480 rows of four classes and twelve writers; feature ``a`` takes four values."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((_ROWS, 3))
    X[:, 0] = np.arange(_ROWS) % 4
    return Table(
        X,
        rng.integers(0, _CLASSES, _ROWS),
        _CLASSES,
        names=("a", "b", "c"),
        writer=rng.permutation(np.arange(_ROWS) % COUNT),
    )


def _split(partition: Partition, seed: int) -> Split:
    table = toy_table()
    table.X.flags.writeable = table.y.flags.writeable = False
    clients = None if partition.count(table) else COUNT
    return split(table, partition, clients, seed, test=0.2)
