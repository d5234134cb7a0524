"""Checks of selections."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rayfed import api
from rayfed.core.needs import COHORT, EVERYONE, LAYERS
from rayfed.core.plugins import find
from rayfed.engine.tasks import events_of
from rayfed.selection.base import Selection
from rayfed.study.plan.plan import Plan
from rayfed.testing.checks.common import require, require_unchanged
from rayfed.testing.studies import assert_same_bits, loops, mixed_under


def check_bits(cls: type[Selection], folder: Path) -> None:
    """Check that the bits depend neither on stacks of 1 or 7 clients, nor on a stop on the way."""
    assert_same_bits(_plan(cls), folder, rounds=4)


def check_cohorts(cls: type[Selection], folder: Path) -> None:
    """Check that it selects available clients, each once, and more than one cohort over time."""
    ((run, loop),) = loops(_plan(cls))
    now, _ = loop.start()
    seen: list[int] = []
    for number in range(1, 7):
        start = now.time_s
        now, _, ended = loop.step(now)
        ids = events_of(ended[-1:])["client"]
        there = run.federation.population.available(ids, start, number)
        require(there, f"{cls.__qualname__}: clients {ids[~there].tolist()} are not available")
        require(np.diff(ids) > 0, f"{cls.__qualname__}: the events do not hold each client once")
        require(len(ids) >= 1, f"{cls.__qualname__} selects no client")
        require(
            COHORT in cls.removes or len(ids) <= 6, f"{cls.__qualname__}: {len(ids)} clients of 6"
        )
        seen += ids.tolist()
    require(len(set(seen)) > 6, f"{cls.__qualname__} names {sorted(set(seen))} for ever")


def check_state(cls: type[Selection], folder: Path) -> None:
    """Check that a round never changes the selection's state in place."""
    require_unchanged(_plan(cls), cls.__qualname__, lambda now: [now.selection])


def check_algorithms(cls: type[Selection], folder: Path) -> None:
    """Check that every algorithm with rounds that is found runs under it."""
    found = find("algorithms").items()
    names = [
        name
        for name, cls in found
        if not (cls.centralised or cls.asynchronous or cls.gossip or {LAYERS, EVERYONE} & cls.needs)
    ]
    for run, loop in loops(_plan(cls, algorithms=[{"name": name} for name in names])):
        now, _ = loop.start()
        for _ in range(2):
            now, row, _ = loop.step(now)
        require(np.isfinite(row["loss"]), f"{run.label}: the loss is {row['loss']}")
        require(row["participants"] > 0, f"{run.label}: no client takes part")


def _plan(cls: type[Selection], **changes: object) -> Plan:
    return api.prepare(api.read(mixed_under(cls, **changes)))
