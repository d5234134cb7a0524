"""The navigation of the site lists the pages of the section that one is in, and no others."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CONF = f"""
import runpy

site = runpy.run_path({str(DOCS / "conf.py")!r})
extensions = [name for name in site["extensions"] if name == "navigation"]
html_theme = site["html_theme"]
"""
HOME = "Home\n====\n\n.. toctree::\n\n   mine/index\n   other/index\n   many/index\n"
MANY = [f"page{k}" for k in range(61)]
CROWDED = "Many\n====\n\n.. toctree::\n\n   " + "\n   ".join(MANY) + "\n"
SECTION = "Section\n=======\n\n.. toctree::\n\n   one\n   two\n"


def test_pages_of_other_sections_are_not_listed(tmp_path):
    """All pages on each page took half the time of a build; with the site's theme and settings."""
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    source = tmp_path / "source"
    for section in ("mine", "other"):
        (source / section).mkdir(parents=True)
        (source / section / "index.rst").write_text(SECTION)
        for page in ("one", "two"):
            (source / section / f"{page}.rst").write_text("Page\n====\n")
    (source / "many").mkdir()
    (source / "many" / "index.rst").write_text(CROWDED)
    for page in MANY:
        (source / "many" / f"{page}.rst").write_text("Page\n====\n")
    (source / "index.rst").write_text(HOME)
    (source / "conf.py").write_text(CONF)
    words = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(source), str(tmp_path / "out")]
    subprocess.run(words, check=True, capture_output=True, timeout=60)

    def listed(path):
        html = (tmp_path / "out" / f"{path}.html").read_text(encoding="utf-8")
        return set(re.findall(r'href="([^"#]+)\.html"', html))

    assert {"two", "../other/index", "../many/index"} <= listed("mine/one")
    assert not {"../other/one", "../other/two", "../many/page7"} & listed("mine/one")
    # very many are listed on the page of their section alone, and the next one beside each
    assert {"index", "page31", "../mine/index"} <= listed("many/page30")
    assert not {"page7", "page50"} & listed("many/page30")
    assert set(MANY) <= listed("many/index")
