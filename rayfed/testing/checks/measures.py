"""Checks of measures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rayfed import api
from rayfed.core.columns import Column
from rayfed.core.parquet import read, values
from rayfed.engine.columns import TAKEN
from rayfed.measures.base import Measure
from rayfed.study.plan.plan import Plan
from rayfed.testing.checks.common import require, require_unchanged
from rayfed.testing.examples import example
from rayfed.testing.studies import assert_same_bits, drive, mixed


def check_columns(cls: type[Measure], folder: Path) -> None:
    """Check that it declares columns of numbers, described, with names that are not taken."""
    require(cls.columns, f"{cls.__qualname__} declares no columns")
    for column in cls.columns:
        require(isinstance(column, Column), f"{column!r} is not a Column")
        require(column.dtype == "float64", f"'{column.name}' is {column.dtype}; use float64")
        require(column.about.strip(), f"'{column.name}' has no description; give about")
        require(column.name not in TAKEN, f"'{column.name}' is a column of rayfed's own; rename it")


def check_measured(cls: type[Measure], folder: Path) -> None:
    """Check that evaluated rows alone have its values, and one of them at least is a number."""
    plan = _plan(cls, folder)
    (run,) = plan.runs
    drive(plan, folder / "run")
    rounds = read(folder / "run" / run.folder / "rounds.parquet")
    (declared,) = run.measured.values()
    found = np.stack([values(rounds, column.name) for column in declared], axis=1)
    known = np.isfinite(found).any(axis=1)
    require(known.any(), f"{cls.__qualname__} measures nothing: all its values are NaN")
    require(~known[1:-1:2], f"{cls.__qualname__} fills rows that are not evaluated")


def check_bits(cls: type[Measure], folder: Path) -> None:
    """Check that the bits depend neither on stacks of 1 or 7 clients, nor on a stop on the way."""
    assert_same_bits(_plan(cls, folder), folder, rounds=5)


def check_state(cls: type[Measure], folder: Path) -> None:
    """Check that it changes neither its own state nor the server's in place."""
    require_unchanged(
        _plan(cls, folder), cls.__qualname__, lambda now: [now.state, *now.measured.values()]
    )


def _plan(cls: type[Measure], folder: Path) -> Plan:
    measures = [example(cls, folder)]
    return api.prepare(api.read(mixed(rounds=8, evaluate={"every": 2, "measures": measures})))
