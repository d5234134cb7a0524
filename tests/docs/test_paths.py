"""Pages name only files, folders and modules that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"`((?:rayfed|tests|scenarios|scripts|benchmarks|analysis|docs)/[\w./-]+)`")
PLACE = re.compile(r"`((?:[\w-]+/)*[\w-]+(?:\.(?:py|js|css|toml|md|sh)|/))`")
MODULE = re.compile(
    r"`((?:rayfed|tests|scripts|benchmarks)(?:\.\w+)+)`"
    r"|python -m ((?:scripts|benchmarks|tests)[\w.]*)"
)
ROW = re.compile(r"^\| `rayfed\.(\w+)` \| (.*) \|$", re.M)
WRITTEN = [
    page
    for folder in (".", "concepts", "howto", "reference", "design")
    for page in (ROOT / "docs" / folder).glob("*.md")
]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
INSIDE = [ARCHITECTURE, *(ROOT / "docs" / "design").glob("*.md")]
"""Pages about the sources, where `engine/loop.py` may leave out the first folder."""
KNOWN = [
    path.relative_to(ROOT).as_posix() + "/" * path.is_dir()
    for folder in ("rayfed", "tests", "scripts", "benchmarks", "docs", "scenarios")
    for path in (ROOT / folder).rglob("*")
    if not {"_build", "generated", "__pycache__"} & set(path.parts)
]


def named(pattern, pages):
    """Return page and name of everything that matches."""
    found = {
        (page.relative_to(ROOT).as_posix(), name)
        for page in pages
        for match in pattern.finditer(page.read_text("utf-8"))
        for name in match.groups()
        if name
    }
    return sorted(found)


def is_known(name):
    """Return whether some file or folder of the sources ends in a name."""
    return (ROOT / name).exists() or any(f"/{path}".endswith(f"/{name}") for path in KNOWN)


def is_module(dotted):
    """Return whether a dotted name is a module, or a name in one."""
    place, rest = ROOT, dotted.split(".")
    while rest and (place / rest[0]).is_dir():
        place /= rest.pop(0)
    if rest and (place / f"{rest[0]}.py").exists():
        place /= f"{rest.pop(0)}.py"
    else:
        place /= "__init__.py"
    words = set(re.findall(r"\w+", place.read_text("utf-8"))) if rest else set()
    return len(rest) <= 2 and words >= set(rest)


def is_in(package, name):
    """Return whether a package has a module or a folder of a name, or its sources name it."""
    place = ROOT / "rayfed" / package
    files = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    named = (name in (file.stem, *file.relative_to(ROOT).parts) for file in files)
    return any(named) or any(
        re.search(rf"\b{name}\b", file.read_text("utf-8")) is not None for file in files
    )


@pytest.mark.parametrize(("page", "path"), named(PATH, WRITTEN))
def test_the_file_exists(page, path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("page", "name"), named(PLACE, INSIDE))
def test_a_file_or_folder_of_that_name_exists(page, name):
    assert is_known(name)


@pytest.mark.parametrize(("page", "name"), named(MODULE, WRITTEN))
def test_the_module_exists(page, name):
    assert is_module(name)


def layers():
    """Return package and name of every name in the table of packages."""
    rows = ROW.findall(ARCHITECTURE.read_text("utf-8"))
    return [(package, name) for package, text in rows for name in re.findall(r"`(\w+)`", text)]


@pytest.mark.parametrize(("package", "name"), layers())
def test_a_package_has_what_the_table_says(package, name):
    assert is_in(package, name)


def test_names_that_do_not_exist_are_noticed():
    assert len(layers()) > 20
    assert is_known("engine/loop.py")
    assert is_known("loop.py")
    assert not is_known("gine/loop.py")
    assert not is_known("engine/works_of_nobody.py")
    assert is_module("rayfed.engine.timeline")
    assert is_module("rayfed.core.arrays.namespace")
    assert not is_module("rayfed.engine.run.nothing_of_this_name")
    assert not is_module("rayfed.ending")
    assert is_in("study", "forecast")
    assert not is_in("study", "nothing_of_this_name")
