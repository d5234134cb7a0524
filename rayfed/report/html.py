"""HTML of the page by Jinja2, which escapes everything that comes from a user."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from functools import cache
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from rayfed.report.figures.palette import LineStyle

_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|d|[kMGTP]?[BJ]|rounds?|updates?)(?!\w))")
_FOLDER = resources.files("rayfed.report.page")


@cache
def environment() -> Environment:
    """Return the environment of the templates.

    Filters ``keep_units`` and ``packed``, a function ``dashes`` and the ``terms`` of the field are
    added to what Jinja2 has; an unknown name is an error.
    """
    made = Environment(
        loader=PackageLoader("rayfed.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"keep_units": keep_units, "packed": packed}
    made.globals["dashes"] = dashes
    made.globals["terms"] = json.loads(asset("terms.json"))
    made.policies["json.dumps_kwargs"] = {
        "separators": (",", ":"),
        "allow_nan": False,
        "ensure_ascii": False,
    }
    return made


def asset(name: str) -> str:
    """Return the text of a file in ``rayfed/report/page/assets``."""
    return (_FOLDER / "assets" / name).read_text(encoding="utf-8")


def scripts() -> str:
    """Return all scripts of the page: the shared ones, then those of the panels."""
    shared = _FOLDER / "assets"
    files = [
        file
        for folder in (shared, shared / "panels")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".js")
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def packed(text: str) -> Markup:
    """Return a text as gzip in base64, which ``assets/packed.js`` reads."""
    return Markup(b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii"))


def panel_template(name: str) -> Template:
    """Return the template of a panel: one of its own, or that of a plain figure."""
    return environment().select_template([f"panels/{name}.html", "figure.html"])


def dashes(style: LineStyle) -> str:
    """Return a dash pattern as SVG writes it, empty for a solid line."""
    return "" if style.dash == "solid" else style.dash.replace("px", "")


def keep_units(text: str) -> str:
    r"""Return a sentence in which no line ends between a number and its unit.

    Examples
    --------
    >>> keep_units("23 % of 3 h 12 min, 6 kJ").split(" ")
    ['23\xa0%', 'of', '3\xa0h', '12\xa0min,', '6\xa0kJ']
    """
    return _UNIT.sub("\u00a0", text)
