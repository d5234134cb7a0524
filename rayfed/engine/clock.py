"""The virtual clock: what the work of an Ask takes each client, and who is late.

Nothing here depends on a number that a client computes. A loop of rounds asks for everything at
once (`Clock.timing`); one of single arrivals can ask for the pace of a client's next work, for the
duration of the work, and for when the client leaves, each when it needs to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.rng import Draw
from rayfed.datasets.shards import Shards
from rayfed.engine.budgets import Budgets
from rayfed.engine.link import ends_of
from rayfed.engine.run import Run
from rayfed.engine.state import DROPPED, LATE, USED, RoundStats
from rayfed.messages import Ask
from rayfed.population import Population, Server
from rayfed.population.server import BYTES_PER_S

MOST_BREAKS = 1000
"""Times that a client comes back to a piece of work; then it gives it up."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that each client downloads and uploads for an Ask."""

    down: int
    up: int


@dataclass(frozen=True)
class Duration:
    """Virtual seconds (K,) that a piece of work takes each client, and its local steps (K,)."""

    steps: Ints
    down_s: Floats
    compute_s: Floats
    up_s: Floats

    def end_s(self, start_s: float | Floats) -> Floats:
        """Return when replies (K,) to work that begins at `start_s` are there."""
        return start_s + self.down_s + self.compute_s + self.up_s

    def timing(self, start_s: float | Floats, gone_s: Floats) -> Timing:
        """Return the timing of work that begins at `start_s`, of clients that leave at `gone_s`.

        Who is not there when it begins does not do work that takes no time either.
        """
        away = np.where(gone_s <= start_s, np.nextafter(start_s, np.inf), -np.inf)
        end_s = np.maximum(self.end_s(start_s), away)
        return Timing(start_s, self.steps, self.compute_s, end_s, gone_s)

    def overlapping(self, start_s: Floats, asked_s: float, gone_s: Floats) -> Timing:
        """Return the timing of clients that compute from `start_s` on while a download travels."""
        free_s = np.maximum(start_s + self.compute_s, asked_s + self.down_s)
        end_s = free_s + self.up_s
        return Timing(start_s, self.steps, self.compute_s, end_s, gone_s, free_s)


@dataclass(frozen=True)
class Timing:
    """When the clients of an Ask begin, when they are done, and when they leave.

    Parameters
    ----------
    start_s : float or (K,) array of float
        Virtual time at which they begin.
    steps : (K,) array of int
        Local steps; 0 for other work.
    compute_s : (K,) array of float
        Virtual seconds of computing.
    end_s : (K,) array of float
        Virtual time at which the reply is there.
    gone_s : (K,) array of float
        Virtual time at which the client goes away; infinity if it never does.
    free_s : (K,) array of float, optional
        Virtual time at which it may compute for the next round, where that overlaps with transfers.
    """

    start_s: float | Floats
    steps: Ints
    compute_s: Floats
    end_s: Floats
    gone_s: Floats
    free_s: Floats | None = None


