"""Checks of tables and shards, wherever they come from: built in, a user's file, a user's class."""

from __future__ import annotations

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError
from rayfed.core.files import check_room
from rayfed.core.targets import IGNORED
from rayfed.datasets.base import Table
from rayfed.datasets.shards import Shards

_ROWS = 2**16  # that are looked at together, so that no mask of a large table is made


def check_table(table: Table, place: str) -> None:
    """Refuse a table that breaks the contract of `Table`.

    Parameters
    ----------
    table : Table
        The rows, with their test rows if there are any.
    place : str
        Where it comes from, for the error.

    Raises
    ------
    ScenarioError
        If the targets or the clients are not one for each row, a number is not finite, a label is
        not one of 0 to ``classes - 1``, or a client has no row.
    """
    _check_part(table, "", place)
    if table.test is not None:
        _check_part(table.test, " of the test rows", place)
        if table.test.X.shape[1:] != table.X.shape[1:]:
            text = f"test rows have {table.test.X.shape[1]} features, others {table.X.shape[1]}"
            raise ScenarioError(place, f"{text}; give the same ones")
    parts = ("client", table.client), ("writer", table.writer), ("part", table.part)
    for name, owner in parts:
        if owner is not None and owner.shape != table.y.shape[:1]:
            text = f"there are {len(owner)} values of '{name}' for {len(table.y)} rows"
            raise ScenarioError(place, f"{text}; give one for each row")
    if table.client is not None:
        _check_clients(table, place)


def _check_part(table: Table, of: str, place: str) -> None:
    X, y = table.X, table.y
    if X.ndim != 2 or not X.size:
        raise ScenarioError(place, f"X{of} is {X.shape}; give (rows, features), at least one each")
    if y.shape[:1] != (len(X),) or (table.classes and y.ndim > 1):
        text = f"there are {len(X)} rows and {y.size} targets{of}, y {y.shape}"
        raise ScenarioError(place, f"{text}; give one target for each row")
    at = _first_bad(X)
    if at is not None:
        text = f"row {at[0] + 1}, feature {at[1] + 1}{of} is {X[at]}"
        raise ScenarioError(place, f"{text}; give finite numbers")
    _check_targets(y, table.classes, of, place)


def _check_targets(y: Array, classes: int, of: str, place: str) -> None:
    bad = np.argwhere(~np.isfinite(y)) if y.dtype.kind == "f" else np.zeros((0, 1))
    if len(bad):
        text = f"the target of row {bad[0][0] + 1}{of} is {y[tuple(bad[0])]}"
        raise ScenarioError(place, f"{text}; give finite numbers")
    if y.ndim > 1 and y.dtype.kind in "iu" and y.size:
        check_values(y, of, place)
    if not classes:
        return
    low, high = y.min(), y.max()
    if low < 0 or high >= classes or (y != np.floor(y)).any():
        text = f"labels{of} go from {low} to {high}, but there are {classes} classes"
        raise ScenarioError(place, f"{text}; number them 0 to {classes - 1}")


def check_values(y: Array, of: str, place: str) -> None:
    """Refuse classes of several values a row (n, ...) that are negative, and rows without any."""
    ignored = y == IGNORED
    low = y.min(initial=0, where=~ignored)
    if low < 0:
        text = f"classes of targets{of} go down to {low}"
        remedy = f"number them from 0, {IGNORED} for positions that do not count"
        raise ScenarioError(place, f"{text}; {remedy}, or give float numbers")
    for row in np.flatnonzero(ignored.reshape(len(y), -1).all(axis=1))[:1]:
        text = f"all targets of row {row + 1}{of} are {IGNORED}"
        raise ScenarioError(place, f"{text}; leave the row out")


def _check_clients(table: Table, place: str) -> None:
    """Refuse clients that are not 0 to N - 1, each with a row."""
    assert table.client is not None
    if table.client.dtype.kind not in "iu":
        raise ScenarioError(place, f"clients are {table.client.dtype}; number them 0, 1, ...")
    known = np.unique(table.client)
    if known[0] < 0 or known[-1] != len(known) - 1:
        text = f"clients go from {known[0]} to {known[-1]}, but {len(known)} have rows"
        raise ScenarioError(place, f"{text}; number them 0, 1, ... without gaps")
    if table.client_names and len(table.client_names) != len(known):
        text = f"there are {len(table.client_names)} names of {len(known)} clients"
        raise ScenarioError(place, f"{text}; give one for each")


def check_shards(shards: Shards, place: str) -> None:
    """Refuse rows made on demand that are not finite or have unknown labels.

    Those of the first and the last client are looked at.

    Raises
    ------
    ScenarioError
        If they do not fit the description of `Table`.
    """
    for client in dict.fromkeys((0, shards.clients - 1)):
        ids = np.array([client])
        width = int(shards.sizes(ids)[0])
        d, c = shards.features, max(1, shards.classes)
        # drawn, moved and scored by a model of the client's own, in float64
        needed = 8 * (width * (2 * d + c) + 3 * d * c)
        what = f"the {width:,} rows of client {client}, with {d:,} features and {c:,} outputs,"
        check_room(needed, place, what, "give fewer rows, features or classes")
        X, y = shards.rows(ids, width)
        if width < 1 or X.shape[1] != width or y.shape != (1, width):
            text = f"client {client} has {width} rows, but X {X.shape} and y {y.shape}"
            raise ScenarioError(place, f"{text}; give (1, rows, features) and (1, rows)")
        _check_part(Table(X[0], y[0], shards.classes), f" of client {client}", place)


def _first_bad(X: Array) -> tuple[int, int] | None:
    """Return row and column of the first number that is not finite."""
    if X.dtype.kind != "f":
        return None
    for start in range(0, len(X), _ROWS):
        bad = np.argwhere(~np.isfinite(X[start : start + _ROWS]))
        if len(bad):
            return start + int(bad[0, 0]), int(bad[0, 1])
    return None
