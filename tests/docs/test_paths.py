"""Files that the pages name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"`((?:rayfed|tests|scenarios|docs)/[\w./-]+)`")
NAMED = sorted(
    {
        (page.relative_to(ROOT).as_posix(), path)
        for folder in (".", "concepts", "howto", "reference", "decisions")
        for page in (ROOT / "docs" / folder).glob("*.md")
        for path in PATH.findall(page.read_text("utf-8"))
    }
)
PAST = {
    ("docs/decisions/0001-no-module-named-run.md", f"rayfed/{name}.py") for name in ("run", "runs")
}
"""What a decision says was tried and is gone."""


@pytest.mark.parametrize(("page", "path"), [pair for pair in NAMED if pair not in PAST])
def test_the_file_exists(page, path):
    assert (ROOT / path).exists()


def test_decisions_are_numbered_one_by_one_and_dated():
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text("utf-8")
        assert re.match(r"# .+\n\nDate: \d{4}-\d\d-\d\d\n\n## Decision\n", text), page.name
