"""What tests of whole studies share: a small scenario, and what it means to be the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

MIXED: dict[str, Any] = {
    "name": "mixed",
    "seeds": [3],
    "rounds": 12,
    "problem": {
        "name": "softmax-regression",
        "dataset": {"name": "synthetic", "features": 5, "classes": 3, "samples": 12},
        "l2": 1e-2,
        "test": 0.25,
    },
    "clients": {
        "count": 13,
        "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5},
        "stragglers": {"fraction": 0.2, "slowdown": 8},
        "network": {"down_mbps": 20, "up_mbps": 5},
        "availability": {"name": "cyclic", "groups": 3, "rounds": 1},
        "groups": [{"name": "phones", "fraction": 0.3, "local": {"steps": 3, "lr": 0.05}}],
    },
    "participation": {
        "cohort": 4, "select": {"name": "uniform"}, "over_select": 1.3, "deadline_s": 100,
    },
    "checkpoint": {"every_s": 0},
    "algorithms": [{"name": "fedavg", "local": {"steps": 5, "batch": 4, "lr": 0.1}}],
    "executor": {"name": "serial"},
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that start Ray: they take longest, and processes share out files."""
    items.sort(key=lambda item: item.get_closest_marker("ray") is None)


@pytest.fixture
def mixed() -> Callable[..., dict[str, Any]]:
    """A study with minibatches, stragglers, cyclic availability, groups and a deadline."""

    def make(**changes: Any) -> dict[str, Any]:
        return copy.deepcopy(MIXED) | changes

    return make


@pytest.fixture(scope="session")
def assert_same() -> Callable[[Path, Path], None]:
    """Two result folders hold the same bytes: every value of every table and model."""

    def check(a: Path, b: Path) -> None:
        runs = sorted(path.parent.name for path in a.glob("*/run.json"))
        assert runs == sorted(path.parent.name for path in b.glob("*/run.json"))
        assert runs
        for run in runs:
            own = [(place / run / "personal.parquet").exists() for place in (a, b)]
            assert own[0] == own[1]
            tables = ("rounds", "events", "clients", *(["personal"] if own[0] else []))
            for table in (f"{name}.parquet" for name in tables):
                left, right = pd.read_parquet(a / run / table), pd.read_parquet(b / run / table)
                pd.testing.assert_frame_equal(left, right, check_exact=True, obj=f"{run}/{table}")
            with np.load(a / run / "model.npz") as x, np.load(b / run / "model.npz") as y:
                assert x.files == y.files
                for name in x.files:
                    assert x[name].tobytes() == y[name].tobytes(), f"{run}: {name}"

    return check
