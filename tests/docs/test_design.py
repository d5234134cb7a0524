"""Every decision has a number, a row in the table of them, and a section of a chapter."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs" / "design"
INDEX = (DESIGN / "index.md").read_text("utf-8")
CHAPTERS = {
    page.stem: page.read_text("utf-8") for page in DESIGN.glob("*.md") if page.stem != "index"
}
ROWS = re.findall(
    r"^\| \[(\d{4})\]\((\w+)\.md#([\w-]+)\) \| .+ \| (.+) \| (\d{4}-\d\d-\d\d) \|$", INDEX, re.M
)
SECTION = re.compile(r"((?:^\(d\d{4}\)=\n)*)^## (.+)$", re.M)


def slug(heading):
    """Return the anchor that MyST and GitHub make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections():
    """Return (number, chapter, anchor of the section) of every target."""
    return [
        (number, chapter, slug(heading))
        for chapter, text in CHAPTERS.items()
        for targets, heading in SECTION.findall(text)
        for number in re.findall(r"\d{4}", targets)
    ]


def test_decisions_are_numbered_one_by_one_and_dated():
    assert len(ROWS) == INDEX.count("\n| [")
    assert [int(row[0]) for row in ROWS] == list(range(1, len(ROWS) + 1))


def test_the_table_links_the_section_that_has_the_number():
    assert sorted(sections()) == sorted(row[:3] for row in ROWS)


def test_the_table_names_the_chapter():
    for number, chapter, _, title, _ in ROWS:
        assert re.match(rf"# {re.escape(title)}(:.*)?\n", CHAPTERS[chapter]), number


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_section_has_a_number(chapter):
    found = SECTION.findall(CHAPTERS[chapter])
    assert found
    assert [heading for targets, heading in found if not targets] == []
    assert CHAPTERS[chapter].count("\n(d") == sum(targets.count("(d") for targets, _ in found)


def test_every_chapter_is_listed():
    listed = re.search(r"```\{toctree\}\n:maxdepth: 1\n\n(.+?)\n```", INDEX, re.S)[1].split()
    assert sorted(listed) == sorted(CHAPTERS)


def test_numbers_that_are_named_elsewhere_exist():
    numbers = {row[0] for row in ROWS}
    places = [
        ROOT / "CHANGELOG.md",
        *(ROOT / "scenarios").glob("*.yaml"),
        *(ROOT / "rayfed").rglob("*.py"),
    ]
    named = {
        number
        for place in places
        for number in re.findall(r"decisions?\s+(\d{4})\b", place.read_text("utf-8"))
    }
    assert named
    assert named <= numbers
