"""Pictures of the dashboard in the documents."""

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from rayfed.dashboard.server import _VIEWS
from scripts.screens import FOLDER, SCHEMES, SIZES, VIEWS

PAGE = FOLDER.parents[1] / "howto" / "dashboard.md"


def test_every_view_has_its_pictures_in_the_documents():
    assert set(VIEWS) == set(_VIEWS)
    names = {f"{v}-{size}-{scheme}.webp" for v in VIEWS for size in SIZES for scheme in SCHEMES}
    assert {path.name for path in FOLDER.iterdir()} == names
    text = PAGE.read_text("utf-8")
    assert [name for name in names if f"_static/dashboard/{name}" not in text] == []
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2.5e6
