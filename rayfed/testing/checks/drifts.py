"""Checks of drifts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.datasets.base import Table
from rayfed.datasets.drift import Drift
from rayfed.datasets.drifting import DriftingShards
from rayfed.datasets.split import split
from rayfed.datasets.table import Rows, TableShards
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import COUNT, examples

ROUNDS = (0, 1, 2, 9, 2, 400)
_SOME = np.array([5, 0, 11])
_ALL = np.arange(COUNT)
_PARTS = ("train", "test")
_ROWS = 220  # so that sizes differ


def check_pure(drift: Drift, rounds: Sequence[int] = ROUNDS) -> None:
    """Check that the rows of a round do not depend on earlier calls."""
    shards = changed(drift)
    for round in rounds:
        for part in _PARTS:
            now = _rows(shards.at(round), _ALL, part)
            fresh = _rows(changed(drift).at(round), _ALL, part)
            text = f"{drift} in round {round}: earlier questions matter"
            require_equal(now[0], fresh[0], text)
            require_equal(now[1], fresh[1], text)


def check_neighbours(drift: Drift) -> None:
    """Check that the rows of a client do not depend on other clients."""
    for round in ROUNDS:
        shards = changed(drift).at(round)
        for part in _PARTS:
            X, y = _rows(shards, _ALL, part)
            few_X, few_y = _rows(changed(drift).at(round), _SOME, part)
            require_equal(few_X, X[_SOME], f"{drift}: neighbours change features")
            require_equal(few_y, y[_SOME], f"{drift}: neighbours change targets")
            sizes = shards.sizes(_ALL, part)
            padding = np.arange(X.shape[1]) >= sizes[:, None]
            require(X[padding] == 0, f"{drift}: padded rows are not zero")
            require(y[padding] == 0, f"{drift}: padded targets are not zero")
            require(sizes >= (part == "train"), f"{drift}: a client has no {part} rows")


def check_take(drift: Drift) -> None:
    """Check that minibatches are made of the rows that evaluations see."""
    for round in ROUNDS:
        shards = changed(drift).at(round)
        index = np.arange(3) * (shards.sizes(_SOME)[:, None] - 1) // 2
        X, y = shards.take(_SOME, index)
        all_X, all_y = _rows(shards, _SOME, "train")
        place = np.arange(len(_SOME))[:, None]
        require_equal(X, all_X[place, index], f"{drift}: `take` gives other features")
        require_equal(y, all_y[place, index], f"{drift}: `take` gives other targets")


def check_empty_selection(drift: Drift) -> None:
    """Check that clients that do not drift keep their rows, to the byte."""
    shards = changed(replace(drift, clients=0.0)).at(400)
    for part in _PARTS:
        after, before = (_rows(state, _ALL, part) for state in (shards, _base()))
        text = f"{drift}: rows of clients change that do not drift"
        require_equal(after[0], before[0], text)
        require_equal(after[1], before[1], text)


def changed(drift: Drift, seed: int = 3) -> DriftingShards:
    """Return twelve clients with small images of three classes, unequally many, that drift."""
    changing = 0.5 if isinstance(drift.clients, str) else drift.clients
    ids = np.array(changing) if isinstance(changing, tuple) else changing
    return DriftingShards.of(_base(), drift, seed, ids)


def _base() -> TableShards:
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((_ROWS, 9)), rng.integers(0, 3, _ROWS)
    client = np.sort(rng.integers(0, COUNT, _ROWS))
    client[:COUNT] = np.arange(COUNT)
    table = Table(X, y, 3, client=client, shape=(1, 3, 3))
    parts = split(table, None, None, seed=0, test=0.25)
    return TableShards.of(Rows.of(table, dtype="float32", intercept=True), parts, 3)


def variants(cls: type[Drift], folder: Path) -> list[Drift]:
    """Return examples of a drift, sudden, gradual and recurring, of some clients."""
    made = examples(cls, folder)
    half = replace(made[0], clients=0.5)
    return [*made, half, replace(half, over=5), replace(half, at=2, over=2, end=4, every=6)]


def _rows(shards: TableShards | DriftingShards, ids: Ints, part: str) -> tuple[Array, Array]:
    return shards.rows(ids, int(shards.widths(_ALL, part).max()), part)
