"""The virtual clock: local steps of an Ask and durations of client tasks.

Times are those of clients that have the link to themselves. Nothing here depends on a number that
a client computes, and nothing decides the outcome of a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints, under
from rayfed.core.rng import Draw
from rayfed.engine.run import Run
from rayfed.messages import Ask, Reply, State
from rayfed.solvers.stepped import Stepped

MOST_BREAKS = 1000
"""Times that a client comes back to a task; then it gives it up."""


class StepCounter:
    """Counts of local steps, and the state of counts that adapt to losses.

    Parameters
    ----------
    run : Run

    Attributes
    ----------
    shards : Shards
        The rows of the clients in the round.
    listens : bool
        Whether a rule learns from the losses of local steps.
    """

    def __init__(self, run: Run) -> None:
        self.solvers, self.seed = run.training.solvers, run.seed
        self.population = run.federation.population
        self.shards = run.federation.views.training.shards
        self.rules = [solver.varying for solver in self.solvers]
        self.listens = any(rule is not None and rule.listens for rule in self.rules)
        batches = [
            solver.batch if isinstance(solver, Stepped) else "full" for solver in self.solvers
        ]
        self.full = np.array([batch == "full" for batch in batches])
        self.batch = np.array([1 if batch == "full" else batch for batch in batches])

    def init(self) -> State:
        """Return the state of the numbers of all solvers before the first round."""
        states = {k: rule.init() for k, rule in enumerate(self.rules) if rule is not None}
        return {f"{k}.{name}": v for k, state in states.items() for name, v in state.items()}

    def steps(self, ids: Ints, pace: Floats, draw: Draw, state: State) -> Ints:
        """Return the local steps (K,) of clients in a task.

        Parameters
        ----------
        ids : (K,) array of int
        pace : (K,) array of float
            Virtual seconds of one step.
        draw : int or (K,) array of int
            Coordinate of keyed draws: the round, or the number of each client's task.
        state : mapping of str to array
            What `init` or `learn` returned.
        """
        sizes = self.shards.sizes(ids)
        by_solver = [
            solver.step_counts(
                sizes, pace, ids=ids, seed=self.seed, draw=draw, state=under(state, f"{k}.")
            )
            for k, solver in enumerate(self.solvers)
        ]
        if len(by_solver) == 1:
            return np.asarray(by_solver[0])
        groups = self.population.group_of(ids)
        return np.asarray(np.stack(by_solver)[groups, np.arange(len(ids))])

    def reading(self, ids: Ints, rows: int | None = None) -> Floats:
        """Return the local steps (K,) that go through so many rows of each client, or all."""
        sizes = self.shards.sizes(ids)
        groups = self.population.group_of(ids)
        full, batch = self.full[groups], self.batch[groups]
        return np.asarray(np.minimum(sizes, rows or sizes) / np.where(full, sizes, batch))

    def rows(self, ids: Ints) -> Floats | None:
        """Return the rows (K,) that a local step reads; None if no delay goes by samples."""
        if not self.population.by_sample:
            return None
        groups = self.population.group_of(ids)
        rows = np.where(self.full[groups], self.shards.sizes(ids), self.batch[groups])
        return rows.astype(np.float64)

    def learn(self, state: State, reply: Reply, round: int, time_s: float) -> State:
        """Return the state after local steps of a round with the losses of its reply."""
        learnt = dict(state)
        groups = self.population.group_of(reply.ids)
        for k, rule in enumerate(self.rules):
            own = groups == k
            if rule is None or not rule.listens or not own.any():
                continue
            loss = float(np.average(reply.each["loss"][own], weights=reply.weights[own]))
            updated = rule.learn(under(state, f"{k}."), loss, round=round, time_s=time_s)
            learnt |= {f"{k}.{name}": v for name, v in updated.items()}
        return learnt


class Traffic(NamedTuple):
    """Bytes that clients download and upload for an Ask: the same for all, or of each (K,).

    `turns` are further messages there and back, which take their latency alone.
    """

    down: int | Ints
    up: int | Ints
    turns: int = 0

    def times(self, shares: Floats) -> Traffic:
        """Return the traffic of clients (K,) that send and get shares of it."""
        down, up = (np.rint(size * shares).astype(np.int64) for size in (self.down, self.up))
        return Traffic(down, up, self.turns)


class Duration(NamedTuple):
    """Virtual seconds (K,) that a task takes each client, and its local steps (K,)."""

    steps: Ints
    down_s: Floats
    compute_s: Floats
    up_s: Floats

    def end_s(self, start_s: float | Floats) -> Floats:
        """Return the arrival times of replies (K,) of tasks that start at `start_s`."""
        return start_s + self.down_s + self.compute_s + self.up_s


class Times(NamedTuple):
    """Durations of tasks (K,) on an unshared server connection; see `Task`.

    `duration` is what they take if nothing breaks them. `away_s` is when clients drop out next,
    where tasks pause then and `gone_s` is the time at which they are lost.
    """

    duration: Duration
    start_s: Floats
    free_s: Floats
    end_s: Floats
    gone_s: Floats
    away_s: Floats

    def with_silent(self, silent: Bools) -> Times:
        """Return these where silent clients (K,) drop out before they upload."""
        computed_s = np.nextafter(self.end_s - self.duration.up_s, -math.inf)
        return self._replace(
            gone_s=np.where(silent, np.minimum(self.gone_s, computed_s), self.gone_s)
        )


class Clock:
    """Duration of the tasks of clients.

    Parameters
    ----------
    run : Run
    counter : StepCounter
        Counts local steps.

    Attributes
    ----------
    resume : bool
        Whether clients that come back continue their tasks.
    """

    def __init__(self, run: Run, counter: StepCounter) -> None:
        self.population, server = run.federation.population, run.federation.server
        self.limited = server.limited and not run.training.algorithm.gossip
        self.counter, self.resume = counter, run.participation.interrupted == "resume"

    def pace(self, ids: Ints, draw: Draw, ask: int = 0) -> Floats:
        """Return the virtual seconds (K,) of one local step of clients in a task.

        Parameters
        ----------
        ids : (K,) array of int
        draw : int or (K,) array of int
            The round, or the number of each client's task.
        ask : int
            Number of the Ask in it.
        """
        return self.population.seconds_per_step(ids, draw, ask, self.counter.rows(ids))

    def duration(
        self, ask: Ask, traffic: Traffic, ids: Ints, pace: Floats, steps: Ints,
        start_s: float | Floats = 0.0,
    ) -> Duration:  # fmt: skip
        """Return the total duration of tasks: download, computing and upload.

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
            Local steps, or 0 if the Ask has no local steps.
        start_s : float or (K,) array of float
            When downloads begin, which matters where bandwidths change over time.
        """
        compute_s = pace * self._cost(ask, ids, steps)
        return Duration(steps, *self._with_transfers(traffic, ids, start_s, compute_s))

    def _with_transfers(
        self, traffic: Traffic, ids: Ints, start_s: float | Floats, compute_s: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return the seconds (K,) of download, computing and upload."""
        down, up = self.population.transfer_s(ids, traffic.down, traffic.up, start_s, compute_s)
        if traffic.turns:
            up = up + 2 * traffic.turns * self.population.links(ids)[0]
        return down, compute_s, up

    def leaving(
        self, ids: Ints, time_s: float | Floats, round: int, *, known_available: bool = False
    ) -> Floats:
        """Return when clients (K,) drop out: at once, if they are unavailable.

        Parameters
        ----------
        ids : (K,) array of int
        time_s : float or (K,) array of float
            The virtual time at which their tasks start.
        round : int
            The round, by which some availabilities go.
        known_available : bool
            Whether they are known to be available at `time_s`.
        """
        gone = self.population.next_change(ids, time_s)
        if known_available:
            return gone
        return np.where(self.population.available(ids, time_s, round), gone, time_s)

    def first_available(self, client: Ints, time_s: float) -> float:
        """Return when a client (1,) is available, from a time on; inf if never.

        It is never if it is away at that time and after `MOST_BREAKS` changes.
        """
        for _ in range(MOST_BREAKS):
            if math.isinf(time_s) or self.population.available(client, time_s, 1)[0]:
                return time_s
            time_s = float(self.population.next_change(client, time_s)[0])
        return math.inf

    def leaving_at(self, ids: Ints, times_s: Floats, round: int) -> Floats:
        """Return what `leaving` does, for clients (K,) that begin at times (K,) of their own."""
        if self.population.own_times:
            return self.leaving(ids, times_s, round)
        out, order = np.empty(len(ids)), np.argsort(times_s)
        distinct, starts = np.unique(times_s[order], return_index=True)
        parts = np.split(order, starts[1:])
        for time_s, at in zip(distinct.tolist(), parts, strict=True):
            out[at] = self.leaving(ids[at], time_s, round)
        return out

    def begun(
        self, ask: Ask, traffic: Traffic, ids: Ints, now_s: float, *, round: int, number: int = 0,
        step_state: Mapping[str, Array], ahead: Mapping[str, Array], fit_s: float = math.inf,
    ) -> Times:  # fmt: skip
        """Return the durations of tasks that clients (K,) start now in a round.

        Parameters
        ----------
        ask : Ask
        traffic : Traffic
        ids : (K,) array of int
        now_s : float
        round, number : int
            The round, and the number of the Ask in it, attempts included.
        step_state : mapping of str to array
            State of step counts that change over rounds.
        ahead : mapping of str to (K,) array
            Who need not wait for what it is sent, and since when; see `RunState.ahead`.
        fit_s : float
            The virtual time by which uploads must arrive: local steps are cut to fit.
        """
        pace = self.pace(ids, round, number) * ask.shares(ids)
        if ask.local:
            steps = self.counter.steps(ids, pace, round, step_state)
        else:
            steps = np.zeros(len(ids), dtype=np.int64)
        if ask.local and fit_s < math.inf:

            def end_s(taken: Ints) -> Floats:
                return self.duration(ask, traffic, ids, pace, taken).end_s(now_s)

            steps = steps_in_time(steps, pace * ask.each_step, end_s, fit_s)
        duration = self.duration(ask, traffic, ids, pace, steps, now_s)
        # Some may have left since the last Ask; the visited one may be unavailable.
        known = not (number or ask.visited or ask.edge_of)
        away_s = self.leaving(ids, now_s, round, known_available=known)
        duration, lost = self.crash_losses(ids, duration, traffic, now_s, round, number)
        start_s = np.full(len(ids), now_s)
        if not ask.overlap:
            return self.alone(ids, duration, start_s, away_s, lost)
        start_s = self.ahead(ids, start_s, ahead)
        free_s = np.maximum(start_s + duration.compute_s, now_s + duration.down_s)
        end_s_ = postponed(free_s + duration.up_s, away_s, now_s)
        gone_s = dropout_times(now_s, end_s_, away_s, lost)  # no connection is used before
        return Times(duration, start_s, free_s, end_s_, gone_s, away_s)

    def alone(
        self, ids: Ints, duration: Duration, start_s: Floats, away_s: Floats, lost: Floats | None
    ) -> Times:
        """Return the times of tasks (K,) that begin now and take so long.

        Parameters
        ----------
        ids : (K,) array of int
        duration : Duration
        start_s, away_s : (K,) array of float
            When they begin, and when their clients go away next.
        lost : (K,) array of float, optional
            The share of the task after which it is lost; see `crash_losses`.
        """
        end_s, gone_s = postponed(duration.end_s(start_s), away_s, start_s), away_s
        if self.resume:
            end_s, gone_s = self.resumed(ids, end_s, gone_s)
            if self.limited:  # who never comes back is known when it leaves
                gone_s = np.full(len(ids), math.inf)
        gone_s = dropout_times(start_s, end_s, gone_s, lost)
        return Times(duration, start_s, end_s, end_s, gone_s, away_s)

    def ahead(self, ids: Ints, asked_s: Floats, ahead: Mapping[str, Array]) -> Floats:
        """Return the start times of computing for clients (K,) that need not wait for downloads.

        It is the time at which they are asked, unless their last reply was used and they have been
        there ever since.
        """
        if not ahead:
            return asked_s
        names, starts = ("clients", "free_s"), asked_s.copy()
        free = dict(zip(*(ahead[name].tolist() for name in names), strict=True))
        for k, client in enumerate(ids.tolist()):
            since = free.get(client, starts[k])
            leaves_s = self.population.next_change(ids[k : k + 1], since)[0]
            if leaves_s >= starts[k]:
                starts[k] = since
        return starts

    def crash_losses(
        self, ids: Ints, duration: Duration, traffic: Traffic, start_s: float | Floats, draw: Draw,
        ask: int = 0,
    ) -> tuple[Duration, Floats | None]:  # fmt: skip
        """Return durations of tasks with crashes, and the share of each after which it is lost.

        `traffic` and `start_s` are as for `duration`, `draw` and `ask` as for `pace`. The share
        (K,), infinite if no task is lost, is None if none ever is.
        """
        population = self.population
        lost = population.lost(ids, draw, ask) if population.lossy else None
        if not population.crashing:
            return duration, lost
        crashes = population.crashes(ids, draw, ask)
        in_vain_s = crashes.spent * duration.compute_s + crashes.waited_s
        longer = duration._replace(compute_s=in_vain_s + duration.compute_s)
        if population.unsteady:  # uploads come later, at other bandwidths
            transfers = self._with_transfers(traffic, ids, start_s, longer.compute_s)
            longer = Duration(duration.steps, *transfers)
        full_s = longer.down_s + longer.compute_s + longer.up_s
        until = np.divide(
            duration.down_s + in_vain_s, full_s, out=np.ones(len(ids)), where=full_s > 0
        )
        until[~crashes.given_up] = np.inf
        return longer, until if lost is None else np.minimum(lost, until)

    def resumed(self, ids: Ints, end_s: Floats, gone_s: Floats) -> tuple[Floats, Floats]:
        """Return ends of tasks (K,) that pause while clients are away, and a mask of lost tasks.

        A client that does not come back, or comes back `MOST_BREAKS` times and is not done, leaves
        for good when it leaves for the last time.
        """
        end_s, gone_s = end_s.copy(), gone_s.copy()
        for k in np.flatnonzero(gone_s < end_s).tolist():
            end_s[k], gone_s[k] = self._later(ids[k : k + 1], end_s[k], gone_s[k])
        return end_s, gone_s

    def _later(self, client: Ints, end_s: float, gone_s: float) -> tuple[float, float]:
        """Return when a client that leaves before its task is done is done, or leaves for good."""
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

    def _cost(self, ask: Ask, ids: Ints, steps: Ints) -> float | Floats:
        """Return the steps or step-equivalents of an Ask, for all or for each client (K,)."""
        sizes = self.counter.shards.sizes  # not asked for where the steps say it all
        cost: float | Floats
        if isinstance(ask.cost, str):
            cost = np.asarray(steps * ask.each_step, dtype=np.float64)
        else:
            cost = ask.cost(ids, sizes(ids)) if callable(ask.cost) else ask.cost
        if not ask.passes:
            return cost
        passes = ask.passes(ids, sizes(ids)) if callable(ask.passes) else ask.passes
        return cost + passes * self.counter.reading(ids)


def postponed(end_s: Floats, gone_s: Floats, now_s: float | Floats) -> Floats:
    """Return ends of tasks (K,), later than their start for clients unavailable at the start.

    A task of no duration would otherwise end at the moment at which its client drops out.
    """
    away = gone_s <= now_s
    if not away.any():
        return end_s
    return np.where(away, np.maximum(end_s, np.nextafter(now_s, np.inf)), end_s)


def dropout_times(
    start_s: float | Floats, end_s: Floats, gone_s: Floats, lost: Floats | None
) -> Floats:
    """Return when clients (K,) drop out or lose their task; `lost` is as for `Clock.alone`."""
    if lost is None:
        return gone_s
    cut = np.isfinite(lost)
    share = np.where(cut, lost, 0.0)  # infinity times a duration of zero is NaN
    cut_s = start_s + share * (end_s - start_s)
    return np.where(cut, np.minimum(gone_s, cut_s), gone_s)


def steps_in_time(
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