class Clock:
    """Times the work of clients.

    Parameters
    ----------
    population : Population
        Delays, networks and availability.
    shards : Shards
        The rows of the clients, by which the cost of some work goes.
    budgets : Budgets
        Counts local steps.
    resume : bool
        Whether clients that come back go on with their work.
    server : Server
        The bandwidth that all transfers share.
    """

    def __init__(
        self,
        population: Population,
        shards: Shards,
        budgets: Budgets,
        *,
        resume: bool = False,
        server: Server = Server(),  # noqa: B008 - a frozen value
    ) -> None:
        self.population, self.shards, self.budgets = population, shards, budgets
        self.resume, self.server = resume, server

    @classmethod
    def of(cls, run: Run, budgets: Budgets) -> Clock:
        """Return the clock of a run."""
        federation = run.federation
        resume = run.participation.interrupted == "resume"
        shards = federation.views.training.shards
        server = federation.server
        return cls(federation.population, shards, budgets, resume=resume, server=server)

    def pace(self, ids: Ints, draw: Draw, ask: int = 0) -> Floats:
        """Return the virtual seconds (K,) of one local step of clients in a piece of work.

        Parameters
        ----------
        ids : (K,) array of int
        draw : int or (K,) array of int
            The round, or the number of each client's work.
        ask : int
            Number of the Ask in it.
        """
        return self.population.seconds_per_step(ids, draw, ask, self.budgets.rows(ids))

    def duration(
        self, ask: Ask, traffic: Traffic, ids: Ints, pace: Floats, steps: Ints
    ) -> Duration:
        """Return how long clients work: download, computing and upload.

        Parameters
        ----------
        ask : Ask
            What computing costs.
        traffic : Traffic
            What travels.
        ids : (K,) array of int
        pace : (K,) array of float
            Virtual seconds of one local step.
        steps : (K,) array of int
            Local steps, or 0 if the Ask is not of local work.
        """
        down, up = self.population.transfer_s(ids, traffic.down, traffic.up)
        return Duration(steps, down, pace * self._cost(ask, ids, steps), up)

    def leaving(self, ids: Ints, time_s: float, round_number: int, *, seen: bool = False) -> Floats:
        """Return when clients (K,) go away: at once, if they are not there.

        Parameters
        ----------
        ids : (K,) array of int
        time_s : float
            The virtual time from which they work.
        round_number : int
            The round, by which some availabilities go.
        seen : bool
            Whether it is known that they are there at `time_s`.
        """
        gone = self.population.next_change(ids, time_s)
        if seen:
            return gone
        return np.where(self.population.available(ids, time_s, round_number), gone, time_s)

    def timing(
        self,
        ask: Ask,
        traffic: Traffic,
        stats: RoundStats,
        ids: Ints,
        fit_s: float | None = None,
    ) -> Timing:
        """Return what an Ask of a round takes each client, all of whom begin together.

        Parameters are those of `alone`.
        """
        timing = self.alone(ask, traffic, stats, ids, fit_s)
        return self.contended(ids, traffic, timing, stats) if self.server.limited else timing

    def alone(
        self,
        ask: Ask,
        traffic: Traffic,
        stats: RoundStats,
        ids: Ints,
        fit_s: float | None = None,
    ) -> Timing:
        """Return what an Ask of a round takes each client if it has the server for itself.

        Parameters
        ----------
        ask : Ask
        traffic : Traffic
        stats : RoundStats
            The round.
        ids : (K,) array of int
        fit_s : float, optional
            The virtual time by which uploads must be there: local work is cut short to fit.
        """
        pace = self.pace(ids, stats.round, stats.ask)
        if ask.local:
            steps = self.budgets.steps(ids, pace, stats.round, stats.lengths)
        else:
            steps = np.zeros(len(ids), dtype=np.int64)
        if ask.local and fit_s is not None:

            def end_s(taken: Ints) -> Floats:
                return self.duration(ask, traffic, ids, pace, taken).end_s(stats.time_s)

            steps = fitting(steps, pace * ask.each_step, end_s, fit_s)
        duration = self.duration(ask, traffic, ids, pace, steps)
        # Some may have left since the Ask before; nobody looked whether the visited one is there.
        seen = not (stats.ask or ask.visited)
        gone = self.leaving(ids, stats.time_s, stats.round, seen=seen)
        duration, lost = self.mishaps(ids, duration, stats.round, stats.ask)
        if ask.overlap:
            timing = duration.overlapping(self.ahead(ids, stats), stats.time_s, gone)
            timing = undone(timing, stats.time_s)
            asked = replace(timing, start_s=stats.time_s)  # no connection is used before
            timing = replace(timing, gone_s=self.cut_off(asked, lost).gone_s)
        else:
            timing = undone(duration.timing(stats.time_s, gone), stats.time_s)
            timing = self.disturbed(ids, timing, lost)
        return timing

    def ahead(self, ids: Ints, stats: RoundStats) -> Floats:
        """Return since when clients (K,) compute that need not wait for what they are sent.

        It is the time at which they are asked, unless their last reply was used and they have been
        there ever since.
        """
        starts = np.full(len(ids), stats.time_s)
        if not stats.ahead:
            return starts
        names = ("clients", "free_s")
        free = dict(zip(*(stats.ahead[name].tolist() for name in names), strict=True))
        for k, client in enumerate(ids.tolist()):
            since = free.get(client, stats.time_s)
            leaves_s = self.population.next_change(ids[k : k + 1], since)[0]
            if leaves_s >= stats.time_s:
                starts[k] = since
        return starts

    def contended(self, ids: Ints, traffic: Traffic, timing: Timing, stats: RoundStats) -> Timing:
        """Return the timing of clients that begin together and share the server's bandwidth.

        Nothing else is on the link: a server that stops waiting breaks off what is under way. So a
        transfer that would end later does not slow down the next Ask, and `end_s` of its client is
        when it would have ended. One whose client goes away, or whose connection breaks, occupies
        the link until then, and its `end_s` is inf.

        Parameters
        ----------
        ids : (K,) array of int
        traffic : Traffic
            What each of them downloads and uploads.
        timing : Timing
            When they begin and leave; the moment at which a connection breaks is a share of the
            time that the work takes a client which has the server for itself.
        stats : RoundStats
            The round.
        """
        for_down, for_up = self.server.capacities
        latency, down, up = self.population.links(ids)
        asked = np.full(len(ids), stats.time_s)
        got = ends_of(for_down, asked, traffic.down, down * BYTES_PER_S, timing.gone_s) + latency
        if timing.free_s is None:
            done = got + timing.compute_s
        else:
            done = np.maximum(timing.start_s + timing.compute_s, got)
            timing = replace(timing, free_s=done)
        sending = done + latency
        end_s = ends_of(for_up, sending, traffic.up, up * BYTES_PER_S, timing.gone_s)
        return replace(timing, end_s=end_s)

    def mishaps(
        self, ids: Ints, duration: Duration, draw: Draw, ask: int = 0
    ) -> tuple[Duration, Floats | None]:
        """Return how long work takes with its crashes, and after which share of that it is lost.

        `draw` and `ask` are as for `pace`. The share (K,), infinite if work is not lost, is None if
        none ever is.
        """
        population = self.population
        lost = population.lost(ids, draw, ask) if population.lossy else None
        if not population.crashing:
            return duration, lost
        crashes = population.crashes(ids, draw, ask)
        in_vain_s = crashes.spent * duration.compute_s + crashes.waited_s
        longer = replace(duration, compute_s=in_vain_s + duration.compute_s)
        whole_s = longer.down_s + longer.compute_s + longer.up_s
        until = np.divide(
            duration.down_s + in_vain_s, whole_s, out=np.ones(len(ids)), where=whole_s > 0
        )
        until[~crashes.given_up] = np.inf
        return longer, until if lost is None else np.minimum(lost, until)

    def disturbed(self, ids: Ints, timing: Timing, lost: Floats | None) -> Timing:
        """Return the timing of work (K,) of clients that may come back, or lose it on the way.

        Parameters
        ----------
        ids : (K,) array of int
        timing : Timing
            As if nothing came in between.
        lost : (K,) array of float, optional
            The share of the work after which it is lost; see `mishaps`.
        """
        timing = self.resumed(ids, timing) if self.resume else timing
        return self.cut_off(timing, lost)

    def resumed(self, ids: Ints, timing: Timing) -> Timing:
        """Return the timing of work that stands still while its client is away, and then goes on.

        A client that does not come back, or comes back `MOST_BREAKS` times and is not done, leaves
        for good when it leaves for the last time.
        """
        end_s, gone_s = timing.end_s.copy(), timing.gone_s.copy()
        for k in np.flatnonzero(gone_s < end_s).tolist():
            end_s[k], gone_s[k] = self._later(ids[k : k + 1], end_s[k], gone_s[k])
        return replace(timing, end_s=end_s, gone_s=gone_s)

    def _later(self, client: Ints, end_s: float, gone_s: float) -> tuple[float, float]:
        """Return when a client that leaves before its work is done is done, or leaves for good."""
        left_s, away_s = end_s - gone_s, gone_s
        for _ in range(MOST_BREAKS):
            back_s = float(self.population.next_change(client, away_s)[0])
            if not math.isfinite(back_s):
                break
            leaves_s = float(self.population.next_change(client, back_s)[0])
            if back_s + left_s <= leaves_s:
                return back_s + left_s, math.inf
            left_s, away_s = left_s - (leaves_s - back_s), leaves_s
        return away_s + left_s, away_s

    @staticmethod
    def cut_off(timing: Timing, lost: Floats | None) -> Timing:
        """Return the timing of work of which some is lost; `lost` is as for `disturbed`."""
        if lost is None:
            return timing
        cut = np.isfinite(lost)
        share = np.where(cut, lost, 0.0)  # infinity times work that takes no time is no number
        cut_s = timing.start_s + share * (timing.end_s - timing.start_s)
        gone_s = np.where(cut, np.minimum(timing.gone_s, cut_s), timing.gone_s)
        return replace(timing, gone_s=gone_s)

    def _cost(self, ask: Ask, ids: Ints, steps: Ints) -> float | Floats:
        """Return the steps or step-equivalents of an Ask, for all or for each client (K,)."""
        sizes = self.shards.sizes  # not asked for where the steps say it all
        cost: float | Floats
        if isinstance(ask.cost, str):
            cost = np.asarray(steps * ask.each_step, dtype=np.float64)
        else:
            cost = ask.cost(ids, sizes(ids)) if callable(ask.cost) else ask.cost
        if not ask.passes:
            return cost
        passes = ask.passes(ids, sizes(ids)) if callable(ask.passes) else ask.passes
        return cost + passes * self.budgets.reading(ids)


