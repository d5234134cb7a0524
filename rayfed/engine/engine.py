"""The loop of one run: who is asked, how long it takes, who is late, what the model is worth.

The engine moves from one round to the next; everything between two rounds is values, so a
checkpoint is those values and a replay gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rayfed.clients.host import Request
from rayfed.clients.solvers import Descent
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import names
from rayfed.core.errors import RunFailed
from rayfed.engine.budgets import Budgets
from rayfed.engine.clock import Clock
from rayfed.engine.measures.diagnosis import NextRound
from rayfed.engine.measures.measures import SCORES, Measures
from rayfed.engine.replies import reply_of
from rayfed.engine.run import Run
from rayfed.engine.state import STATUS, Events, RoundStats, Row, RunState, at
from rayfed.engine.stopping import Last, distance
from rayfed.executors.base import ClientFailed, Executor, Gathered
from rayfed.messages import Ask, Reply, Wait
from rayfed.selection import View as Candidates

NOT_FINITE = "is not finite"
"""What the reason of a run that diverged says."""
_SLACK = 1e-9  # 1.1 times a cohort of 10 is 11, though 10 * 1.1 > 11 in floating point


class NoReply(Exception):
    """Nobody's reply can be used."""


class Nobody(NoReply):
    """There is nobody to ask."""


