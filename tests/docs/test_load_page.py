"""The page on results has an example for every frame and every figure."""

from pathlib import Path

import pytest

from rayfed.report.gallery import kinds
from rayfed.report.summary import FRAMES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "load.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text("utf-8")


@pytest.mark.parametrize("name", sorted(kinds()))
def test_every_figure_is_drawn(page, name):
    assert f'.figure("{name}"' in page


@pytest.mark.parametrize("name", [*FRAMES, "summary", "model", "weights", "comparison"])
def test_every_frame_is_read(page, name):
    assert f"result.{name}" in page
