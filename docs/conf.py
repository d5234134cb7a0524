"""The documentation site: plain HTML that needs no network."""

import importlib.metadata
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
logging.getLogger("rayfed").setLevel(logging.WARNING)  # Sphinx prints what is logged


def _mathjax() -> str:
    """Return the path of MathJax in one file, fonts included, from the package that ships it."""
    name = "django-static-mathjax"
    found = [path for path in importlib.metadata.files(name) or () if path.match("es5/tex-svg.js")]
    return str(found[0].locate())


project = "rayfed"
author = "The rayfed developers"
copyright = "the rayfed developers, Apache-2.0"
release = importlib.metadata.version("rayfed-sim")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "numpydoc",
    "columns",
    "commands",
    "example",
    "gallery",
    "goes_with",
    "interface",
    "navigation",
    "scenario_reference",
    "studies",
]
exclude_patterns = ["_build", "_ext"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
default_role = "code"
smartquotes = False  # options keep their two hyphens

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc says the types
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "furo"
html_title = "rayfed"
html_static_path = ["_static", _mathjax()]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
mathjax_path = "tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}
