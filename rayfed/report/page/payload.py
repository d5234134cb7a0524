"""What the page's script needs: figures, series of all runs, and what single clients did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from rayfed.report.figures import (
    convergence,
    fairness,
    fit,
    participation,
    participation_over_rounds,
    personal_over_rounds,
    timeline,
)
from rayfed.report.figures import mixing as mixing_figure
from rayfed.report.figures import personal as own_models
from rayfed.report.figures.apart import apart_of
from rayfed.report.figures.convergence import page_data
from rayfed.report.figures.labels import DIRECT, plain
from rayfed.report.figures.palette import to_dark
from rayfed.report.figures.people import people
from rayfed.report.figures.personal import MOST_ROWS, SINGLE
from rayfed.report.figures.style import study_inks
from rayfed.report.figures.sweep import sweep_figures
from rayfed.report.figures.walk import base, eigenvalues, steps_of, visits
from rayfed.report.page import words
from rayfed.report.page.markup import unbroken
from rayfed.report.panels import mixing_section, personal_words
from rayfed.report.read import mixing, personal, sweeps
from rayfed.report.read.results import Results, Run
from rayfed.report.read.series import default_target, y_columns
from rayfed.report.read.units import short_number

MOST_RUNS = 24  # runs whose clients are shown one by one
MOST_BARS = 15_000  # bars of all timelines together
MOST_EVENTS = 120_000  # events of all runs together that a client's history is told from
MOST_WALKS = 400_000  # numbers of all walks together
MOST_APART = 150_000  # distances of clients' own models of all walks together
MOST_CELLS = 60_000  # of the maps of own models over rounds of all runs together
MOST_CLIENTS = 20_000  # clients of all runs together with their facts


def payload(results: Results, y: str) -> dict[str, Any]:
    """Return the page's data as values that JSON can hold.

    Parameters
    ----------
    results : Results
        A result folder.
    y : str
        The column that is drawn first.
    """
    look = study_inks(results)
    runs = shown_runs(results)
    own = own_of_clients(results)
    walked, shared = walks(results)
    return {
        "file": "".join(c if c.isalnum() or c in "-_" else "-" for c in results.study),
        "direct": DIRECT,
        "dark": to_dark(look),
        "names": [
            {
                "name": name,
                "short": plain(name),
                "light": ink.light,
                "baseline": name in results.baselines,
                "rival": name in results.rivals,
                "failed": name in results.failed,
            }
            for name, ink in look.items()
        ],
        "view": {
            "x": "round",
            "y": y,
            "log": None,
            "target": default_target(results, y),
            "run": next((i for i, run in enumerate(runs) if run.name in results.rivals), 0),
            "own": next((i for i, one in enumerate(own) if one["name"] in results.rivals), 0),
        },
        "figures": {
            "convergence": figure_json(convergence(results, y=y)),
            "fairness": figure_json(fairness(results)) if has_client_values(results) else None,
        },
        "convergence": page_data(results) if y_columns(results) else None,
        "sweep": _sweep(results, y),
        "mixing": _mixing(results),
        "runs": [_run(results, run, len(runs)) for run in runs],
        "runs_having": len(having_events(results)),
        "walks": walked,
        "walked": shared,
        "own": own,
    }


def figure_json(figure: Any) -> dict[str, Any]:
    """Return a Plotly figure as plain values; Plotly packs its arrays."""
    found: dict[str, Any] = json.loads(figure.to_json())
    found["layout"].pop("template", None)
    return found


def _sweep(results: Results, y: str) -> dict[str, Any] | None:
    """Return title and figures of a sweep for every column; None where nothing was swept."""
    found = sweeps.find(results)
    if found is None:
        return None
    return {
        column: {
            "title": unbroken(words.sweep_title(results, found, column)),
            "figures": [figure_json(figure) for figure in sweep_figures(results, found, column)],
        }
        for column in dict.fromkeys([y, *y_columns(results)])
    }


def _mixing(results: Results) -> dict[str, Any] | None:
    """Return title and figure of what mixing costs; None where nothing tells.

    With them come the algorithms with the points that colour them, and whether points missed the
    goal.
    """
    found = mixing.find(results)
    if found is None:
        return None
    firsts = found.points.drop_duplicates("series")
    return {
        "title": unbroken(mixing_section.title(found)),
        "figure": figure_json(mixing_figure(results, found.column.name)),
        "firsts": list(zip(firsts["series"], firsts["name"], strict=True)),
        "missed": not bool(found.points["reached"].all()),
    }


def has_client_values(results: Results) -> bool:
    """Return whether there is anything to draw per client."""
    clients = results.clients
    return any(c in clients and clients[c].notna().any() for c in ("accuracy", "loss"))


def having_events(results: Results) -> list[Run]:
    """Return the runs of whose clients anything is known."""
    return [run for run in results.runs_found if len(run.events) and len(run.rounds) > 1]


def shown_runs(results: Results) -> list[Run]:
    """Return the runs whose clients are shown: those with events, the first seeds of each name."""
    having = having_events(results)
    names = {run.name for run in having}
    each = max(1, MOST_RUNS // max(1, len(names)))
    first = {name: [run for run in having if run.name == name][:each] for name in names}
    return [run for run in having if run in first[run.name]]


def _run(results: Results, run: Run, runs: int) -> dict[str, Any]:
    bars = int(np.clip(MOST_BARS // runs, 200, 1500))
    return {
        "name": run.name,
        "seed": run.seed,
        "titles": {
            "timeline": unbroken(words.timeline_title(run)),
            "participation": unbroken(words.participation_title(run)),
            "rounds": unbroken(words.rounds_title(run)),
            "fit": unbroken(words.fit_title(run)),
        },
        "timeline": figure_json(timeline(results, run.name, run.seed, bars)),
        "participation": figure_json(participation(results, run.name, run.seed)),
        "rounds": figure_json(participation_over_rounds(results, run.name, run.seed)),
        "fit": figure_json(fit(results, run.name, run.seed)) if run.fit else None,
        "events": _events(run.events, MOST_EVENTS // runs),
        "clients": _clients(people(run), MOST_CLIENTS // runs),
    }


class Pool:
    """Values that several have in common, each held once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        """Return where an equal value is held; put it there if there is none."""
        key = json.dumps(value)
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(value)
        return self._places[key]


