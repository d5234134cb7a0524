"""Views: which panels of the page, over which runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs, urlencode, urlsplit

from markupsafe import Markup

from rayfed.core import notes
from rayfed.core.errors import ScenarioError, clipped, nearest
from rayfed.core.inside import NotRegular, opened
from rayfed.dashboard import processes
from rayfed.dashboard.cache import Cache
from rayfed.dashboard.catalogue import Catalogue, RunLine, Stamp, StudyLine, stamp_of
from rayfed.dashboard.configuration import find
from rayfed.dashboard.control import LOG as COMMANDS
from rayfed.measures.heterogeneity import Heterogeneity
from rayfed.measures.skew import Skew
from rayfed.report.best import Searched
from rayfed.report.html import environment
from rayfed.report.page.report import content, page_of
from rayfed.report.panels.base import Asked, PageSource, Panel, Section
from rayfed.report.panels.claims import CLAIMS
from rayfed.report.panels.timeline import events_of
from rayfed.report.read.curves import y_columns
from rayfed.report.read.differences import differing, own_facts, scenario_facts
from rayfed.report.read.differences import shown as text
from rayfed.report.read.folders import joined
from rayfed.report.read.results import Results, no_runs
from rayfed.report.read.run import RunRecord, record_of
from rayfed.report.writing import replace

if TYPE_CHECKING:
    import pandas as pd

VIEWS: Mapping[str, tuple[Section, ...]] = {
    "compare": (Section.ANSWER, Section.RESULTS, Section.SOURCE),
    "clients": (Section.CLIENTS, Section.FAIRNESS),
    "topology": (Section.WALK, Section.GRAPH),
    "heterogeneity": (Section.PERSONAL, Section.LEARNED),
    "sweep": (Section.SEARCH, Section.SETTINGS),
    "machine": (Section.MACHINE,),
    "settings": (Section.DIFFERENCES, Section.RUN),
}
"""The sections of the page that each view shows; those of users' panels are in the first."""
Found: TypeAlias = list[tuple[StudyLine, set[str]]]
"""Studies, each with the folders of its runs that are meant."""
LOG = "log"
"""A view without panels: what runs have said."""
_LOG_BYTES = 20_000
_SUMMARY = ("usage.parquet", "density.parquet")
_RUNS: Cache[RunRecord] = Cache(64e6, lambda run: 8.0 * run.length * len(run.recorded) + 50e3)
"""Runs by their folders; the bytes count the rounds, and other tables at their usual size."""
_RESULTS: Cache[Results] = Cache(4)
"""Results by the runs that were chosen, with all that views have made of them."""


@dataclass(frozen=True)
class Chosen:
    """The runs that a view is about.

    Parameters
    ----------
    studies : tuple of str
        Keys of whole studies.
    runs : tuple of str
        Keys of single runs.
    """

    studies: tuple[str, ...]
    runs: tuple[str, ...]

    @classmethod
    def of(cls, query: str) -> Chosen:
        """Return a choice from the query of an address."""
        held = parse_qs(query)
        studies, runs = (tuple(dict.fromkeys(held.get(key, ()))) for key in ("study", "run"))
        return cls(studies, runs)

    @property
    def query(self) -> str:
        """The query of an address that names them."""
        pairs = [("study", key) for key in self.studies] + [("run", key) for key in self.runs]
        return urlencode(pairs)

    def present(self, catalogue: Catalogue) -> tuple[Chosen, tuple[str, ...]]:
        """Return the existing ones, and a line for each other; if none exists, all and no line."""
        missing = self._missing(catalogue)
        studies, runs = (
            tuple(key for key in keys if key not in missing) for keys in (self.studies, self.runs)
        )
        if not studies and not runs:
            return self, ()
        return Chosen(studies, runs), tuple(map(str, missing.values()))

    def found(self, catalogue: Catalogue) -> Found:
        """Return the chosen items.

        Raises
        ------
        ScenarioError
            If there is no such study or run, or none is named.
        """
        for error in self._missing(catalogue).values():
            raise error
        meant = {key: set(catalogue.studies[key].by_folder) for key in self.studies}
        for key in self.runs:
            study, _, run = key.rpartition("/")
            meant.setdefault(study, set()).add(run)
        if not meant:
            raise ScenarioError("", "no run is chosen; tick some in the overview")
        return [(catalogue.studies[key], runs) for key, runs in meant.items()]

    def _missing(self, catalogue: Catalogue) -> dict[str, ScenarioError]:
        """Return what is wrong with each study and run that does not exist."""
        known = catalogue.studies
        lines = {key: (key, "is no study here") for key in self.studies if key not in known}
        for key in self.runs:
            study, _, run = key.rpartition("/")
            if study not in known:
                lines[key] = study, "is no study here"
            elif run not in known[study].by_folder:
                lines[key] = key, "is no run of this study"
        about = "it may have been moved or deleted"
        return {key: ScenarioError(at, f"{text}; {about}") for key, (at, text) in lines.items()}


