"""The navigation beside a page: sections, and the pages of the section that one is in.

Every page of the site would otherwise list all others, which took half the time of a build.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Change what the theme is given, before it asks for the navigation."""
    app.connect("html-page-context", collapse, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def collapse(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """List the pages of other sections on no page but theirs."""
    whole = context.get("toctree")
    if whole is not None:
        context["toctree"] = lambda **how: whole(**how | {"collapse": True})
