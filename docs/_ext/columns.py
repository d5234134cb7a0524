"""The page of columns."""

from __future__ import annotations

import re
from pathlib import Path

import md
from sphinx.application import Sphinx

RESULTS = Path(__file__).parents[1] / "reference" / "results.md"


def columns_page() -> str:
    """Return the page that lists what the columns of every result table hold."""
    text = RESULTS.read_text("utf-8").partition("(columns-tables)=")[2]
    tables = re.split(r"^### `(\w+)`\n", text, flags=re.M)
    head = "# Columns\n\n" + tables[0].partition("## Columns\n")[2].strip()
    pairs = zip(tables[1::2], tables[2::2], strict=True)
    return "\n\n".join([head, *(f"## `{name}`\n\n{body.strip()}" for name, body in pairs)]) + "\n"


def _generate(app: Sphinx) -> None:
    md.write(Path(app.srcdir), "columns.md", columns_page())


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