def walks(results: Results) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """Return the walks of those shown runs whose servers walked.

    Returns
    -------
    list of dict
        A walk each; its ``way`` is a place among those of all.
    dict of list
        What walks have in common, once: ``ways``, of which each step says as places which
        ``links`` there are (a flat list of pairs) and at which ``spots`` (x and y) clients are.
    """
    runs = [run for run in shown_runs(results) if run.walk is not None]
    look = study_inks(results)
    pools = {"ways": Pool(), "links": Pool(), "spots": Pool()}
    found = []
    for run in runs:
        assert run.walk is not None
        steps = steps_of(run, MOST_WALKS // len(runs))
        apart = apart_of(run, steps, MOST_APART // len(runs))
        shown = visits(results, run.name, run.seed)
        found.append(
            {
                "name": run.name,
                "seed": run.seed,
                "place": list(look).index(run.name),
                "titles": {
                    "walk": unbroken(words.walk_title(run)),
                    "visits": unbroken(words.visits_title(run)),
                    "eigenvalues": unbroken(words.eigenvalues_title(run)),
                },
                "notes": {
                    "walk": words.walk_note(run, len(steps["round"])),
                    "visits": shown.layout.meta["note"],
                },
                "way": _way(steps, pools),
                "apart": apart,
                "walk": figure_json(base(run, look[run.name], steps, apart)),
                "visits": figure_json(shown),
                "eigenvalues": figure_json(eigenvalues(results, run.name, run.seed))
                if run.walk.changes
                else None,
            }
        )
    return found, {name: pool.values for name, pool in pools.items()}


def _way(steps: Mapping[str, Any], pools: Mapping[str, Pool]) -> int:
    """Return the place of a way, whose steps name their links and spots by place too."""
    links = [pools["links"].place(ends) for ends in steps["links"]]
    spots = [pools["spots"].place(list(xy)) for xy in zip(steps["x"], steps["y"], strict=True)]
    way = {name: value for name, value in steps.items() if name not in ("x", "y", "graph")}
    way["links"] = [links[g] for g in steps["graph"]]
    way["spots"] = [spots[min(g, len(spots) - 1)] for g in steps["graph"]]
    return pools["ways"].place(way)


def own_of_clients(results: Results) -> list[dict[str, Any]]:
    """Return what clients' own models are worth in those shown runs that have any.

    Where a run failed they are nothing to compare.
    """
    having = [run for run in shown_runs(results) if len(run.personal) and run.status != "failed"]
    runs = [run for run in having if len(personal.ends(run))]
    look = study_inks(results)
    found = []
    for run in runs:
        columns = int(np.clip(MOST_CELLS // (len(runs) * MOST_ROWS), 10, 100))
        found.append(
            {
                "name": run.name,
                "seed": run.seed,
                "place": list(look).index(run.name),
                "titles": {
                    "own": unbroken(personal_words.title(run)),
                    "own-rounds": unbroken(personal_words.rounds_title(run)),
                },
                "how": personal_words.how(run),
                "note": personal_words.note(run),
                "dots": len(personal.ends(run)) <= SINGLE,
                "shared": personal.distances(run) is not None,
                "own": figure_json(own_models(results, run.name, run.seed)),
                "own-rounds": figure_json(
                    personal_over_rounds(results, run.name, run.seed, columns)
                ),
            }
        )
    return found


def _events(events: pd.DataFrame, most: int) -> dict[str, Any]:
    kept = events.iloc[:most]
    return {
        "round": kept["round"].tolist(),
        "client": kept["client"].tolist(),
        "status": kept["status"].astype(str).tolist(),
        "until": None if len(kept) == len(events) else int(kept["round"].iloc[-1]),
    }


def _clients(clients: pd.DataFrame, most: int) -> dict[str, list[Any]]:
    step = np.unique(np.linspace(0, len(clients) - 1, min(most, len(clients))).astype(int))
    kept = clients.iloc[step]
    columns = {str(name): [short_number(v) for v in kept[name]] for name in kept.columns}
    return {"client": kept.index.tolist()} | columns