def undone(timing: Timing, now_s: float) -> Timing:
    """Return the timing in which who is away when work begins has not done it at once.

    Work that takes no time would otherwise be over in the moment in which its client is gone.
    """
    away = timing.gone_s <= now_s
    later = np.maximum(timing.end_s, np.nextafter(now_s, np.inf))
    return replace(timing, end_s=np.where(away, later, timing.end_s)) if away.any() else timing


def fitting(
    steps: Ints, step_s: Floats, end_s: Callable[[Ints], Floats], deadline_s: float
) -> Ints:
    """Return the local steps (K,) of clients that stop in time for their upload.

    What is left of the time after download, full gradients and upload is divided by the time of a
    step and rounded down. A client for which not even one step is left keeps all of its steps, and
    so is late.

    Parameters
    ----------
    steps : (K,) array of int
        The steps that they take if there is time.
    step_s : (K,) array of float
        Virtual seconds of a step.
    end_s : callable
        Maps steps (K,) to the virtual times (K,) at which the replies are there.
    deadline_s : float
        The virtual time by which they have to be there.
    """
    left_s = deadline_s - end_s(np.zeros_like(steps))
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(step_s > 0, np.floor(left_s / step_s), np.inf)
    most = np.clip(most, 0, steps).astype(np.int64)
    most -= (end_s(most) > deadline_s) & (most > 0)  # the division was rounded up
    most += (end_s(most + 1) <= deadline_s) & (most < steps)  # or down
    return np.where((most == 0) | (end_s(most) > deadline_s), steps, most)