def results_of(chosen: Found) -> Results:
    """Return the results of some runs; those of several studies as one.

    Raises
    ------
    ScenarioError
        If the folder of a study holds no run any more.
    """
    # Of a whole study new runs join the earlier ones, whose cases are used again.
    key = tuple(
        (study.folder, None if runs == study.by_folder.keys() else frozenset(runs))
        for study, runs in chosen
    )

    def read(earlier: Results | None) -> Results:
        found = _read(chosen)
        return found if earlier is None else found.reusing(earlier)

    return _RESULTS.get(key, stamps_of(chosen), read)


def stamps_of(chosen: Found) -> tuple[Any, ...]:
    """Return the stamps of the files that views of some runs are made from."""
    return tuple(
        (
            stamp_of(study.folder, ("scenario.yaml", notes.FILE, CLAIMS)),
            tuple(_stamps_of(study, run) for run in study.runs if run.folder in runs),
        )
        for study, runs in chosen
    )


def _stamps_of(study: StudyLine, run: RunLine) -> tuple[str, str, Stamp, Stamp]:
    files = run.info.get("files") or _SUMMARY
    return run.folder, run.status, run.stamp, stamp_of(study.folder / run.folder, files)


def _read(chosen: Found) -> Results:
    parts = []
    for study, runs in chosen:
        lines = {study.folder / run.folder: run for run in study.runs if run.folder in runs}

        def record(
            path: Path,
            info: dict[str, Any],
            name: str,
            study: StudyLine = study,
            lines: dict[Path, RunLine] = lines,
        ) -> RunRecord:
            stamps = _stamps_of(study, lines[path])
            return _RUNS.get(path, stamps, lambda _: RunRecord.read(path, info, "")).renamed(name)

        # Reading one that cannot be read raises the reason.
        infos = {
            path: record_of(path) if run.status == "unreadable" else run.info
            for path, run in lines.items()
        }
        if not infos:
            raise no_runs(study.folder)
        results = Results.of_runs(study.folder, infos, record)
        searched = Searched.of(results) if len(chosen) > 1 else None
        parts.append(results if searched is None else searched.winners)
    return parts[0] if len(parts) == 1 else joined(parts)


def asked(query: str) -> Asked:
    """Return the parts of a view that a reader has open from the query of an address."""
    held = parse_qs(query)
    column, case = (held.get(key, [""])[-1] for key in ("y", "case"))
    return Asked(column, case, frozenset(held.get("open", ())))


def shown(
    view: str, results: Results, kinds: Sequence[type[Panel]], chosen: Found, opened: Asked
) -> dict[str, Any]:
    """Return the content of a view of results, for its template.

    Parameters
    ----------
    view : str
        One of `VIEWS`.
    results : Results
        Those of `chosen`.
    kinds : sequence of type
        The panels that there are.
    chosen : list of pairs
        What `Chosen.found` returns.
    opened : Asked
        The parts that are made.
    """
    source = PageSource.of(results, asked=opened)
    made = content(source, panels_of(view, kinds))
    made["sections"] += tables_of(view, results, chosen)
    keys = {study.folder / run: f"{study.key}/{run}" for study, runs in chosen for run in runs}
    listed = made["payload"]["runs"]
    described = zip(listed, source.runs if listed else (), strict=True)
    runs = [about | {"key": keys[run.folder]} for about, run in described]
    parts = {"columns": source.drawn, "case": made["payload"]["view"]["case"]}
    return made | {"payload": made["payload"] | {"live": True, "made": parts, "runs": runs}}


