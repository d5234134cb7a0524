"""Comparison of result folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

TABLES = ("rounds", "events", "clients", "away", "personal", "usage", "density")
ARRAYS = ("model", "walk", "graph", "fit", "labels")


def assert_same_results(a: Path, b: Path) -> None:
    """Raise an AssertionError unless two result folders hold the same values, to the byte.

    Every value of every table and every number of every model is compared; wall-clock times and
    logs are not.
    """
    runs = sorted(path.parent.name for path in a.glob("*/run.json"))
    others = sorted(path.parent.name for path in b.glob("*/run.json"))
    if not runs or runs != others:
        raise AssertionError(f"the runs of {a} are {runs}, those of {b} are {others}")
    for run in runs:
        assert_same_run(a / run, b / run)


def assert_same_run(a: Path, b: Path) -> None:
    """Raise an AssertionError unless the folders of two runs hold the same values, to the byte.

    A run that failed holds only some of the tables. A table without parts is an absent one, since
    object stores have no empty folders.
    """
    for name in (*(f"{table}.parquet" for table in TABLES), *(f"{name}.npz" for name in ARRAYS)):
        there = [_holds(folder / name) for folder in (a, b)]
        if there[0] != there[1]:
            raise AssertionError(f"only one of {a} and {b} holds {name}")
        if all(there):
            (_same_table if name.endswith(".parquet") else _same_arrays)(a / name, b / name)


def _holds(path: Path) -> bool:
    return any(path.glob("part-*.parquet")) if path.is_dir() else path.exists()


def _same_table(a: Path, b: Path) -> None:
    left, right = map(_read, (a, b))
    if left.schema == right.schema and all(map(_same_column, left.columns, right.columns)):
        return
    name = f"{a.parent.name}/{a.stem}"
    a_frame, b_frame = (
        table.to_pandas() for table in (left, right)
    )  # its error shows the differences
    pd.testing.assert_frame_equal(a_frame, b_frame, check_exact=True, obj=name)
    raise AssertionError(f"{name} differs")


def _read(path: Path) -> pa.Table:
    """Return a table; of a folder only its parts are read, as `rayfed.load` does."""
    parts = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    return pa.concat_tables([pq.read_table(part) for part in parts]) if parts else pa.table({})


def _same_column(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(left.type):
        return bool(left.combine_chunks().equals(right.combine_chunks()))
    return np.array_equal(left.to_numpy(), right.to_numpy(), equal_nan=True)


def _same_arrays(a: Path, b: Path) -> None:
    with np.load(a) as left, np.load(b) as right:
        if left.files != right.files:
            raise AssertionError(f"{a}: the files hold {left.files} and {right.files}")
        for name in left.files:
            if left[name].tobytes() != right[name].tobytes():
                raise AssertionError(f"{a}: '{name}' differs in its bytes")