class Engine:
    """Answers the Asks of one run.

    Parameters
    ----------
    run : Run
        What to run.
    executor : Executor
        Where the clients live; the run is open there under its folder's name.
    """

    def __init__(self, run: Run, executor: Executor) -> None:
        self.run, self.executor = run, executor
        self.budgets = Budgets(run)
        self.clock = Clock(run, self.budgets)
        self.measures = Measures(run, self._exchange)
        self.cache: dict[str, Any] = {}

    def start(self) -> tuple[RunState, Row]:
        """Return the state before the first round and its row."""
        run = self.run
        state = run.algorithm.init(run.x0)
        selection = run.selection.init(run.population.count)
        examined = run.examiner.init() if run.examiner else {}
        moment = RunState(
            0, 0.0, state, selection, self.budgets.init(), (state["x"],), examined=examined
        )
        row, own, examined = self._row(moment, RoundStats(0.0, 0.0), {}, due=True)
        return replace(moment, last=Last(row["loss"]), own=own, examined=examined), row

    def step(self, moment: RunState) -> tuple[RunState, Row, list[Events]]:
        """Run one round.

        Raises
        ------
        RunFailed
            If a client half raised; the message has its id, the round, the time and the trace.
        HostLost
            If a host died: go back to a checkpoint.
        """
        run, number = self.run, moment.round + 1
        tally = RoundStats(moment.time_s, moment.time_s, moment.lengths)
        state, selection, lengths = moment.state, moment.selection, moment.lengths
        diagnostics: Mapping[str, float] = {}
        skew: Mapping[str, float] = {}
        answered = True
        try:
            ids, selection = self._select(number, tally, moment)
            tally.start_s = tally.time_s
            if run.skew and number % run.evaluate_every == 0:
                skew = self._skew(number, tally, moment, ids)
            visited = selection.get("position")
            state, diagnostics = self._converse(number, tally, state, ids, visited)
        except NoReply:
            answered = False
        for reply in tally.heard:
            if run.selection.listens:
                selection = run.selection.learn(selection, reply)
            lengths = self.budgets.learn(lengths, reply, number, tally.time_s)
        window = (*moment.window, state["x"])[-run.algorithm.evaluate_last :]
        after = RunState(
            number, tally.time_s, state, selection, lengths, window, examined=moment.examined
        )
        place = {name: float(selection[name]) for name in names(run.selection.diagnostics)}
        told = {**self._declared(after, diagnostics), **skew, **place}
        moved = math.nan
        if "model_change" in run.stop.columns and state is not moment.state:
            moved = told["model_change"] = distance(state["x"], moment.state["x"])
        due = self._due(after, moved)
        row, own, examined = self._row(after, tally, told, due)
        last, change = moment.last.after(row, answered, due)
        if "loss_change" in run.stop.columns:
            row["loss_change"] = change
        own = own or moment.own
        return replace(after, last=last, own=own, examined=examined), row, tally.events

    def _due(self, moment: RunState, moved: float) -> bool:
        """Whether the row of a moment is evaluated; a run's last row always is."""
        run = self.run
        over = moment.round == run.rounds or run.stop.unevaluated(moment.time_s, moved)
        return over or moment.round % run.evaluate_every == 0

    def _skew(
        self, number: int, tally: RoundStats, moment: RunState, ids: Ints
    ) -> Mapping[str, float]:
        """Return the selection skew of a cohort (K,), and what was to be expected of it."""
        x, rule = moment.state["x"], self.run.selection
        view = self._candidates(number, tally, x)

        def shares(losses: Floats) -> Floats | None:
            return rule.expected_shares(view, moment.selection, losses, self.run.skew_draws)

        return self.measures.skew(x, ids, at(moment), shares)

    # -- a round ---------------------------------------------------------------------------

    def _select(
        self, number: int, tally: RoundStats, moment: RunState
    ) -> tuple[Ints, Mapping[str, Array]]:
        """Return the drawn ids; where nobody is there, jump to when somebody comes."""
        selection = moment.selection
        while True:
            rule = self.run.selection.select(
                self._candidates(number, tally, moment.state["x"]), selection
            )
            try:
                ids, selection = self._answer_all(rule, "selection", number, tally, None)
                if len(ids):
                    return ids, selection
            except Nobody:  # it would have polled its candidates
                pass
            if not self._jump(tally):
                raise Nobody

    def _candidates(self, number: int, tally: RoundStats, x: Array) -> Candidates:
        run, pop = self.run, self.run.population
        wanted = pop.count
        if run.cohort is not None:
            wanted = math.ceil(run.cohort * run.over_select - _SLACK)
        return Candidates(
            count=pop.count,
            round=number,
            time_s=tally.time_s,
            wanted=min(wanted, pop.count),
            available=lambda ids: pop.available(ids, tally.time_s, number),
            mass=run.views[""].shards.mass,
            x=x,
            steps=self.budgets.reading,
            seed=run.seed,
            graphs=run.graphs,
            cache=self.cache,
        )

    def _jump(self, tally: RoundStats) -> bool:
        """Move the clock to the next change of anybody's availability; False if there is none."""
        everyone = np.arange(self.run.population.count)
        change = float(np.min(self.run.population.next_change(everyone, tally.time_s)))
        if not math.isfinite(change):
            return False
        tally.time_s = tally.start_s = change
        return True

    def _converse(
        self,
        number: int,
        tally: RoundStats,
        state: Mapping[str, Array],
        ids: Ints,
        visited: Array | None,
    ) -> tuple[Mapping[str, Array], Mapping[str, float]]:
        rounds = self.run.algorithm.round(state)
        told: tuple[Mapping[str, Array], Mapping[str, float]]
        told = self._answer_all(rounds, "algorithm", number, tally, ids, visited)
        return told

    def _answer_all(
        self,
        asks: Generator[Ask | Wait, Reply, Any],
        owner: str,
        number: int,
        tally: RoundStats,
        cohort: Ints | None,
        visited: Array | None = None,
    ) -> Any:
        """Answer a generator's Asks until it returns; later ones go to those who answered."""
        reply, fresh = None, owner == "algorithm"  # whether the whole cohort is still to be asked
        try:
            while True:
                ask = next(asks) if reply is None else asks.send(reply)
                if isinstance(ask, Wait):
                    tally.time_s, reply = tally.time_s + ask.seconds, None
                    continue
                everybody = ask.clients is None
                ids = cohort if ask.clients is None else ask.clients
                if isinstance(ids, str):
                    ids = None if visited is None else visited.reshape(1)
                if ids is None:
                    raise RunFailed(f"'{ask.work}' asks clients that its {owner} does not know")
                reply = self._answer(ask, owner, number, tally, ids, fresh and everybody)
                if everybody:
                    fresh, cohort = False, reply.ids.repeat(self._draws(ids, reply.ids))
        except StopIteration as end:
            return end.value
        finally:
            asks.close()

    @staticmethod
    def _draws(ids: Ints, used: Ints) -> Ints:
        """Return how often each used client was drawn."""
        distinct, counts = _distinct(ids)
        return np.asarray(counts[np.searchsorted(distinct, used)])

    # -- one Ask ---------------------------------------------------------------------------

    def _answer(
        self, ask: Ask, owner: str, number: int, tally: RoundStats, drawn: Ints, first: bool = False
    ) -> Reply:
        """Ask clients; the first Ask to an over-selected cohort takes the first replies only."""
        if ask.vectors and not (owner == "algorithm" and self.run.algorithm.sees_vectors):
            raise RunFailed(f"'{ask.work}' asks for vectors; declare `sees_vectors`")
        ids, counts = _distinct(drawn)
        if not len(ids):
            raise Nobody
        timing = self.clock.timing(ask, owner, number, tally, ids)
        status, close = self.clock.arrivals(tally, ids, timing, self.run.cohort if first else None)
        used = status == 0
        mass = self.run.views[""].shards.mass(ids)
        raw = counts * (mass if self.run.weights == "size" else 1.0)
        request = Request(
            owner, ask.work, ask.up, ids, raw.astype(np.float64), timing["steps"],
            self.run.population.group_of(ids), number, tally.ask,
            vectors=ask.vectors,
            sleep_s=self.clock.sleep(tally, timing),
            plain=ask.plain,
        )  # fmt: skip
        gathered = None
        if used.any():
            request = request if used.all() else request.part(np.flatnonzero(used))
            when = f"round {number}, time {tally.time_s:.6g} s"
            gathered = self._exchange(request, ask.send, when)
        self._count(ask, owner, number, tally, ids, timing, status, gathered)
        tally.time_s, tally.ask = close, tally.ask + 1
        if gathered is None:
            raise NoReply
        reply = reply_of(request, gathered, self.run.population.count)
        if self.clock.heard(ask, owner):
            tally.heard.append(reply)
        return reply

    def _exchange(self, request: Request, send: Mapping[str, Array], when: str) -> Gathered:
        try:
            return self.executor.exchange(self.run.folder, request, send)
        except ClientFailed as failed:
            raise RunFailed(
                f"{when}, client {failed.client}, '{request.work}' failed:\n{failed.trace}"
            ) from failed

    def _count(
        self,
        ask: Ask,
        owner: str,
        number: int,
        tally: RoundStats,
        ids: Ints,
        timing: Mapping[str, Array],
        status: Array,
        gathered: Gathered | None,
    ) -> None:
        """Add an Ask to the round's counts and its events."""
        used = status == 0
        answered, late, dropped = np.bincount(status, minlength=len(STATUS)).tolist()
        down, up = self.clock.bytes(ask, owner)
        counts = tally.counts
        if owner == "algorithm" and ask.clients is None:
            counts["participants"] = answered
        counts["late"] += late
        counts["dropped"] += dropped
        counts["bytes_down"] += down * len(ids)
        counts["bytes_up"] += up * (len(ids) - dropped)
        counts["local_steps"] += int(timing["steps"][used].sum())
        loss = np.full(len(ids), np.nan)
        if gathered is not None and "loss" in gathered.each:
            loss[used] = gathered.each["loss"]
        tally.events.append(
            {
                "round": np.full(len(ids), number),
                "ask": np.full(len(ids), tally.ask),
                "client": ids,
                "start_s": np.full(len(ids), tally.time_s),
                "compute_s": timing["compute_s"],
                "end_s": np.minimum(timing["end_s"], timing["gone_s"]),
                "status": status,
                "loss": loss,
                "steps": timing["steps"],
            }
        )

    # -- evaluation ------------------------------------------------------------------------

    def _row(
        self, moment: RunState, tally: RoundStats, diagnostics: Mapping[str, float], due: bool
    ) -> tuple[Row, Mapping[str, Array], Mapping[str, Array]]:
        """Return a row, what is kept of the clients' own models, and the examiner's state."""
        run, examined = self.run, moment.examined
        own: Mapping[str, Array] = {}
        row: Row = {
            "algorithm": run.algorithm.name, "label": run.label, "seed": run.seed,
            "round": moment.round, "time_s": moment.time_s, **dict.fromkeys(SCORES, math.nan),
            **tally.counts,
            **dict.fromkeys((*self.measures.columns, *run.stop.columns), math.nan),
            **dict.fromkeys(names(run.selection.diagnostics), math.nan),
            **dict.fromkeys(names(run.algorithm.diagnostics), math.nan),
        }  # fmt: skip
        row |= {k: float(v) for k, v in diagnostics.items()}
        if due:
            coming = NextRound(moment.round + 1, moment.state, moment.lengths)
            found, own = self.measures.of(moment.model, coming, at(moment))
            figures, examined = self.measures.examine(examined, coming, at(moment))
            row |= {**found, **figures}
        return row, own, examined

    def _declared(self, moment: RunState, diagnostics: Mapping[str, float]) -> Mapping[str, float]:
        """Refuse a diagnostic that would be lost: the table's columns are those of its row 0."""
        algorithm = self.run.algorithm
        extra = sorted(diagnostics.keys() - names(algorithm.diagnostics))
        if extra:
            raise RunFailed(
                f"round {moment.round}: '{algorithm.name}' returns {', '.join(extra)}, which its "
                "`diagnostics` do not declare; add the name there"
            )
        return diagnostics

    def failure(self, moment: RunState, row: Row) -> str | None:
        """Return why the run cannot go on, or None: the model or the loss is not finite."""
        finite = bool(np.isfinite(moment.state["x"]).all())
        due = self._due(moment, row.get("model_change", math.nan))
        if finite and (math.isfinite(row["loss"]) or not due):
            return None
        what = "the loss" if finite else "the model"
        algorithm, step = self.run.algorithm, ""
        if algorithm.local_steps and isinstance(algorithm.local, Descent):
            step = f" (local lr {algorithm.local.rate(moment.round):g})"
        return f"round {moment.round}: {what} {NOT_FINITE}; likely the step is too large{step}"


def _distinct(drawn: Ints) -> tuple[Ints, Ints]:
    """Return the drawn ids without repeats, ascending, and how often each was drawn."""
    if (drawn[1:] > drawn[:-1]).all():
        return drawn, np.ones(len(drawn), dtype=np.int64)
    return np.unique(drawn, return_counts=True)
