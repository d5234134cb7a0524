"""An example report: the page of the quickstart, written into the site."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import sources
from sphinx.application import Sphinx

PAGE = "example/report.html"
"""Place of the report in the site."""


def report(page: Path) -> None:
    """Run the quickstart in this process and write its report."""
    page.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        out = Path(folder) / "quickstart"
        sources.run("quickstart", out=out, overrides={"executor": "serial"})
        shutil.copy(out / "report.html", page)


def _outdated(page: Path) -> bool:
    files = (file for file in sources.package().rglob("*") if file.suffix != ".pyc")
    return not page.exists() or page.stat().st_mtime < max(file.stat().st_mtime for file in files)


def _generate(app: Sphinx, error: Exception | None) -> None:
    page = Path(app.outdir) / PAGE
    if error is None and app.builder.format == "html" and _outdated(page):
        report(page)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the report after the pages."""
    app.connect("build-finished", _generate)
    return {"parallel_read_safe": True}
