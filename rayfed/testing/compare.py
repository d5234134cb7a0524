"""What it means that two result folders are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

TABLES = ("rounds", "events", "clients")


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
        _same_tables(a / run, b / run)
        _same_models(a / run, b / run)


def _same_tables(a: Path, b: Path) -> None:
    personal = [(folder / "personal.parquet").exists() for folder in (a, b)]
    if personal[0] != personal[1]:
        raise AssertionError(f"only one of {a} and {b} holds personal.parquet")
    for table in (*TABLES, *(["personal"] if personal[0] else [])):
        left, right = (pd.read_parquet(folder / f"{table}.parquet") for folder in (a, b))
        pd.testing.assert_frame_equal(left, right, check_exact=True, obj=f"{a.name}/{table}")


def _same_models(a: Path, b: Path) -> None:
    with np.load(a / "model.npz") as left, np.load(b / "model.npz") as right:
        if left.files != right.files:
            raise AssertionError(f"{a.name}: models hold {left.files} and {right.files}")
        for name in left.files:
            if left[name].tobytes() != right[name].tobytes():
                raise AssertionError(f"{a.name}: '{name}' differs in its bytes")
