"""The loop of a run: the state before the first row, and a row after the other.

What a row holds and which rows are evaluated is decided here, too. Everything between two rows is
in values, so a checkpoint is those values, and a replay gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rayfed.algorithms.multi_walk import MultiWalk
from rayfed.core.arrays import Array
from rayfed.core.columns import names
from rayfed.core.errors import RunFailed, clipped
from rayfed.core.needs import SOLVER
from rayfed.core.values import changed
from rayfed.engine import columns
from rayfed.engine.arrivals import ArrivalPolicy
from rayfed.engine.energy import Meter
from rayfed.engine.exchange import Exchange
from rayfed.engine.measuring import Measures
from rayfed.engine.meetings import MeetingPolicy
from rayfed.engine.rounds import RoundPolicy
from rayfed.engine.run import Run
from rayfed.engine.state import COUNTS, RoundStats, Row, RunState, ServerFunction
from rayfed.engine.steps import StepPolicy
from rayfed.engine.stopping import LastEvaluation, distance
from rayfed.engine.tasks import CountedTasks
from rayfed.engine.walks import WalkPolicy
from rayfed.executors.base import Executor
from rayfed.executors.profile import Profile
from rayfed.measures.evaluation import SCORES
from rayfed.solvers import Descent

NOT_FINITE = "is not finite"
"""Reason of a run that diverged."""
_ROUNDING = 1e-9  # of times that are sums of durations, such as 0.1 s six times
_SHORT = 2**14  # numbers of a model of which each is looked at


class RowMaker:
    """Makes the rows of one run.

    Parameters
    ----------
    run : Run
        What is run.
    measures : Measures
        Asks the clients about a model.
    """

    def __init__(self, run: Run, measures: Measures) -> None:
        self.run, self.measures, self.private = run, measures, run.private
        self.columns = (
            *measures.columns,
            *(names(columns.ARRIVALS) if run.overlaps else ()),
            *(names(columns.MISSED) if run.misses else ()),
            *(names(columns.ENERGY) if run.metered else ()),
            *(names(columns.CARBON) if run.emits else ()),
            *(names(columns.BATTERIES) if run.batteries else ()),
            *(names(columns.SECURE) if run.secure else ()),
            *(names(columns.LEFT_OUT) if run.left_out else ()),
            *(names(columns.PRIVATE) if self.private else ()),
            *(names(columns.ADAPTIVE) if self.private and self.private.clip.adaptive else ()),
            *(names(columns.CONTROL) if run.control else ()),
            *run.ending.stop.columns,
            *names(run.participation.select.diagnostics),
            *names(run.training.algorithm.diagnostics),
        )
        self.all = frozenset((*names((*columns.RUN, *SCORES, *columns.COUNTS)), *self.columns))
        self.empty: Row = {
            "algorithm": run.training.algorithm.name, "label": run.label, "seed": run.seed,
            **dict.fromkeys(("round", "time_s", *names(SCORES), *COUNTS, *self.columns), math.nan),
        }  # fmt: skip
        if run.control is not None:
            self.empty["changes"] = float(run.changes)

    def due(self, before: RunState, run_state: RunState) -> bool:
        """Whether the row of a state is evaluated by the cadence; `Loop.close` sees to the last.

        Parameters
        ----------
        before, run_state : RunState
            The state before the round, and after it.
        """
        measuring = self.run.measuring
        if measuring.every_s is None:
            return run_state.round % measuring.every == 0
        wide = measuring.every_s * (1 - _ROUNDING)
        return run_state.time_s // wide > before.last.time_s // wide

    def row(
        self, run_state: RunState, stats: RoundStats, values: Mapping[str, float], due: bool
    ) -> tuple[Row, RunState]:
        """Return a row, and the state after an evaluation.

        Parameters
        ----------
        run_state : RunState
            The state that the row is about.
        stats : RoundStats
            What the round before it cost.
        values : mapping of str to float
            Columns that are known: diagnostics, and what the round itself has measured.
        due : bool
            Whether it is evaluated.
        """
        row: Row = {
            **self.empty,
            "round": run_state.round,
            "time_s": run_state.time_s,
            **stats.counts,
            **{name: float(value) for name, value in values.items()},
        }
        return self.evaluated(row, run_state) if due else (row, run_state)

    def evaluated(self, row: Row, run_state: RunState) -> tuple[Row, RunState]:
        """Return a row with its evaluated columns, and the next state."""
        measured, run_state = self.measures.of(run_state)
        if self.private is not None:
            measured = {**measured, "epsilon": self.private.epsilon(run_state.round)}
        return {**row, **measured}, run_state


def _finite(x: Array) -> bool:
    """Whether all numbers of a model (p,) are finite."""
    if x.size <= _SHORT:
        return bool(np.isfinite(x).all())
    with np.errstate(over="ignore"):
        length = float(np.vecdot(x, x))  # it makes no array; numbers beyond 1e19 overflow
    return math.isfinite(length) or bool(np.isfinite(x).all())


class Loop:
    """Runs one run, row by row: by rounds, arrivals (asynchronous), steps, meetings or walks.

    Parameters
    ----------
    run : Run
        What to run.
    executor : Executor
        Where the clients live; the run is open there under its folder's name.
    """

    def __init__(self, run: Run, executor: Executor) -> None:
        self.run, self.exchange = run, Exchange(run, executor)
        self.measures = Measures(run, self.exchange.compute)
        self.rows = RowMaker(run, self.measures)
        self.server_function = ServerFunction(run.training.algorithm)
        self.secure, self.left_out, self.stops_by = (
            run.secure,
            run.left_out,
            run.ending.stop.columns,
        )
        self.meter = Meter(run) if run.metered else None
        algorithm = run.training.algorithm
        self.policy: RoundPolicy | ArrivalPolicy | StepPolicy | MeetingPolicy | WalkPolicy
        if isinstance(algorithm, MultiWalk):
            self.policy = WalkPolicy(run, self.exchange)
        elif algorithm.gossip:
            policy = MeetingPolicy if algorithm.asynchronous else StepPolicy
            self.policy = policy(run, self.exchange)
        elif algorithm.asynchronous:
            self.policy = ArrivalPolicy(run, self.exchange, self.server_function)
        else:
            self.policy = RoundPolicy(run, self.exchange, self.server_function, self.measures)

    def start(self) -> tuple[RunState, Row]:
        """Return the state before the first round and its row."""
        first = self.first()
        row, first = self.rows.row(first, RoundStats(0, 0.0, 0.0), {}, due=True)
        return self._counted(row, replace(first, last=LastEvaluation(row["loss"], round=0))), row

    def first(self) -> RunState:
        """Return the state before the first round, not yet evaluated."""
        state = self.run.training.algorithm.init(self.run.training.x0)
        selection = self.run.participation.select.init(self.run.federation.population.count)
        return self.policy.first(RunState(
            0, 0.0, state, selection, self.exchange.counter.init(), (state["x"],),
            measured=self.measures.init(),
            correction=self.exchange.correction.init(), channel=self.exchange.init(),
        ))  # fmt: skip

    def step(self, before: RunState) -> tuple[RunState, Row, list[CountedTasks]]:
        """Run on to the next row.

        Parameters
        ----------
        before : RunState
            What `start` or the last `step` returned, or what a checkpoint holds.

        Raises
        ------
        RunFailed
            If a client function raised; the message has its id, the round, the time and the trace.
            If the server function returns what is no state.
        HostLost
            If a host died: go back to a checkpoint.
        """
        stats = RoundStats.after(before)
        self.server_function.guard(before.state)
        changes, values, answered = self.policy.advance(before, stats)
        x = changes["state"]["x"]
        after = changed(
            before, round=stats.round, time_s=stats.time_s, ahead=stats.ahead,
            channel=stats.channel, timeline=stats.timeline, batteries=stats.batteries,
            updates=before.updates + stats.counts["participants"],
            window=(*before.window, x)[-self.run.training.algorithm.evaluate_last :], **changes,
        )  # fmt: skip
        values |= {name: float(s / w) for name, (s, w) in stats.metrics.items()}
        if self.meter is not None:
            spent, energy = self.meter.values(stats, before.energy)
            values, after = values | spent, replace(after, energy=energy)
        if (batteries := self.exchange.batteries) is not None:
            values["batteries_empty"] = float(batteries.empty(stats.batteries, stats.time_s))
        if self.secure:
            values["wrapped"] = float(stats.wrapped)
        if self.left_out:
            values["left_out"] = stats.left_out
        if "model_change" in self.stops_by and after.state is not before.state:
            values["model_change"] = distance(x, before.state["x"])
        due = self.rows.due(before, after)
        row, after = self.rows.row(after, stats, values, due)
        last, change = before.last.after(row, answered, due)
        if "loss_change" in self.stops_by:
            row["loss_change"] = change
        after = after if last is after.last else replace(after, last=last)
        return self._counted(row, after), row, stats.ended

    def _counted(self, row: Row, run_state: RunState) -> RunState:
        """Return a state with the row counted by the declared controller."""
        control = self.run.control
        if control is None:
            return run_state
        return replace(run_state, control=control.counted(row, run_state.control))

    def check(self, run_state: RunState, row: Row) -> None:
        """Refuse a checkpoint that another scenario has left, unless the user accepted changes.

        Raises
        ------
        RunFailed
            If rows have other columns now, or the model another size.
        """
        x0 = self.run.training.x0
        if run_state.state["x"].shape != x0.shape:
            text = f"the model had {run_state.state['x'].size} numbers and has {x0.size} now"
            raise RunFailed(f"round {run_state.round}: {text}; run the study anew")
        others = sorted(self.rows.all ^ set(row))
        if others:
            text = f"rows have other columns now ({clipped(', '.join(others), 80)})"
            raise RunFailed(f"round {run_state.round}: {text}; run the study anew")

    def close(self, run_state: RunState, row: Row) -> tuple[RunState, Row]:
        """Return the last state of a run and its row, which is always evaluated.

        A run that is given more rounds later goes on from the state and the row as they were.

        Parameters
        ----------
        run_state, row : RunState, dict
            What the last `step` returned.
        """
        if run_state.last.round == run_state.round:
            return run_state, row
        row, closed = self.rows.evaluated(row, run_state)
        last, change = run_state.last.after(row, answered=False, due=True)
        if "loss_change" in self.stops_by:
            row["loss_change"] = change
        return replace(closed, last=last), row

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rounds from now on."""
        profile.watch(self, "step", "other", opens=True)
        profile.watch(self.policy, "advance", "algorithm")
        self.policy.profile(profile)
        profile.watch(self.rows, "row", "evaluation", inclusive=True)
        profile.watch(self, "close", "evaluation", opens=True, inclusive=True)

    def failure(self, run_state: RunState, row: Row) -> str | None:
        """Return why the run cannot go on, or None: the model or the loss is not finite."""
        finite = _finite(run_state.state["x"])
        due = run_state.last.round == run_state.round
        if finite and (math.isfinite(row["loss"]) or not due):
            return None
        what = "the loss" if finite else "the model"
        if run_state.round == 0:
            return f"round 0: {what} {NOT_FINITE} before any step; correct the start or the data"
        algorithm, rate = self.run.training.algorithm, ""
        if SOLVER in algorithm.needs and isinstance(algorithm.local, Descent):
            rate = f" (local lr {algorithm.local.rate(run_state.round):g})"
        return f"round {run_state.round}: {what} {NOT_FINITE}; likely the step is too large{rate}"