def settle(
    ids: Ints,
    timing: Timing,
    now_s: float,
    *,
    first: int | None = None,
    deadline_s: float | None = None,
) -> tuple[Array, float]:
    """Decide whose replies a server that waits for a cohort uses, and when it stops waiting.

    It waits for all, for the first replies of an over-selected cohort, or until a deadline. It
    notices at once when a client goes away.

    Parameters
    ----------
    ids : (K,) array of int
        Clients; of equally early ones the lower id comes first.
    timing : Timing
        When they are done, and when they leave.
    now_s : float
        Virtual time at which they were asked.
    first : int, optional
        The number of replies after which the server stops waiting.
    deadline_s : float, optional
        The virtual time until which it waits at most.

    Returns
    -------
    status : (K,) array of int
        `USED`, `LATE` or `DROPPED`, each.
    close_s : float
        When the server stops waiting.
    """
    end, gone = timing.end_s, timing.gone_s
    left = gone < end
    leaving = bool(left.any())
    status = np.where(left, DROPPED, USED)
    close = float((np.minimum(end, gone) if leaving else end).max(initial=now_s))
    if first is not None and np.count_nonzero(status == USED) >= first:
        order = np.lexsort((ids, end))
        arrived = order[status[order] == USED]
        status[arrived[first:]] = LATE
        close = float(end[arrived[first - 1]])
    if deadline_s is not None:
        close = max(min(close, deadline_s), now_s)
        status[(status == USED) & (end > deadline_s)] = LATE
    if leaving:
        status[(status == DROPPED) & (gone > close)] = LATE  # it left after the close
    return status, close
