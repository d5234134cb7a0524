"""Panels of the page: their contract, and the search that finds all of them."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial, reduce
from itertools import islice
from operator import or_
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go
from markupsafe import Markup

from rayfed.core import plugins
from rayfed.core.errors import ScenarioError, clipped
from rayfed.report.best import Searched
from rayfed.report.figures import charts
from rayfed.report.figures.labels import plain
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.palette import LineStyle
from rayfed.report.figures.style import algorithm_styles
from rayfed.report.html import keep_units, panel_template
from rayfed.report.panels.answers import headline
from rayfed.report.panels.phrases import named
from rayfed.report.ranking import unfinished
from rayfed.report.read.curves import (
    History,
    default_target,
    first_column,
    leaders,
    thin,
    y_columns,
)
from rayfed.report.read.personal import without_global
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.units import short_number
from rayfed.report.tables import outcomes

Draw = Callable[..., go.Figure]
_NAME = re.compile(r"[a-z][a-z0-9-]*")
MOST_RUNS = 24  # runs whose clients are shown one by one
MOST_CASES = 6  # cases that are drawn, and whose rows are listed, at once


@dataclass(frozen=True)
class Asked:
    """The parts of a page that a reader has open, of which a server makes no others.

    Parameters
    ----------
    column : str
        The column of the rounds that is drawn; empty for the first one.
    case : str
        The case of figures by case; empty for the first one.
    opened : frozenset of str
        The opened folds: sections, and `convergence.FOLD`.
    """

    column: str = ""
    case: str = ""
    opened: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PageSource:
    """Common data of all panels of a page.

    Parameters
    ----------
    results : Results
        A result folder; of a search the best trial of each algorithm.
    column : str, optional
        The column of the rounds that is drawn first. If None: `curves.first_column`.
    goal : float, optional
        Its value to be reached. If None: `curves.default_target`.
    searched : Searched, optional
        All trials of a search.
    whole : PageSource, optional
        What the page is made from, if these are the results of a case.
    asked : Asked, optional
        The parts that are made, if a server makes others on request; None for a page with all.
    """

    results: Results
    column: str | None = None
    goal: float | None = None
    searched: Searched | None = None
    whole: PageSource | None = None
    asked: Asked | None = None

    @classmethod
    def of(
        cls,
        results: Results,
        column: str | None = None,
        goal: float | None = None,
        asked: Asked | None = None,
    ) -> PageSource:
        """Return the panel data of a result folder."""
        searched = Searched.of(results)
        shown = results if searched is None else searched.winners
        return cls(shown, column, goal, searched, asked=asked)

    @cached_property
    def cases(self) -> dict[str, PageSource]:
        """The values of each case of a study with cases, see `Results.cases`."""
        of: dict[str, Any] = {"column": self.y, "goal": self.goal, "asked": self.asked}
        parts = self.results.cases.items()
        return {case: PageSource(part, whole=self, **of) for case, part in parts}

    @property
    def case(self) -> str:
        """The case that figures by case show first; empty where there are no cases."""
        wanted = self.asked.case if self.asked is not None else ""
        return wanted if wanted in self.cases else next(iter(self.cases), "")

    @property
    def parts(self) -> tuple[PageSource, ...]:
        """The compared parts: each of the cases, or the whole study."""
        return tuple(self.cases.values()) or (self,)

    @cached_property
    def y(self) -> str:
        """The column of the rounds that is drawn first."""
        return first_column(self.results) if self.column is None else self.column

    @cached_property
    def columns(self) -> list[str]:
        """The columns of the rounds that can be drawn, the one that is first first."""
        return list(dict.fromkeys([self.y, *y_columns(self.results)]))

    @property
    def drawn(self) -> list[str]:
        """Those of the `columns` that are made for the reader: all unless others can be `asked`."""
        wanted = (self.y, self.asked and self.asked.column)
        return self.columns if self.asked is None else [c for c in self.columns if c in wanted]

    @cached_property
    def target(self) -> float | None:
        """The value of `y` to be reached; None where no algorithm improved."""
        return default_target(self.results, self.y) if self.goal is None else self.goal

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A row for each algorithm, see `tables.outcomes`."""
        key = ("outcomes", self.y, self.goal)
        return self.results.cached(key, partial(outcomes, self.results, self.y, self.goal))

    @cached_property
    def answer(self) -> str:
        """The headline, see `answers.headline`."""
        key = ("answer", self.y, self.goal)
        return self.results.cached(key, partial(headline, self.results, self.summary))

    @cached_property
    def styles(self) -> dict[str, LineStyle]:
        """Style of each algorithm, the same in every figure and table.

        Where there are cases, names in a case come after those of all runs.
        """
        if self.whole is not None:
            return self.whole.styles
        inside = [algorithm_styles(part) for part in self.results.cases.values()]
        return reduce(or_, [*inside[::-1], algorithm_styles(self.results)])

    @cached_property
    def seeds(self) -> int:
        """The largest number of seeds that a mean is taken over."""
        return max(len(self.results.usable(name)) for name in self.results.names)

    @cached_property
    def runs_with_events(self) -> list[RunRecord]:
        """The runs with recorded client activity."""
        runs = self.results.runs_found
        return [run for run in runs if run.asked and run.length > 1]

    @cached_property
    def runs(self) -> list[RunRecord]:
        """The runs of the client figures: of `runs_with_events` the first seeds of each name.

        Of more names than `MOST_RUNS` these are so many, the best settings first.
        """
        recorded = self.runs_with_events
        known = dict.fromkeys(run.name for run in recorded)
        best = [name for name in self.leading.names if name in known]
        names = list(dict.fromkeys([*best, *known]))[:MOST_RUNS]
        recorded = [run for run in recorded if run.name in names]
        seeds = max(1, MOST_RUNS // max(1, len(names)))
        first = {name: [run for run in recorded if run.name == name][:seeds] for name in names}
        return [run for run in recorded if run in first[run.name]]

    @cached_property
    def leading(self) -> Results:
        """The results without all settings but the best of each algorithm, if many were swept."""
        names = leaders(self.results, self.y)
        runs = tuple(run for run in self.results.runs_found if run.name in names)
        if len(runs) == len(self.results.runs_found):  # what they have cached serves both
            return self.results
        return replace(self.results, runs_found=runs)

    @cached_property
    def first_run(self) -> int:
        """The place in `runs` of the run that is shown first: the first of a rival.

        Of swept settings it is that of the best.
        """
        rivals = self.leading.rivals
        return next((k for k, run in enumerate(self.runs) if run.name in rivals), 0)

    def key(self, names: Collection[str] | None = None) -> Iterator[tuple[int, LineStyle, str]]:
        """Yield the place of the colour, the style and the text of each entry of a key.

        An entry is an algorithm, where many settings were swept with all its settings.
        """
        families, named = self.results.families, set()
        wanted = self.results.names if names is None else names
        for place, (name, style) in enumerate(self.styles.items()):
            text = families.get(name, name)
            if name in wanted and text not in named:
                named.add(text)
                yield place, style, text

    def lines(
        self, series: Iterable[str], names: Iterable[str]
    ) -> list[tuple[int, LineStyle, str]]:
        """Return a key of lines, each drawn as one of its points is; empty where there is one."""
        pairs = [*zip(series, names, strict=True)]
        key = [(self.colour_place(name), self.styles[name], text) for text, name in pairs]
        return key if len(key) > 1 else []

    @cached_property
    def about(self) -> list[dict[str, Any]]:
        """Properties of each algorithm for scripts: style, and whether it is ranked."""
        results, own = self.results, without_global(self.results)
        return [
            {
                "name": name,
                "short": plain(name),
                "family": results.families.get(name, name),
                "light": self.styles[name].light,
                "dash": self.styles[name].dash,
                "baseline": name in results.baselines,
                "rival": name in results.rivals,
                "failed": name in results.failed,
                "own": name in own,
                "unfinished": unfinished(results, name),
            }
            for name in results.names
        ]

    @cached_property
    def baselines(self) -> frozenset[str]:
        """The names of baselines, those in cases included."""
        return frozenset(n for part in (self, *self.parts) for n in part.results.baselines)

    def colour_place(self, name: str) -> int:
        """Return which of the style variables ``--a0``, ``--a1``, ... has an algorithm's colour."""
        return list(self.styles).index(name)


class Section(StrEnum):
    """The sections of the page in its order, each a question of the reader.

    The first two have no heading: the answer stands on top, each of the results by itself.
    """

    ANSWER = "The answer"
    RESULTS = "The results"
    SEARCH = "What did the search find?"
    SETTINGS = "What do the settings do?"
    SOURCE = "Is it what the source says?"
    CLIENTS = "What did the clients do?"
    WALK = "Where did the server walk?"
    GRAPH = "What did the nodes learn from each other?"
    PERSONAL = "What do models of their own give the clients?"
    FAIRNESS = "Who was left behind?"
    LEARNED = "What was learned?"
    MACHINE = "Where did the machine's time go?"
    DIFFERENCES = "What differs?"
    RUN = "What exactly was run?"


class Panel:
    """A topic of the page.

    A subclass with a ``name`` of its own is on the page wherever it `applies`. Most panels are a
    `FigurePanel` or a `RunPanel`; another one makes its HTML in `render`. By default that is the
    template ``templates/panels/<name>.html``, or ``templates/figure.html`` if there is none, which
    reads the panel as ``panel``. A script ``assets/panels/<name>.js`` gets `payload`; without one
    the page draws the payload's ``figure``, or that of the chosen one of its ``runs``, or of the
    column that is shown if this is among its ``columns``.

    Parameters
    ----------
    source : PageSource
        What the page is made from.

    Attributes
    ----------
    name : str
        Identifies it: the anchor, the ids of its elements, the payload, the template, the script.
        Small letters, digits and hyphens.
    section : str
        One of `Section`, or a heading of your own, whose section stands before `Section.RUN`.
    rank : float
        Panels of a section stand in this order.
    best_only : bool
        Whether it compares algorithms by the best of many swept settings alone.
    draws : tuple of functions
        What draws its figures from results, which `Result.figure` knows by their names.
    brief : str
        A sentence that stands for the panel until the reader opens it; empty if it is open.
    """

    name: ClassVar[str]
    section: ClassVar[str] = Section.RESULTS
    rank: ClassVar[float] = 1000.0
    best_only: ClassVar[bool] = False
    draws: ClassVar[tuple[Draw, ...]] = ()

    def __init__(self, source: PageSource) -> None:
        self.source = source

    @property
    def results(self) -> Results:
        """The result folder, or the best settings in it."""
        return self.source.leading if self.best_only else self.source.results

    @property
    def applies(self) -> bool:
        """Whether the results hold anything to show here."""
        return True

    @cached_property
    def payload(self) -> Any:
        """Data of the script as JSON values; None if there are none."""
        return None

    @property
    def brief(self) -> str:
        """The sentence of a panel that has nothing to see; empty if it has."""
        return ""

    def render(self) -> str:
        """Return its HTML as `markupsafe.Markup`; another text is escaped."""
        return self._rendered(panel=self, source=self.source, cases=())

    def _rendered(self, **values: Any) -> Markup:
        """Return the HTML of its template, behind its `brief` sentence if it has one."""
        html = Markup(panel_template(self.name).render(values))
        if brief := self.brief:
            html = Markup("<details><summary>{}</summary>\n{}\n</details>").format(brief, html)
        return html


def _unwritten(*_: Any) -> Any:
    raise NotImplementedError("write its figure()")


class TemplatedFigure(Panel):
    """Data of a panel for ``templates/figure.html``; see its two kinds below.

    A sentence in ``layout.meta["note"]`` of a figure stands under it.

    Attributes
    ----------
    heading : str
        A noun phrase above the figure; a panel may write its `title` instead.
    keyed : bool
        Whether the key of the algorithms that it draws stands above it, which hides and shows their
        lines. Its traces then have the algorithm's name in ``meta["name"]``. Names at the ends of
        lines stand for the key where there is room.
    clickable : bool
        Whether a click shows the history of a client, the first value of a point's ``customdata``.
    """

    heading: ClassVar[str] = ""
    draws: ClassVar[tuple[Draw, ...]] = (_unwritten,)
    keyed: ClassVar[bool] = False
    clickable: ClassVar[bool] = False

    @property
    def how(self) -> str:
        """Caption of the figure where no template has it."""
        return ""


class FigurePanel(TemplatedFigure):
    """One figure of the whole study: a `heading` and a `figure`.

    Attributes
    ----------
    by_case : bool
        Whether a study with cases has one for each of them, of which the reader chooses.
    of_column : bool
        Whether `draws` takes the column that is drawn first, besides the results.
    """

    by_case: ClassVar[bool] = True
    of_column: ClassVar[bool] = False

    @property
    def applies(self) -> bool:
        """Whether the results have the data of the figure."""
        with suppress(NothingToDraw):
            return bool(self.payload)
        return False

    def title(self) -> str:
        """Return the title; by default the `heading`."""
        return self.heading

    def figure(self) -> go.Figure:
        """Return the figure; raise `NothingToDraw` where the results do not have it."""
        return self.draws[0](*self.subject)

    @cached_property
    def chart(self) -> go.Figure:
        """The `figure`, drawn once."""
        return self.figure()

    @cached_property
    def alike(self) -> list[list[str]]:
        """The algorithms of the figure, in groups that it draws alike; see `charts.alike`."""
        return charts.alike(self.chart)

    @property
    def brief(self) -> str:
        """The sentence of a figure that draws all algorithms alike.

        Empty where the reader may choose another column, and where there are several cases, which
        may differ although their algorithms do not.
        """
        if self.of_column or ("" not in self.parts and len(self.source.cases) > 1):
            return ""
        ((found, *others),) = [part.shown["alike"] or [[]] for part in self.parts.values()]
        if others or len(found) < 2:
            return ""
        return f"{self.title()}: no visible difference between {named(found)}."

    @property
    def subject(self) -> tuple[Any, ...]:
        """The arguments of the figure."""
        return (self.results, self.source.y) if self.of_column else (self.results,)

    @cached_property
    def parts(self) -> dict[str, FigurePanel]:
        """The panel of each case that it applies to; itself where there are no cases.

        Where others are made on request it is that of the chosen case, or of the first other one.
        """
        cases = self.source.cases if self.by_case else {}
        made = [(case, type(self)(source)) for case, source in cases.items()]
        if self.source.asked is not None:
            made.sort(key=lambda one: one[0] != self.source.case)
        found = ((case, part) for case, part in made if part.applies)
        return dict(found if self.source.asked is None else islice(found, 1)) or {"": self}

    @cached_property
    def content(self) -> dict[str, Any]:
        """The title and the figure, of one case or where there are none."""
        figure = figure_json(self.chart)  # first: it knows whether there is anything to show
        hidden = [f"{named(group)} coincide." for group in self.alike if len(group) > 1]
        about = figure["layout"].get("meta") or {}
        if hidden and "rows" not in about:  # lines hide each other, rows of bars do not
            note = " ".join([about.get("note", ""), *hidden]).strip()
            figure["layout"]["meta"] = about | {"note": note}
        about = {"title": keep_units(self.title()), "keyed": self.keyed, "alike": self.alike}
        return about | {"figure": figure}

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The `content`, or that of each case, None where it does not apply.

        That of a case is cached with its results, which the dashboard uses again until they change.
        """
        if self.source.whole is not None:
            source = self.source
            key = (type(self), source.y, source.goal, *source.styles, *source.drawn)
            return self.source.results.cached(key, lambda: self.content)
        if "" in self.parts:
            return self.content
        shown = {case: part.payload for case, part in self.parts.items()}
        return {"cases": [shown.get(case) for case in self.source.cases], "keyed": self.keyed}

    @property
    def shown(self) -> dict[str, Any]:
        """The title and the figure, of one case or where there are none."""
        return self.payload

    @property
    def names(self) -> Collection[str]:
        """The algorithms that the figure draws."""
        about = (trace.get("meta") or {} for trace in self.shown["figure"]["data"])
        return {meta["name"] for meta in about if "name" in meta}

    def render(self) -> str:
        """Return the HTML, of the first case with a choice of the others."""
        first = next(iter(self.parts.values()))
        cases = [] if "" in self.parts else [*self.source.cases]
        return self._rendered(panel=first, source=first.source, cases=cases)


class RunPanel(TemplatedFigure):
    """A figure for each run, of which the reader chooses one: a `heading`, and a `figure`."""

    def title(self, run: RunRecord) -> str:
        """Return the title of a run's figure; by default the `heading`."""
        return self.heading

    def figure(self, run: RunRecord) -> go.Figure:
        """Return the figure of a run; raise `NothingToDraw` if its data are missing."""
        return self.draws[0](self.results, run.name, run.seed)

    @property
    def applies(self) -> bool:
        """Whether any run has the data of the figure."""
        return any(run["figure"] for run in self.payload["runs"])

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The title and the figure of each of `PageSource.runs`."""
        runs = [self._of(run) for run in self.source.runs]
        return {"runs": runs, "clickable": self.clickable}

    def _of(self, run: RunRecord) -> dict[str, Any]:
        """Return the title and the figure of a run, or a note on missing data."""
        try:
            figure = figure_json(self.figure(run))
        except NothingToDraw as error:
            text = str(error)
            return {"title": text[:1].upper() + text[1:], "figure": None}
        return {"title": keep_units(self.title(run)), "figure": figure}

    @property
    def shown(self) -> dict[str, Any]:
        """The title of the run that is shown first, and a figure as high as its figure is."""
        runs = self.payload["runs"]
        first = runs[self.source.first_run]
        figures = [run["figure"] for run in (first, *runs)]
        return {"title": first["title"], "figure": next(figure for figure in figures if figure)}


class Unique:
    """Values of which equal ones are kept once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        """Return the place of an equal value; append the value if there is none."""
        key = json.dumps(value)
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(value)
        return self._places[key]


def find(own: Sequence[str | type[Panel]] = ()) -> tuple[type[Panel], ...]:
    """Return every panel that comes with rayfed, and the user's, in the order of the page.

    Parameters
    ----------
    own : sequence of str or type
        Classes of the user's, or their names as ``module:Class``.

    Raises
    ------
    ScenarioError
        If there is no such class, it is no panel, or its name is missing or taken.

    Examples
    --------
    >>> [panel.name for panel in find()][:3]
    ['headline', 'cases', 'convergence']
    """
    panels = dict(plugins.find("panels"))
    for given in own:
        panel = _own(given)
        if panels.setdefault(panel.name, panel) is not panel:
            text = f"there is a panel '{panel.name}' already; give it another name"
            raise ScenarioError(plugins.name_of(panel), text)
    return tuple(sorted(panels.values(), key=_place))


def _own(given: str | type[Panel]) -> type[Panel]:
    """Return a panel of the user's."""
    if isinstance(given, str) and ":" not in given:
        text = "is no class of yours; write module:Class, such as mine:Panel of mine.py"
        raise ScenarioError(clipped(given, 60), text)
    panel = plugins.resolve("panels", given) if isinstance(given, str) else given
    name = getattr(panel, "name", "")
    if not (isinstance(panel, type) and issubclass(panel, Panel) and _NAME.fullmatch(str(name))):
        text = "is no panel with a name of small letters, digits and hyphens"
        raise ScenarioError(clipped(given, 60), text)
    return panel


def _place(panel: type[Panel]) -> tuple[float, str, float, str]:
    """Return the sort key of panels: unknown sections stand before the last one."""
    known = list(Section)
    at = known.index(Section(panel.section)) if panel.section in known else len(known) - 1.5
    return at, panel.section, panel.rank, panel.name


def short(values: npt.ArrayLike, digits: int = 7) -> list[float | None]:
    """Return numbers with so many digits, None where they are not finite."""
    return [short_number(value, digits) for value in np.asarray(values, np.float64).tolist()]


def short_columns(
    frame: History, columns: Iterable[str], most: int
) -> dict[str, list[float | None]]:
    """Return columns of a history as short lists; of many rows evaluated ones are kept first."""
    rows = np.arange(len(frame["round"]))
    if len(rows) > most and "loss" in frame and (known := np.isfinite(frame["loss"])).any():
        rows = rows[known]
    rows = thin(rows, most)
    return {column: short(frame[column][rows]) for column in columns if column in frame}


def figure_json(figure: go.Figure) -> dict[str, Any]:
    """Return a Plotly figure as plain values; Plotly packs its arrays, here in single precision."""
    values: dict[str, Any] = json.loads(figure.to_json(), object_hook=_single)
    values["layout"].pop("template", None)
    return values


def _single(values: dict[str, Any]) -> dict[str, Any]:
    """Return a packed array in single precision if that has all integers of its range."""
    if values.get("dtype") != "f8":
        return values
    numbers = np.frombuffer(b64decode(values["bdata"]))
    if np.max(np.abs(numbers), initial=0.0, where=np.isfinite(numbers)) > 2**24:
        return values
    return values | {"dtype": "f4", "bdata": b64encode(numbers.astype("f4").tobytes()).decode()}
