"""Where the servers walked: the walk step by step, visits against the long run, and mixing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rayfed.report.figures.distances import model_distances
from rayfed.report.figures.walk import TRAIL, eigenvalues, visits, walk_canvas, walk_steps
from rayfed.report.html import keep_units
from rayfed.report.panels.base import Panel, Section, figure_json
from rayfed.report.panels.phrases import quoted, times
from rayfed.report.read import units
from rayfed.report.read.results import Run
from rayfed.report.read.walked import disconnected, misplaced, positions
from rayfed.report.read.walked import visits as count_visits

MOST_STEPS = 400_000  # numbers of the steps of all walks together
MOST_DISTANCES = 150_000  # distances of clients' own models of all walks together


class WalkPanel(Panel):
    """A player of the chosen walk, its visits and its second eigenvalues.

    A run whose server did not walk is no choice here.
    """

    name: ClassVar[str] = "walk"
    section = Section.WALK
    rank = 0
    trail = TRAIL

    @cached_property
    def runs(self) -> list[Run]:
        """Those of the shown runs whose servers walked."""
        return [run for run in self.source.runs if run.walk is not None]

    @property
    def applies(self) -> bool:
        """Whether any server walked."""
        return bool(self.runs)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The ``walks``, and ``shared``: what they have in common, once.

        The ``path`` of a walk is a place among ``shared["paths"]``; each step of a path says as
        places which of the ``links`` (a flat list of pairs) there are and at which of the ``spots``
        (x and y) clients are.
        """
        shared = {"paths": Unique(), "links": Unique(), "spots": Unique()}
        walks = [self._walk(run, shared) for run in self.runs]
        return {"walks": walks, "shared": {name: unique.values for name, unique in shared.items()}}

    def _walk(self, run: Run, shared: Mapping[str, Unique]) -> dict[str, Any]:
        assert run.walk is not None
        steps = walk_steps(run, MOST_STEPS // len(self.runs))
        distances = model_distances(run, steps, MOST_DISTANCES // len(self.runs))
        bars = visits(self.results, run.name, run.seed)
        titles = {
            "walk": title(run),
            "visits": visits_title(run),
            "eigenvalues": eigenvalues_title(run),
        }
        canvas = walk_canvas(run, self.source.styles[run.name], steps, distances)
        changes = run.walk.changes
        return {
            "name": run.name,
            "seed": run.seed,
            "place": self.source.colour_place(run.name),
            "titles": {figure: keep_units(text) for figure, text in titles.items()},
            "notes": {"walk": note(run, len(steps["round"])), "visits": bars.layout.meta["note"]},
            "path": _path(steps, shared),
            "distances": distances,
            "walk": figure_json(canvas),
            "visits": figure_json(bars),
            "eigenvalues": figure_json(eigenvalues(self.results, run.name, run.seed))
            if changes
            else None,
        }

    @property
    def first(self) -> dict[str, Any]:
        """The walk that is shown first."""
        first: dict[str, Any] = self.payload["walks"][0]
        return first

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The walks to choose from: their places with the names of their runs."""
        return [(str(k), f"{run.name}, seed {run.seed}") for k, run in enumerate(self.runs)]

    @property
    def has_distances(self) -> bool:
        """Whether in any run clients have models of their own beside a global one."""
        return any(walk["distances"] for walk in self.payload["walks"])

    @property
    def changing(self) -> dict[str, Any] | None:
        """The first figure of eigenvalues; None where no graph changes."""
        figures = (walk["eigenvalues"] for walk in self.payload["walks"])
        return next((figure for figure in figures if figure), None)


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


def _path(steps: Mapping[str, Any], shared: Mapping[str, Unique]) -> int:
    """Return the place of a path, whose steps name their links and spots by place too."""
    links = [shared["links"].place(ends) for ends in steps["links"]]
    spots = [shared["spots"].place(list(xy)) for xy in zip(steps["x"], steps["y"], strict=True)]
    path = {name: value for name, value in steps.items() if name not in ("x", "y", "graph")}
    path["links"] = [links[g] for g in steps["graph"]]
    path["spots"] = [spots[min(g, len(spots) - 1)] for g in steps["graph"]]
    return shared["paths"].place(path)


def title(run: Run) -> str:
    """Return how many clients the server of a run visited, and how many it asked at a time."""
    visited, name = positions(run), quoted(run.name)
    total = int(run.info.get("clients") or len(run.clients))
    number = visited.nunique()
    clients = f"all {total:,}" if number == total else f"{number:,} of {total:,}"
    asked = float(run.rounds.loc[run.rounds["round"] > 0, "participants"].mean())
    return (
        f"In {len(visited):,} rounds the server of {name} visited {clients} clients, and "
        f"{units.number(asked, 2)} took part in a round on average"
    )


def note(run: Run, steps: int) -> str:
    """Return what of a walk is not drawn, and how often its graph was not connected."""
    assert run.walk is not None
    rounds, total = len(positions(run)), int(run.info.get("clients") or 0)
    parts = [f"{steps:,} evenly spaced of {rounds:,} rounds"] if steps < rounds else []
    if (drawn := len(run.walk.clients)) < total:
        parts.append(f"the {drawn:,} most visited of {total:,} clients")
    drawn_parts = f"Drawn: {' and '.join(parts)}." if parts else ""
    return " ".join(filter(None, (drawn_parts, _apart(run, rounds))))


def _apart(run: Run, rounds: int) -> str:
    """Return in how many rounds the graph was not connected, empty if in none."""
    apart, repaired = disconnected(run)
    if not apart:
        return ""
    added = {0: "it stayed so", apart: "links were added to connect it"}
    text = added.get(repaired, f"links were added in {repaired:,} of them")
    return f"The graph was not connected in {apart:,} of {rounds:,} rounds; {text}."


def visits_title(run: Run) -> str:
    """Return who was visited most and least, and how far that is from the long run."""
    counts = count_visits(run)["visits"]
    most, least = int(counts.max()), int(counts.min())
    never = int((counts == 0).sum())
    often, rare = run.called((counts.idxmax(), counts.idxmin()))
    seldom = f"client {rare} {f'least, {times(least)}' if least else 'never'}"
    seldom = f"{never:,} clients never" if never > 1 else seldom
    text = f"Client {often} was visited most, {times(most)}, {seldom}"
    if most == least:
        text = f"Every client was visited {times(most)}"
    elsewhere = misplaced(run)
    if math.isnan(elsewhere):
        return text
    return f"{text}; {units.share(elsewhere)} of the visits would lie elsewhere in the long run"


def eigenvalues_title(run: Run) -> str:
    """Return in how many moves the walk forgets where it began."""
    assert run.walk is not None
    known = run.walk.lambda_2[run.walk.graph]
    low, high, middle = (float(v) for v in (known.min(), known.max(), np.median(known)))
    if math.isnan(middle):
        return "The second eigenvalue of walks on so large a graph is not known"
    value = units.number(middle)
    if low != high:
        value = f"between {units.number(low)} and {units.number(high)}, mostly near {value}"
    return f"{_memory(middle)}: its second eigenvalue is {value}"


def _memory(eigenvalue: float) -> str:
    """Return after how many moves a tenth is left of what the position tells of the start."""
    if eigenvalue >= 1 - 1e-12:
        return "The walk never forgets where it began"
    moves = math.ceil(math.log(0.1) / math.log(eigenvalue)) if eigenvalue > 0 else 1
    return f"The walk forgets nine tenths of where it was in {moves:,} move{'s' * (moves != 1)}"
