"""What tests of whole studies share: a small scenario, and what it means to be the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# before NumPy is imported, which is why the fixtures import rayfed themselves
for library in ("OMP", "OPENBLAS", "MKL"):  # small matrices, and processes that share the cores
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

settings.register_profile("fixed", derandomize=True)
settings.register_profile("explore")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that start Ray: they take longest, and processes share out files."""
    items.sort(key=lambda item: item.get_closest_marker("ray") is None)


@pytest.fixture
def mixed() -> Callable[..., dict[str, Any]]:
    """A study with minibatches, stragglers, cyclic availability, groups and a deadline."""
    from rayfed.testing.studies import mixed

    return mixed


@pytest.fixture(scope="session")
def assert_same() -> Callable[[Path, Path], None]:
    """Two result folders hold the same bytes: every value of every table and model."""
    from rayfed.testing.compare import assert_same_results

    return assert_same_results
