"""Replies of earlier rounds that arrive in this one (``participation.late: stale``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayfed.clients.request import Request
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.engine.arrivals.replies import Part
from rayfed.engine.clock import Timing
from rayfed.engine.pending import DRAWS, Pending
from rayfed.engine.state import DROPPED, UNFINISHED, USED, Events, RoundStats

if TYPE_CHECKING:
    from rayfed.engine.exchange import Exchange, Work


def arrived(exchange: Exchange, work: Work, stats: RoundStats, close_s: float) -> list[Part]:
    """Return the late replies that are there at the end of a round, in the order of their rounds.

    They are computed now, counted, and leave `RoundStats.pending`, as does the work of clients that
    have gone away.

    Parameters
    ----------
    exchange : Exchange
    work : Work
        That of the round's own cohort.
    stats : RoundStats
    close_s : float
        When the server stops waiting for the cohort.
    """
    assert stats.pending is not None
    over, stats.pending = stats.pending.split(close_s)
    parts: list[Part] = []
    for works in over.by_round():
        fails, usable = works.fails, works.part(~works.fails)
        losses = np.full(len(works), np.nan)
        if len(usable):
            part = _computed(exchange, work, usable, stats)
            parts.append(part)
            if "loss" in part.gathered.each:
                losses[~fails] = part.gathered.each["loss"]
        counts = stats.counts
        counts["participants"] += len(usable)
        counts["dropped"] += len(works) - len(usable)
        counts["bytes_wasted"] += work.traffic.down * (len(works) - len(usable))
        counts["bytes_up"] += work.traffic.up * len(usable)
        counts["local_steps"] += int(usable.works["steps"].sum())
        status = np.where(fails, DROPPED, USED)
        old = np.where(fails, -1, stats.round - works.works["round"])
        stats.events.append(
            _events(works, status, works.over_s, stats.round, stats.ask + 1, old, losses)
        )
    return parts


def _computed(exchange: Exchange, work: Work, works: Pending, stats: RoundStats) -> Part:
    """Return the replies of the works of one round, with discounted weights."""
    columns, ask, run = works.works, work.ask, exchange.run
    number = int(columns["round"][0])
    staleness = np.full(len(works), stats.round - number)
    weights: Floats = columns["weight"] * run.participation.staleness.factor(staleness)
    timing = Timing(
        columns["start_s"], columns["steps"], columns["compute_s"], columns["end_s"],
        columns["gone_s"],
    )  # fmt: skip
    request = Request(
        work.owner, ask.work, ask.up, works.clients, weights, columns["steps"],
        run.federation.population.group_of(works.clients), number, int(columns["ask"][0]),
        vectors=ask.vectors, sleep_s=exchange.sleep_s(timing), draw=number,
    )  # fmt: skip
    when = f"round {stats.round}, time {stats.time_s:.6g} s"
    gathered = exchange.compute(request, works.sends[number], when)
    seconds, steps = timing.end_s - timing.start_s, columns["steps"]
    return Part(works.clients, steps, staleness, weights, weights, gathered, seconds, request)


def unfinished_events(pending: Pending, now_s: float) -> Events:
    """Return the works that a run leaves behind at a virtual time as rows of ``events``."""
    count = len(pending)
    nothing, status = np.full(count, -1), np.full(count, UNFINISHED)
    end_s = np.minimum(pending.over_s, now_s)
    return _events(pending, status, end_s, -1, 0, nothing, np.full(count, np.nan))


def _events(
    pending: Pending, status: Ints, end_s: Array, round_number: int, ask: int,
    staleness: Ints, losses: Floats,
) -> Events:  # fmt: skip
    works, count = pending.works, len(pending)
    return {
        "round": np.full(count, round_number),
        "ask": np.full(count, ask),
        "client": works["client"],
        "start_s": works["start_s"],
        "compute_s": works["compute_s"],
        "end_s": end_s,
        "status": status,
        "loss": losses,
        "steps": works["steps"],
        "version": works["round"] - 1,
        "staleness": staleness,
        **{name: works[name] for name in DRAWS if name in works},
    }
