"""Page of a study in one self-contained file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import plotly.offline
from markupsafe import Markup, escape

from rayfed.core import plugins
from rayfed.core.errors import ScenarioError
from rayfed.report.best import best_of
from rayfed.report.figures.labels import DIRECT
from rayfed.report.figures.palette import DARK, LIGHT, OKABE_ITO, LineStyle, to_dark
from rayfed.report.html import asset, environment, packed, scripts
from rayfed.report.panels.base import PageSource, Panel, RunPanel, Section, TemplatedFigure, find
from rayfed.report.read.curves import clocks
from rayfed.report.read.folders import joined
from rayfed.report.read.results import Progress, Results
from rayfed.report.tables import summary
from rayfed.report.writing import make, replace

Shown = tuple[Panel, Markup]
"""A panel that applies, and its HTML."""
FOLDED = frozenset({
    "tradeoff", "left-out", "against", "coordinates", "importance", "utilisation-clients", "waste",
    "energy", "round-times", "staleness", "labels", "participation", "rounds", "pace", "paths",
    "classes", "layers",
})  # fmt: skip
"""Panels behind "More figures" at the end of their section."""


def write(
    folder: str | Path,
    y: str | None = None,
    target: float | None = None,
    panels: Sequence[str | type[Panel]] = (),
    progress: Progress | None = None,
) -> Path:
    """Write ``report.html`` and ``summary.csv`` into a result folder.

    Parameters
    ----------
    folder : str or Path
        ``results/<scenario>/``, of a study that is finished, failed or still running.
    y : str, optional
        The column that the target is set for. If None: `curves.first_column`.
    target : float, optional
        If None: `curves.default_target`.
    panels : sequence of str or type, optional
        Panels of the user's, as `panels.base.find` takes them.
    progress : callable, optional
        Called with the progress of the page; see `Progress`.

    Returns
    -------
    Path
        Where the page is.

    Raises
    ------
    ScenarioError
        If there is no run in the folder, or a panel of the user's cannot be found or drawn.
    """
    kinds = find(panels)
    results = Results.read(folder, progress)
    source = PageSource.of(results, y, target)
    if source.searched is not None:  # all trials, by the target of the page
        y, target = source.y, source.target
    table = summary(results, y, target)
    replace(results.folder / "summary.csv", table.to_csv(index=False))
    report = results.folder / "report.html"
    replace(report, page_of(source, kinds, progress))
    return report


def page(
    results: Results,
    y: str | None = None,
    target: float | None = None,
    panels: Sequence[str | type[Panel]] = (),
) -> str:
    """Return the page as HTML; `y`, `target` and `panels` are as for `write`."""
    return page_of(PageSource.of(results, y, target), find(panels))


def compare(
    folders: Sequence[str | Path], out: Path, panels: Sequence[str | type[Panel]] = ()
) -> Results:
    """Write a page over several result folders and return its content.

    Parameters
    ----------
    folders : sequence of path
        Result folders; of a search the best trial of each algorithm is shown.
    out : Path
        The page. Its folder is made.
    panels : sequence of str or type, optional
        Panels of the user's, as `panels.base.find` takes them.

    Raises
    ------
    ScenarioError
        If there are less than two folders, one is given twice, or one holds no run; if a
        panel of the user's cannot be found or drawn.
    RayfedError
        If the page cannot be written.
    """
    results = joined([best_of(Results.read(folder)) for folder in folders])
    text = page(results, panels=panels)
    make(out.parent)
    replace(out, text)
    return results


def page_of(
    source: PageSource,
    kinds: Sequence[type[Panel]],
    progress: Progress | None = None,
    opening: str = "",
    more: Sequence[tuple[str, list[Markup]]] = (),
) -> str:
    """Return a page with the panels that apply; `progress` is as for `write`.

    `opening` is the fragment of the page's address, with the reader's choices, if it has none;
    `more` are sections, as `sections` returns them, after those of the panels.
    """
    made = content(source, kinds, progress)
    made["sections"] += more
    made["payload"] |= {"opening": opening}
    return (
        environment()
        .get_template("page.html")
        .render(
            css=Markup(asset("page.css")),
            plotly=_plotly(),
            scripts=Markup(scripts()),
            **made,
        )
    )


@cache
def _plotly() -> Markup:
    return packed(plotly.offline.get_plotlyjs())


def content(
    source: PageSource, kinds: Sequence[type[Panel]], progress: Progress | None = None
) -> dict[str, Any]:
    """Return the content of a page with some panels, for its templates.

    Returns
    -------
    dict
        The ``results``, the ``chooser`` of runs where no panel has one, the ``sections`` of the
        panels that apply, the ``payload`` of the scripts and the ``colours`` as style sheet.
        Panels in a fold that the reader of a dashboard has not opened are left out.
    """
    made: dict[type[Panel], Shown] = {}
    later: list[type[Panel]] = []
    # The folded ones last: where a section has no other, the first of them is shown.
    for done, kind in enumerate(sorted(kinds, key=lambda kind: _is_folded(kind, source))):
        if progress is not None:
            progress(done, len(kinds), f"drawing {kind.name}")
        if _waits(kind, source) and any(other.section == kind.section for other in made):
            later.append(kind)
        elif (panel := _shown(kind, source)) is not None:
            made[kind] = panel
    shown = [made[kind] for kind in kinds if kind in made]
    _check_ids(shown)
    panels = [panel for panel, _ in shown]
    return {
        "results": source.results,
        "chooser": source if _lacks_choice(panels) and len(source.runs) > 1 else None,
        "colours": Markup(colours(source.styles)),
        "sections": sections(shown, source, later),
        "payload": payload(source, panels),
    }


def _lacks_choice(panels: Sequence[Panel]) -> bool:
    """Return whether some show a chosen run, without the panel with its choice."""
    named = any(panel.name == "timeline" for panel in panels)
    return not named and any(isinstance(panel, RunPanel) for panel in panels)


def _shown(kind: type[Panel], source: PageSource) -> Shown | None:
    """Return a panel with its HTML; None if the results hold nothing for it."""
    try:
        panel = kind(source)
        if not panel.applies:
            return None
        if not _is_ours(kind):
            json.dumps(panel.payload, allow_nan=False)  # raises for values that JSON cannot hold
        return panel, escape(panel.render())
    except Exception as error:
        if _is_ours(kind):
            raise
        text = f"cannot be drawn: {plugins.raised(error)}"
        raise ScenarioError(plugins.name_of(kind), text) from error


def _check_ids(shown: Sequence[Shown]) -> None:
    """Refuse user panels with an element id that another element has."""
    taken = {"data", "plotly"}
    for panel, html in sorted(shown, key=lambda one: not _is_ours(type(one[0]))):
        ids = set(re.findall(r"""\bid=["']?([^"'\s>]+)""", html))
        if taken & ids and not _is_ours(type(panel)):
            text = f"'{min(taken & ids)}' is the id of another element of the page; rename it"
            raise ScenarioError(plugins.name_of(type(panel)), text)
        taken |= ids


def _is_ours(kind: type[Panel]) -> bool:
    return kind.__module__.startswith("rayfed.")


def sections(
    shown: Sequence[Shown], source: PageSource, later: Sequence[type[Panel]] = ()
) -> list[tuple[str | None, list[Markup]]]:
    """Return panels by section, each with its heading; `later` are those in folds still to be made.

    The heading is None around the answer, which stands in no section, and empty where a panel has a
    section to itself.
    """
    made: list[tuple[str | None, list[Markup]]] = []
    for section, group in groupby(shown, key=lambda one: one[0].section):
        panels = list(group)
        shown_first = [one for one in panels if not _is_folded(type(one[0]), source)] or panels[:1]
        texts = [html for _, html in shown_first]
        if section == Section.RESULTS:
            made += [("", [text]) for text in texts]
        else:
            made.append((None if section == Section.ANSWER else section, texts))
        more = [one for one in panels if one not in shown_first]
        waiting = [kind for kind in later if kind.section == section]
        if more or waiting:
            kinds = [type(panel) for panel, _ in more] + waiting
            headings = [kind.heading for kind in kinds if issubclass(kind, TemplatedFigure)]
            fold = environment().get_template("more.html").render(
                section=section, headings=headings, waiting=waiting,
                texts=[html for _, html in more],
            )  # fmt: skip
            made[-1][1].append(Markup(fold))
    return made


def _is_folded(kind: type[Panel], source: PageSource) -> bool:
    """Return whether it stands behind "More figures"; a table of cases has the final values."""
    return kind.name in FOLDED or (kind.name == "finals" and bool(source.cases))


def _waits(kind: type[Panel], source: PageSource) -> bool:
    """Return whether a panel is made when the reader of a dashboard opens its fold."""
    asked = source.asked
    return asked is not None and kind.section not in asked.opened and _is_folded(kind, source)


def payload(source: PageSource, panels: Sequence[Panel]) -> dict[str, Any]:
    """Return the data of the scripts as JSON values.

    Returns
    -------
    dict
        Shared data (``names`` of the algorithms, the ``runs`` to choose from where a panel shows
        one, the ``view`` that is shown first, colours) and the data of each of the ``panels``, by
        its name.
    """
    results = source.results
    every = [about for part in (source, *source.cases.values()) for about in part.about]
    names = {about["name"]: about for about in reversed(every)}
    of_runs = any(isinstance(panel, RunPanel) or not _is_ours(type(panel)) for panel in panels)
    return {
        "file": "".join(c if c.isalnum() or c in "-_" else "-" for c in results.study),
        "unlike": bool(results.unlike),
        "labelled": len(set(results.families.values()) or results.names) <= DIRECT
        and not source.cases,
        "dark": to_dark(source.styles),
        "names": [names[name] for name in source.styles],
        "cases": [*source.cases],
        "runs": [{"name": run.name, "seed": run.seed} for run in (source.runs if of_runs else ())],
        "view": {
            "x": next(iter(clocks(results))),
            "y": source.y,
            "log": None,
            "smooth": 0,
            "seeds": False,
            "targets": [part.target for part in source.parts],
            "case": [*source.cases].index(source.case) if source.cases else 0,
            "only": None,
            "run": source.first_run if of_runs else 0,
        },
        "panels": {panel.name: panel.payload for panel in panels},
    }


def colours(styles: dict[str, LineStyle]) -> str:
    """Return the style sheet's variables: light, and dark where the reader prefers it."""
    light = LIGHT | {"focus": OKABE_ITO[0][0]}
    light |= {f"a{place}": style.light for place, style in enumerate(styles.values())}
    dark = DARK | {"focus": OKABE_ITO[0][1]}
    dark |= {f"a{place}": style.dark for place, style in enumerate(styles.values())}
    return (
        f":root {{ {_variables(light)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(dark)} }} }}"
    )


def _variables(values: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in values.items())
