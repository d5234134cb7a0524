"""The page: one self-contained file made from a result folder alone."""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template

import plotly.offline

from rayfed.report.figures.palette import DARK, LIGHT, Ink, readable
from rayfed.report.figures.style import study_inks
from rayfed.report.page import markup
from rayfed.report.page.payload import payload
from rayfed.report.page.sections import body
from rayfed.report.page.words import headline
from rayfed.report.read.files import replace
from rayfed.report.read.results import Results
from rayfed.report.read.series import first_column
from rayfed.report.tables import summary, text_columns

_SCRIPTS = ("units.js", "series.js", "convergence.js", "table.js", "walk.js", "own.js", "page.js")


def write(folder: str | Path) -> Path:
    """Write ``report.html`` and ``summary.csv`` into a result folder.

    Parameters
    ----------
    folder : str or Path
        ``results/<scenario>/``, of a study that is finished, failed or still running.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    ScenarioError
        If there is no run in the folder.
    """
    results = Results.read(folder)
    replace(results.folder / "summary.csv", summary(results).to_csv(index=False))
    report = results.folder / "report.html"
    replace(report, page(results))
    return report


def page(results: Results) -> str:
    """Return the page as HTML."""
    y = first_column(results)
    frame = summary(results, y)
    table = text_columns(results, frame)
    data = payload(results, y)
    answer = headline(results, frame)
    about = f"<p>{escape(results.description)}</p>" if results.description else ""
    return Template(markup.asset("page.html")).substitute(
        title=escape(results.study),
        study=escape(results.study),
        description=about,
        colours=colours(study_inks(results)),
        css=markup.asset("page.css"),
        body=body(results, answer, table, data),
        data=markup.embedded(data),
        plotly=plotly.offline.get_plotlyjs(),
        js="\n".join(markup.asset(name) for name in _SCRIPTS),
    )


def colours(look: dict[str, Ink]) -> str:
    """Return the style sheet's variables: light, and dark where the reader prefers it."""
    light = LIGHT | {"focus": readable("#0072b2", LIGHT["background"])}
    light |= {f"a{place}": ink.light for place, ink in enumerate(look.values())}
    dark = DARK | {"focus": readable("#0072b2", DARK["background"])}
    dark |= {f"a{place}": ink.dark for place, ink in enumerate(look.values())}
    return (
        f":root {{ {_variables(light)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(dark)} }} }}"
    )


def _variables(values: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in values.items())
