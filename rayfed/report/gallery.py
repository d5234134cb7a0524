"""Figures by name, with options checked and defaults filled in."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import plotly.graph_objects as go

from rayfed.core.errors import ScenarioError, unknown
from rayfed.report.figures.facets import side_by_side
from rayfed.report.figures.labels import plain
from rayfed.report.figures.style import titled
from rayfed.report.panels.base import Draw, FigurePanel, find
from rayfed.report.read.curves import clocks, first_column
from rayfed.report.read.results import Results, RunRecord

SIDE_BY_SIDE = "convergence"
"""The figure that shows all cases at once."""
_LETTERS = 80  # of a title
_KEYS = ("seed", "round", "client")
"""Numeric columns that identify a row, not measurements."""


def kinds() -> dict[str, Draw]:
    """Return the functions that draw a result, by name: those of the panels.

    Examples
    --------
    >>> sorted(kinds())[:3]
    ['against', 'classes', 'convergence']
    """
    return {draw.__name__: draw for panel in find() for draw in panel.draws}


def by_case() -> frozenset[str]:
    """Return the figures that are drawn of each case, where a study has cases."""
    panels = [panel for panel in find() if issubclass(panel, FigurePanel) and panel.by_case]
    return frozenset(draw.__name__ for panel in panels for draw in panel.draws) | {SIDE_BY_SIDE}


def figure(results: Results, kind: str, options: Mapping[str, Any]) -> go.Figure:
    """Draw a figure of a result.

    Where a study has cases, the option ``case`` selects the case of the figures of `by_case`.
    Without it "convergence" is of all cases side by side, and every other one of the first that has
    it, with its name as the title.

    Parameters
    ----------
    results : Results
        A result folder.
    kind : str
        One of `kinds`.
    options : mapping
        Arguments of its function. Where a figure shows one run and ``name`` or ``seed`` is left
        out, it is the first run that has what the figure shows; algorithms that are no baselines
        come first.

    Raises
    ------
    ScenarioError
        If the figure, an option, a column, an algorithm or a seed is not known, or if no run has
        what the figure shows. It names the nearest that is known.
    """
    _check("figure", kind, kinds())
    draw = kinds()[kind]
    if results.cases and kind in by_case():
        return _of_cases(results, kind, dict(options))
    parameters = [*inspect.signature(draw).parameters][1:]
    for option in options:
        _check(f"option of {kind}", option, parameters)
    _check_columns(results, kind, options)
    if "name" not in parameters:
        if kind == "convergence":
            options = {"y": first_column(results)} | dict(options)
        return _drawn(draw, results, options)
    return _of_run(kind, results, options)


def _of_cases(results: Results, kind: str, options: dict[str, Any]) -> go.Figure:
    """Draw a figure of a case, or of all of them."""
    case = options.pop("case", None)
    if case is not None:
        _check("case", case, results.cases)
        return figure(results.cases[case], kind, options)
    if kind == SIDE_BY_SIDE:
        return side_by_side(_on_one_scale(results, {"y": first_column(results)} | options))
    errors = []
    for name, part in results.cases.items():
        try:
            return titled(figure(part, kind, options), plain(name, _LETTERS))
        except ScenarioError as error:
            errors.append(error)
    raise errors[0]


def _on_one_scale(results: Results, options: dict[str, Any]) -> dict[str, go.Figure]:
    """Draw each case, all of them on a log scale where that helps one."""
    drawn = {c: figure(part, SIDE_BY_SIDE, options) for c, part in results.cases.items()}
    scales = {one.layout.yaxis.type for one in drawn.values()}
    if len(scales) == 1 or "log" in options:
        return drawn
    return _on_one_scale(results, options | {"log": True})


def _of_run(kind: str, results: Results, options: Mapping[str, Any]) -> go.Figure:
    """Draw the first of the requested runs with data for the figure."""
    others = {key: value for key, value in options.items() if key not in ("name", "seed")}
    errors = []
    for run in _asked(results, options.get("name"), options.get("seed")):
        try:
            return _drawn(kinds()[kind], results, {"name": run.name, "seed": run.seed, **others})
        except ScenarioError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    raise ScenarioError("", f"no run has the data of '{kind}'; {errors[0]}") from errors[0]


def _asked(results: Results, name: str | None, seed: int | None) -> Iterator[RunRecord]:
    if name is not None:
        _check("algorithm", name, results.names)
    names = dict.fromkeys((*results.rivals, *results.names)) if name is None else (name,)
    runs = [run for each in names for run in results.of(each)]
    seeds = dict.fromkeys(str(run.seed) for run in runs)
    if seed is not None:
        _check("seed", str(seed), seeds)
    return (run for run in runs if seed in (None, run.seed))


def _drawn(draw: Draw, results: Results, options: Mapping[str, Any]) -> go.Figure:
    try:
        return draw(results, **options)
    except ValueError as error:
        raise ScenarioError("", str(error)) from error


def _check_columns(results: Results, kind: str, options: Mapping[str, Any]) -> None:
    frame = results.clients if kind == "fairness" else results.rounds
    known = [str(c) for c in frame.select_dtypes("number") if c not in _KEYS]
    if options.get("x") is not None:
        others = known if kind == "against" else []
        _check("x", options["x"], dict.fromkeys([*clocks(results), *others]))
    for option in ("y", "column"):
        if options.get(option) is not None:
            _check("column", options[option], known)


def _check(what: str, name: Any, known: Iterable[str]) -> None:
    names = list(known)
    if name not in names:
        raise ScenarioError("", unknown(what, str(name), names))
