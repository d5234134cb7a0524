"""The page: one self-contained file made from a result folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import plotly.offline
from markupsafe import Markup

from rayfed.report.figures.labels import DIRECT, plain
from rayfed.report.figures.palette import DARK, LIGHT, LineStyle, readable, to_dark
from rayfed.report.page.templates import asset, environment, panel_template, scripts
from rayfed.report.panels.base import Panel, Source, find
from rayfed.report.read.files import replace
from rayfed.report.read.personal import without_global
from rayfed.report.read.results import Results
from rayfed.report.read.series import clocks
from rayfed.report.tables import summary


@dataclass(frozen=True)
class Section:
    """Panels that answer one question of the reader.

    Parameters
    ----------
    question : str or None
        Empty where the panel speaks for itself; None if there is no section around it.
    panels : sequence of Markup
        What each of them shows.
    """

    question: str | None
    panels: Sequence[Markup]


def write(folder: str | Path, y: str | None = None, target: float | None = None) -> Path:
    """Write ``report.html`` and ``summary.csv`` into a result folder.

    Parameters
    ----------
    folder : str or Path
        ``results/<scenario>/``, of a study that is finished, failed or still running.
    y : str, optional
        The column that the target is set for. If None: `series.first_column`.
    target : float, optional
        If None: `series.default_target`.

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
    source = Source.of(results, y, target)
    whole = source.summary if source.results is results else summary(results, y, target)
    replace(results.folder / "summary.csv", whole.to_csv(index=False))
    report = results.folder / "report.html"
    replace(report, _page(source))
    return report


def page(results: Results, y: str | None = None, target: float | None = None) -> str:
    """Return the page as HTML; `y` and `target` are as for `write`."""
    return _page(Source.of(results, y, target))


def _page(source: Source) -> str:
    panels = [panel for panel in (kind(source) for kind in find()) if panel.applies]
    return (
        environment()
        .get_template("page.html")
        .render(
            results=source.results,
            colours=Markup(colours(source.styles)),
            css=Markup(asset("page.css")),
            sections=sections(panels),
            payload=payload(source, panels),
            plotly=Markup(plotly.offline.get_plotlyjs()),
            scripts=Markup(scripts()),
        )
    )


def sections(panels: Sequence[Panel]) -> list[Section]:
    """Return panels as sections: neighbours that answer one question stand together."""
    made = []
    for question, group in groupby(panels, key=lambda panel: panel.question):
        texts = [_render(panel) for panel in group]
        made += [Section(question, texts)] if question else [Section(question, [t]) for t in texts]
    return made


def _render(panel: Panel) -> Markup:
    return Markup(panel_template(panel.name).render(panel=panel, source=panel.source))


def payload(source: Source, panels: Sequence[Panel]) -> dict[str, Any]:
    """Return what the scripts need, as values that JSON can hold.

    Returns
    -------
    dict
        What all panels share (``names`` of the algorithms, the ``runs`` to choose from, the
        ``view`` that is shown first, colours) and what each of the ``panels`` needs, by its name.
    """
    results, own = source.results, without_global(source.results)
    return {
        "file": "".join(c if c.isalnum() or c in "-_" else "-" for c in results.study),
        "unlike": bool(results.unlike),
        "labelled": len(set(results.families.values()) or results.names) <= DIRECT,
        "dark": to_dark(source.styles),
        "names": [
            _name(results, name, style) | {"own": name in own}
            for name, style in source.styles.items()
        ],
        "runs": [{"name": run.name, "seed": run.seed} for run in source.runs],
        "view": {
            "x": next(iter(clocks(results))),
            "y": source.y,
            "log": None,
            "target": source.target,
            "only": None,
            "run": source.first_run,
        },
        "panels": {panel.name: panel.payload for panel in panels},
    }


def _name(results: Results, name: str, style: LineStyle) -> dict[str, Any]:
    return {
        "name": name,
        "short": plain(name),
        "family": results.families.get(name, name),
        "light": style.light,
        "dash": style.dash,
        "baseline": name in results.baselines,
        "rival": name in results.rivals,
        "failed": name in results.failed,
    }


def colours(styles: dict[str, LineStyle]) -> str:
    """Return the style sheet's variables: light, and dark where the reader prefers it."""
    light = LIGHT | {"focus": readable("#0072b2", LIGHT["background"])}
    light |= {f"a{place}": style.light for place, style in enumerate(styles.values())}
    dark = DARK | {"focus": readable("#0072b2", DARK["background"])}
    dark |= {f"a{place}": style.dark for place, style in enumerate(styles.values())}
    return (
        f":root {{ {_variables(light)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(dark)} }} }}"
    )


def _variables(values: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in values.items())
