"""Checks of data sets; one with missing files is skipped, never downloaded."""

from __future__ import annotations

import math
import os
from pathlib import Path
from unittest import mock

import numpy as np

from rayfed.core.errors import DataMissing
from rayfed.datasets import fetch
from rayfed.datasets.base import Dataset, OnDemand, Source, Table
from rayfed.datasets.shards import Shards
from rayfed.testing.checks.common import Skipped, require, require_equal
from rayfed.testing.examples import COUNT, example

_PARTS = ("train", "test")
_SOME = np.array([2, 7, 11])


def check_table(cls: type[Dataset], folder: Path) -> None:
    """Check that a table has finite rows, targets of its kind, and names for its columns."""
    if issubclass(cls, OnDemand):
        return
    dataset = example(cls, folder)
    table = _load(dataset, seed=0)
    n, d = table.X.shape
    text = f"{dataset}"
    one = table.y.ndim == 1 or not table.classes
    require(
        n > 0 and table.y.shape[:1] == (n,) and one, f"{text}: X {table.X.shape}, y {table.y.shape}"
    )
    require(np.isfinite(table.X), f"{text}: a feature is not finite")
    require(np.isfinite(table.y), f"{text}: a target is not finite")
    require(len(table.names) in (0, d), f"{text}: {len(table.names)} names for {d} features")
    cells = math.prod(table.shape or (d,))
    require(cells == d, f"{text}: a row of shape {table.shape} for {d} features")
    if table.classes:
        require(table.y.dtype.kind in "iu", f"{text}: labels are {table.y.dtype}, not int")
        labels = (int(table.y.min()), int(table.y.max()))
        require(
            labels[0] >= 0 and labels[1] < table.classes,
            f"{text}: labels {labels[0]} to {labels[1]}, but {table.classes} classes",
        )
    if table.client is not None:
        clients = np.unique(table.client)
        expected = np.arange(len(clients))
        require_equal(clients.astype(np.int64), expected, f"{text}: clients are not 0 to N - 1")


def check_seed(cls: type[Dataset], folder: Path) -> None:
    """Check that the same seed gives the same rows, and another one others where it is random."""
    dataset = example(cls, folder)
    if isinstance(dataset, OnDemand):
        first, again, other = (_rows(_shards(dataset, seed)) for seed in (0, 0, 1))
    else:
        loaded = [_load(dataset, seed) for seed in (0, 0, 1)]
        first, again, other = (np.asarray(table.X) for table in loaded)
        require_equal(loaded[1].y, loaded[0].y, f"{dataset}: the same seed, other targets")
    require_equal(again, first, f"{dataset}: the same seed, other rows")
    differs = first.shape != other.shape or bool((first != other).any())
    require(differs == cls.random, f"{dataset}: random is {cls.random}")


def check_on_demand(cls: type[Dataset], folder: Path) -> None:
    """Check that rows made on demand do not depend on other clients or on the time."""
    if not issubclass(cls, OnDemand):
        return
    dataset = example(cls, folder)
    all_ids = np.arange(COUNT)
    shards = _shards(dataset, seed=0)
    for part in _PARTS:
        sizes = shards.sizes(all_ids, part)
        require(sizes >= (part == "train"), f"{dataset}: a client has no {part} rows")
        width = int(sizes.max())
        X, y = shards.rows(all_ids, width, part)
        few_X, few_y = _shards(dataset, seed=0).rows(_SOME, width, part)
        require_equal(few_X, X[_SOME], f"{dataset}: neighbours change features")
        require_equal(few_y, y[_SOME], f"{dataset}: neighbours change targets")
        padding = np.arange(width) >= sizes[:, None]
        require(X[padding] == 0, f"{dataset}: padded rows are not zero")
    last = shards.sizes(_SOME)[:, None] - 1
    X, y = shards.take(_SOME, last)
    full_X, full_y = shards.rows(_SOME, int(last.max()) + 1)
    place = np.arange(len(_SOME))
    require_equal(X[:, 0], full_X[place, last[:, 0]], f"{dataset}: `take` gives other features")
    require_equal(y[:, 0], full_y[place, last[:, 0]], f"{dataset}: `take` gives other targets")


def _shards(dataset: OnDemand, seed: int) -> Shards:
    return dataset.shards(COUNT, seed, dtype=np.float64, intercept=True, test=0.25)


def _rows(shards: Shards) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    ids = np.arange(COUNT)
    return shards.rows(ids, int(shards.sizes(ids).max()))[0]


def _load(dataset: Dataset, seed: int) -> Table:
    with mock.patch.object(fetch, "_download", _refuse):
        try:
            return dataset.load(Source.here(), seed)
        except DataMissing as error:
            raise Skipped(str(error)) from error


def _refuse(file: fetch.File) -> Path:
    """Stand for the download of a file: give the one in the cache, or none."""
    if fetch.available_locally(file, None):
        return fetch._cached(file)
    home = os.environ.get("RAYFED_DATA", "nothing")
    raise DataMissing(
        "problem.dataset", f"file '{file.path}' is not available locally; RAYFED_DATA names {home}"
    )
