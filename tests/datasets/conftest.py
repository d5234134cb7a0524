"""Real data: tests that need it skip, visibly, where RAYFED_DATA does not name its folder."""

import os
from pathlib import Path

import pytest

from rayfed.datasets.base import Source


@pytest.fixture(scope="session")
def real() -> Source:
    folder = os.environ.get("RAYFED_DATA")
    if not folder:
        pytest.skip("needs the real data sets: set RAYFED_DATA to their folder")
    return Source(home=Path(folder))
