"""Files that the pages name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"`((?:rayfed|tests|scenarios|docs)/[\w./-]+)`")
NAMED = sorted(
    {
        (page.relative_to(ROOT).as_posix(), path)
        for folder in (".", "concepts", "howto", "reference", "design")
        for page in (ROOT / "docs" / folder).glob("*.md")
        for path in PATH.findall(page.read_text("utf-8"))
    }
)


@pytest.mark.parametrize(("page", "path"), NAMED)
def test_the_file_exists(page, path):
    assert (ROOT / path).exists()
