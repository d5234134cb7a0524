"""What one sees of models of the clients' own, in one sentence each, computed from the data."""

from __future__ import annotations

import math

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.report.figures.personal import SINGLE
from rayfed.report.page.words import listed, named
from rayfed.report.read import personal, units
from rayfed.report.read.results import Run


def title(run: Run) -> str:
    """Return how many clients their own models serve better, and how the worst served fares."""
    found, kind, name = personal.ends(run), personal.measure(run), named(run.name)
    total = f"{len(found):,} client{'s' * (len(found) != 1)}"
    (who, own), (_, shared) = (
        _worst(found[part].to_numpy(float), kind) for part in found.columns[:2]
    )
    if found["shared"].isna().all():
        return f"With {name} there is no shared model; {who} has {kind} {own} with its own"
    better, worse, alike = personal.gains(run)
    whom = f"all {total}" if better == len(found) > 1 else f"{better:,} of {total}"
    said = f"With {name} own models serve {whom} better than the shared one"
    rest = [(worse, "worse"), (alike, "about as well")]
    said = listed([said, *(f"{count:,} {how_well}" for count, how_well in rest if count)])
    return f"{said}; {who} has {kind} {own} instead of {shared}"


def _worst(values: Floats, kind: str) -> tuple[str, str]:
    """Return who is served worst and how well: one client of few, of many the mean of a tenth."""
    order = np.sort(values) if kind == "accuracy" else -np.sort(-values)
    if len(order) <= SINGLE:
        return "the worst-served client", units.number(float(order[0]))
    tenth = order[: math.ceil(len(order) / 10)]
    return "the worst-served tenth", units.number(float(tenth.mean()))


def how(run: Run) -> str:
    """Return how to read what clients' own models give them."""
    kind, many = personal.measure(run), len(personal.ends(run)) > SINGLE
    if personal.distances(run) is None:
        said = f"The {kind} of each client's own model; there is no shared one."
    elif many:
        said = (
            f"The line is the {kind} of clients' own models; dotted is that of the shared model "
            "for the same clients, in a band from the 10th to the 90th percentile of those nearby."
        )
    else:
        said = (
            f"Filled dots are the {kind} of a client's own model, hollow ones that of the shared "
            "model on the same rows; the line between them is what a model of its own changes."
        )
    if personal.distances(run) is not None:
        margin = "half a point" if kind == "accuracy" else "1 %"
        said += f" Within {margin} of each other they count as serving a client alike."
    server = kind == "accuracy" and run.info.get("scored") == "server"
    return said + " Accuracies are on the clients' training rows." * server


def note(run: Run) -> str:
    """Return how many clients were never asked, empty if all were."""
    found = personal.ends(run)
    never = int((~found["asked"]).sum())
    return f"{never:,} of {len(found):,} clients were never asked." if never else ""


def rounds_title(run: Run) -> str:
    """Return how good own models were at first and at last, on average and at worst."""
    kind, found = personal.measure(run), personal.over_rounds(run)
    ends = [found.iloc[place].to_numpy(float) for place in (0, -1)]
    a, b = (units.number(float(values.mean())) for values in ends)
    (who, c), (_, d) = (_worst(values, kind) for values in ends)
    return (
        f"In {int(found.index[-1]):,} rounds the mean {kind} of own models with {named(run.name)} "
        f"went from {a} to {b}, that of {who} from {c} to {d}"
    )
