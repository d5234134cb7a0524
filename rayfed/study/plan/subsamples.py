"""Evaluations on some rows alone: which, and in words how many."""

from __future__ import annotations

from dataclasses import replace

from rayfed.clients.subsample import Subsample
from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.shards import PARTS
from rayfed.datasets.table import TableShards, some_of
from rayfed.study.plan.views import Views
from rayfed.study.scenario.study import Study

_NAMES = {"train": "training", "test": "held-out", "validation": "validation"}


def refuse_gap(study: Study) -> None:
    """Refuse a gap between the loss of some rows and the optimum of all.

    Raises
    ------
    ScenarioError
        If `evaluate.rows` and the gap to the optimum are both asked for.
    """
    asked = {"evaluate.gap": study.evaluate.gap, "stop.loss_gap": study.stop.loss_gap is not None}
    for place, given in asked.items():
        if given and study.evaluate.rows is not None:
            text = "compares the loss of all rows with its optimum, but evaluate.rows looks at some"
            raise ScenarioError(place, f"{text}; leave one of them out")


def subsample_of(views: Views, evaluated: Ints, most: int | None, seed: int) -> Subsample | None:
    """Return which rows of the evaluated clients (K,) losses are of; None if all are."""
    if most is None:
        return None
    totals = {part: int(views.shards.sizes(evaluated, part).sum()) for part in PARTS}
    subsample = Subsample(seed, most, totals)
    return None if all(subsample.whole(part) for part in PARTS) else subsample


def with_some_test_rows(views: Views, most: int | None, seed: int) -> Views:
    """Return views whose server has at most so many test rows of its own."""
    if most is None or not isinstance(views.server, TableShards):
        return views
    return replace(views, server=some_of(views.server, most, Key(seed, "evaluate/server")))


def in_words(subsample: Subsample | None, views: Views, whole: Views, evaluated: Ints) -> str:
    """Return how many rows of how many are looked at; empty if all are.

    Parameters
    ----------
    views, whole : Views
        With the test rows that the server looks at, and with all.
    evaluated : (K,) array of int
        The clients that are evaluated.
    """
    counts = []
    for part, name in _NAMES.items():
        if subsample is not None:
            looked_at = int(subsample.counts(views.shards.sizes(evaluated, part), part).sum())
            counts.append((looked_at, subsample.totals[part], name))
    if views.server is not None and whole.server is not None:
        counts.append((views.server.total("test"), whole.server.total("test"), "test"))
    return ", ".join(f"{some:,} of {n:,} {name} rows" for some, n, name in counts if some < n)
