"""The navigation beside a page: sections, and the pages of the section that one is in.

Every page of the site would otherwise list all others, which took half the time of a build. Those
of a section that has very many, such as the decisions, are listed on the section's page alone.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

MOST = 60
"""Pages of a section that are listed beside each of them."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Change what the theme is given, before it asks for the navigation."""
    app.connect("html-page-context", collapse, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def collapse(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """List the pages of other sections on no page but theirs."""
    whole = context.get("toctree")
    if whole is not None:
        asked = {"collapse": True} | ({"maxdepth": 1} if _has_many(app, page) else {})
        context["toctree"] = lambda **how: whole(**how | asked)


def _has_many(app: Sphinx, page: str) -> bool:
    """Return whether a page is one of very many of its section."""
    sections = app.env.toctree_includes.values()
    return any(page in pages for pages in sections if len(pages) > MOST)
