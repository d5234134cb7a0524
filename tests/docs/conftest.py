"""Where the documentation and its generators are."""

import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def generator():
    """Return a function that imports a generator of the documentation by name."""
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    sys.path.insert(0, str(DOCS / "_ext"))
    yield importlib.import_module
    sys.path.remove(str(DOCS / "_ext"))