def client_of(chosen: Found, client: int) -> dict[str, Any]:
    """Return the activity of a client in the first of the chosen runs, from all of its events."""
    return events_of(results_of(chosen).runs_found[0], client)


def tables_of(view: str, results: Results, chosen: Found) -> list[tuple[str, list[Markup]]]:
    """Return the section with a view's own table, if it has one; the rest is as for `shown`."""
    active = [study.folder for study, _ in chosen if study.running]
    rows: list[list[str]] = []
    if view == "settings":
        title = "What differs between the algorithms"
        heads, rows = differing_settings(results)
    elif view == "machine" and active:
        heads = [*processes.HEADS]
        title, rows = processes.table_of(active)
    if not rows:
        return []
    macros: Any = environment().get_template("macros.html").module
    return [("", [Markup("<h2>{}</h2>\n{}").format(title, macros.table(heads, rows, view))])]


def over_rounds(view: str, results: Results) -> list[tuple[str, str]]:
    """Return columns of rounds that belong to a view, with their titles; Compare draws them."""
    if view != "heterogeneity":
        return []
    columns = {column.name for kind in (Heterogeneity, Skew) for column in kind.columns}
    return [
        (name, results.column(name).title)
        for name in y_columns(results)
        if name in columns or "staleness" in name
    ]


def saved(view: str, chosen: Found, kinds: Sequence[type[Panel]], opening: str) -> str:
    """Return a view as a page in one file.

    Parameters
    ----------
    view, chosen, kinds
        As for `shown`.
    opening : str
        The reader's choices, as in the address after the #.
    """
    results = results_of(chosen)
    tables = tables_of(view, results, chosen)
    return page_of(PageSource.of(results), panels_of(view, kinds), opening=opening, more=tables)


def save(address: str, folder: Path, out: Path, own: Sequence[str | type[Panel]] = ()) -> Path:
    """Write the view of an address as a page in one file; no server is asked.

    Parameters
    ----------
    address : str
        Of a dashboard over `folder`.
    folder, out : Path
        A folder with results below it, and the page.
    own : sequence of str or type
        Panels of the user's, added to those of the `configuration`.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ScenarioError
        If the address is that of no view, or names no run here.
    RayfedError
        If the page cannot be written.
    """
    parts = urlsplit(address)
    view = parts.path.strip("/")
    if view not in VIEWS:
        text = f"is no address of a view to save; {nearest(view, VIEWS)}"
        raise ScenarioError(clipped(address, 120), text)
    catalogue = Catalogue([folder])
    catalogue.look()
    found = Chosen.of(parts.query).found(catalogue)
    replace(out, saved(view, found, find(own), parts.fragment))
    return out


def frame_of(view: str, results: Results) -> pd.DataFrame:
    """Return the rows that a view draws: of clients, or of rounds."""
    return results.clients if view == "clients" else results.rounds


def panels_of(view: str, kinds: Sequence[type[Panel]]) -> list[type[Panel]]:
    """Return the panels of a view; those in sections of the user's are in the first."""
    own = {each for sections in VIEWS.values() for each in sections}
    sections = VIEWS[view]
    first = view == next(iter(VIEWS))
    return [
        kind for kind in kinds if kind.section in sections or (first and kind.section not in own)
    ]


def differing_settings(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the rows of a table of differing settings."""
    facts = {
        name: scenario_facts(info) | own_facts(info)
        for name in results.names
        for info in [results.of(name)[0].info]
    }
    keys = differing(list(facts.values()))
    rows = [[key, *(text(found.get(key, "-")) for found in facts.values())] for key in keys]
    return ["setting", *facts], rows


def logs_of(chosen: Found) -> list[tuple[str, str]]:
    """Return the name and the end of the logs of studies and runs that have one.

    A study has one of the commands that the browser has started.
    """
    found = []
    for study, runs in chosen:
        files = {study.key: study.folder / COMMANDS}
        files |= {f"{study.key}/{run}": study.folder / run / "log.txt" for run in sorted(runs)}
        found += [(name, tail) for name, path in files.items() if (tail := _end(path))]
    return found


def _end(path: Path) -> str:
    try:
        with opened(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return str(file.read(_LOG_BYTES), "utf-8", errors="replace")
    except NotRegular as error:
        return str(error.strerror)
    except OSError:
        return ""
