"""What clients gain from models of their own: at the end client by client, and over the rounds."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.report.figures import personal as personal_figure
from rayfed.report.figures import personal_over_rounds
from rayfed.report.figures.personal import MOST_ROWS, SINGLE
from rayfed.report.html import keep_units
from rayfed.report.panels.base import Panel, Section, figure_json
from rayfed.report.panels.phrases import joined, quoted
from rayfed.report.read import personal, units
from rayfed.report.read.results import Run

MOST_CELLS = 60_000  # of the maps of own models over rounds of all runs together


class PersonalPanel(Panel):
    """The clients' own models of the chosen run; runs without any are no choice here."""

    name: ClassVar[str] = "personal"
    section = Section.PERSONAL
    rank = 0

    @cached_property
    def runs(self) -> list[Run]:
        """Those of the shown runs that have models of the clients' own and did not fail."""
        runs = [run for run in self.source.runs if len(run.personal) and run.status != "failed"]
        return [run for run in runs if len(personal.ends(run))]

    @property
    def applies(self) -> bool:
        """Whether any run has models of the clients' own."""
        return bool(self.runs)

    @cached_property
    def payload(self) -> dict[str, Any]:
        """The words and figures of each of the ``runs``, and the place of the ``first`` shown."""
        rivals = self.results.rivals
        first = next((k for k, run in enumerate(self.runs) if run.name in rivals), 0)
        return {"runs": [self._run(run) for run in self.runs], "first": first}

    def _run(self, run: Run) -> dict[str, Any]:
        rounds = int(np.clip(MOST_CELLS // (len(self.runs) * MOST_ROWS), 10, 100))
        titles = {"personal": title(run), "personal-rounds": rounds_title(run)}
        over_rounds = personal_over_rounds(self.results, run.name, run.seed, rounds)
        return {
            "name": run.name,
            "seed": run.seed,
            "place": self.source.colour_place(run.name),
            "titles": {figure: keep_units(text) for figure, text in titles.items()},
            "how": how(run),
            "note": note(run),
            "dots": len(personal.ends(run)) <= SINGLE,
            "shared": personal.distances(run) is not None,
            "personal": figure_json(personal_figure(self.results, run.name, run.seed)),
            "personal-rounds": figure_json(over_rounds),
        }

    @property
    def first(self) -> dict[str, Any]:
        """What is shown first."""
        first: dict[str, Any] = self.payload["runs"][self.payload["first"]]
        return first

    @property
    def names(self) -> list[str]:
        """The algorithms to choose from."""
        return list(dict.fromkeys(run.name for run in self.runs))

    @property
    def seeds(self) -> list[str]:
        """The seeds to choose from."""
        return list(dict.fromkeys(str(run.seed) for run in self.runs))

    @property
    def has_notes(self) -> bool:
        """Whether in any run some clients were never asked."""
        return any(run["note"] for run in self.payload["runs"])


def title(run: Run) -> str:
    """Return how many clients their own models serve better, and how the worst served fares."""
    values, measure, name = personal.ends(run), personal.measure(run), quoted(run.name)
    total = f"{len(values):,} client{'s' * (len(values) != 1)}"
    (who, own), (_, shared) = (
        _worst(values[part].to_numpy(float), measure) for part in values.columns[:2]
    )
    if values["shared"].isna().all():
        return f"With {name} there is no shared model; {who} has {measure} {own} with its own"
    better, worse, alike = personal.gains(run)
    clients = f"all {total}" if better == len(values) > 1 else f"{better:,} of {total}"
    text = f"With {name} own models serve {clients} better than the shared one"
    rest = [(worse, "worse"), (alike, "about as well")]
    text = joined([text, *(f"{count:,} {how_well}" for count, how_well in rest if count)])
    return f"{text}; {who} has {measure} {own} instead of {shared}"


def _worst(values: Floats, measure: str) -> tuple[str, str]:
    """Return who is served worst and how well: one client of few, of many the mean of a tenth."""
    order = np.sort(values) if measure == "accuracy" else -np.sort(-values)
    if len(order) <= SINGLE:
        return "the worst-served client", units.number(float(order[0]))
    tenth = order[: math.ceil(len(order) / 10)]
    return "the worst-served tenth", units.number(float(tenth.mean()))


def how(run: Run) -> str:
    """Return how to read the figure of the last values."""
    measure, many = personal.measure(run), len(personal.ends(run)) > SINGLE
    if personal.distances(run) is None:
        text = f"The {measure} of each client's own model; there is no shared one."
    elif many:
        text = (
            f"The line is the {measure} of clients' own models; dotted is that of the shared model "
            "for the same clients, in a band from the 10th to the 90th percentile of those nearby."
        )
    else:
        text = (
            f"Filled dots are the {measure} of a client's own model, hollow ones that of the "
            "shared model on the same rows; the line between them is what a model of its own "
            "changes."
        )
    if personal.distances(run) is not None:
        margin = "half a point" if measure == "accuracy" else "1 %"
        text += f" Within {margin} of each other they count as serving a client alike."
    whole = personal.whole(run)
    on_server = measure == "accuracy" and run.info.get("scored") == "server"
    text += " Accuracies are on the clients' training rows." * on_server
    if whole is not None:
        scored = " on the server's rows" if on_server else ""
        text += f" Dashed is the global model's {measure}{scored}, {units.number(whole)}."
    return text


def note(run: Run) -> str:
    """Return how many clients were never asked, empty if all were."""
    values = personal.ends(run)
    never = int((~values["asked"]).sum())
    return f"{never:,} of {len(values):,} clients were never asked." if never else ""


def rounds_title(run: Run) -> str:
    """Return how good own models were at first and at last, on average and at worst."""
    measure, values = personal.measure(run), personal.over_rounds(run)
    ends = [values.iloc[place].to_numpy(float) for place in (0, -1)]
    first, last = (units.number(float(row.mean())) for row in ends)
    (who, worst_first), (_, worst_last) = (_worst(row, measure) for row in ends)
    return (
        f"In {int(values.index[-1]):,} rounds the mean {measure} of own models with "
        f"{quoted(run.name)} went from {first} to {last}, that of {who} from {worst_first} to "
        f"{worst_last}"
    )
