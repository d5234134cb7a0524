"""The loop of one run: who is asked, how long it takes, who is late, what the model is worth.

The engine moves from one round to the next; everything between two rounds is values, so a
checkpoint is those values and a replay gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rayfed.algorithms.base import Array, Ask, Reply
from rayfed.budgets import Budgets
from rayfed.diagnosis import Coming
from rayfed.errors import RunFailed
from rayfed.executors.base import ClientFailed, Executor, Gathered
from rayfed.host import Request
from rayfed.measures import SCORES, Measures
from rayfed.replies import reply_of
from rayfed.runs import Run
from rayfed.selection import View as Candidates
from rayfed.selection import Wait
from rayfed.solvers import Descent
from rayfed.stopping import Last, distance
from rayfed.tree import Ints

Row = dict[str, Any]
Events = dict[str, Array]

COUNTS = ("participants", "dropped", "late", "bytes_down", "bytes_up", "local_steps")
NOT_FINITE = "is not finite"
"""What the reason of a run that diverged says."""

STATUS = ("used", "late", "dropped")
_SLACK = 1e-9  # 1.1 times a cohort of 10 is 11, though 10 * 1.1 > 11 in floating point


@dataclass(frozen=True)
class Moment:
    """Everything that a run is between two rounds, apart from the clients' own state.

    Parameters
    ----------
    round : int
        The last round that was run.
    time_s : float
        Virtual clock.
    state, selection, lengths : mapping of str to array
        The server's state, the selection's, and that of local work whose length changes.
    window : tuple of (p,) arrays
        The last iterates, for ``evaluate_last``; the newest last.
    last : Last
        What the next evaluated row is compared with.
    """

    round: int
    time_s: float
    state: Mapping[str, Array]
    selection: Mapping[str, Array]
    lengths: Mapping[str, Array]
    window: tuple[Array, ...]
    last: Last = Last()

    @property
    def model(self) -> Array:
        """The model that is evaluated: the mean of the window."""
        if len(self.window) == 1:
            return self.window[0]
        mean: Array = np.mean(np.stack(self.window), axis=0, dtype=self.window[0].dtype)
        return mean


@dataclass
class Tally:
    """What a round costs, counted while it runs."""

    time_s: float
    start_s: float
    lengths: Mapping[str, Array] = field(default_factory=dict)
    ask: int = 0
    heard: list[Reply] = field(default_factory=list)
    """Replies that the selection and the lengths of local work learn from."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    events: list[Events] = field(default_factory=list)


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
        self.measures = Measures(run, self._exchange)
        self.itemsize = run.dtype.itemsize
        self.cache: dict[str, Any] = {}

    def start(self) -> tuple[Moment, Row]:
        """Return the state before the first round and its row."""
        run = self.run
        state = run.algorithm.init(run.x0)
        selection = run.selection.init(run.population.count)
        moment = Moment(0, 0.0, state, selection, self.budgets.init(), (state["x"],))
        row = self._row(moment, Tally(0.0, 0.0), {}, due=True)
        return replace(moment, last=Last(row["loss"])), row

    def step(self, moment: Moment) -> tuple[Moment, Row, list[Events]]:
        """Run one round.

        Raises
        ------
        RunFailed
            If a client half raised; the message has its id, the round, the time and the trace.
        HostLost
            If a host died: go back to a checkpoint.
        """
        run, number = self.run, moment.round + 1
        tally = Tally(moment.time_s, moment.time_s, moment.lengths)
        state, selection, lengths = moment.state, moment.selection, moment.lengths
        diagnostics: Mapping[str, float] = {}
        skew: Mapping[str, float] = {}
        answered = True
        try:
            ids, selection = self._select(number, tally, moment)
            tally.start_s = tally.time_s
            if run.skew and number % run.evaluate_every == 0:
                skew = self.measures.skew(moment.state["x"], ids, at(moment))
            state, diagnostics = self._converse(number, tally, state, ids)
        except NoReply:
            answered = False
        for reply in tally.heard:
            if run.selection.listens:
                selection = run.selection.learn(selection, reply)
            lengths = self.budgets.learn(lengths, reply, number, tally.time_s)
        window = (*moment.window, state["x"])[-run.algorithm.evaluate_last :]
        after = Moment(number, tally.time_s, state, selection, lengths, window)
        place = {name: float(selection[name]) for name in run.selection.diagnostics}
        told = {**self._declared(after, diagnostics), **skew, **place}
        moved = math.nan
        if "model_change" in run.stop.columns and state is not moment.state:
            moved = told["model_change"] = distance(state["x"], moment.state["x"])
        due = self._due(after, moved)
        row = self._row(after, tally, told, due)
        last, change = moment.last.after(row["loss"], answered, due)
        if "loss_change" in run.stop.columns:
            row["loss_change"] = change
        return replace(after, last=last), row, tally.events

    def _due(self, moment: Moment, moved: float) -> bool:
        """Whether the row of a moment is evaluated; a run's last row always is."""
        run = self.run
        over = moment.round == run.rounds or run.stop.unevaluated(moment.time_s, moved)
        return over or moment.round % run.evaluate_every == 0

    # -- a round ---------------------------------------------------------------------------

    def _select(
        self, number: int, tally: Tally, moment: Moment
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

    def _candidates(self, number: int, tally: Tally, x: Array) -> Candidates:
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

    def _jump(self, tally: Tally) -> bool:
        """Move the clock to the next change of anybody's availability; False if there is none."""
        everyone = np.arange(self.run.population.count)
        change = float(np.min(self.run.population.next_change(everyone, tally.time_s)))
        if not math.isfinite(change):
            return False
        tally.time_s = tally.start_s = change
        return True

    def _converse(
        self, number: int, tally: Tally, state: Mapping[str, Array], ids: Ints
    ) -> tuple[Mapping[str, Array], Mapping[str, float]]:
        rounds = self.run.algorithm.round(state)
        told: tuple[Mapping[str, Array], Mapping[str, float]]
        told = self._answer_all(rounds, "algorithm", number, tally, ids)
        return told

    def _answer_all(
        self,
        asks: Generator[Ask | Wait, Reply, Any],
        owner: str,
        number: int,
        tally: Tally,
        cohort: Ints | None,
    ) -> Any:
        """Answer a generator's Asks until it returns; later ones go to those who answered."""
        reply = None
        try:
            while True:
                ask = next(asks) if reply is None else asks.send(reply)
                if isinstance(ask, Wait):
                    tally.time_s, reply = tally.time_s + ask.seconds, None
                    continue
                ids = ask.clients if ask.clients is not None else cohort
                if ids is None:
                    raise RunFailed("a selection must name the clients that it asks")
                first = reply is None and owner == "algorithm"
                reply = self._answer(ask, owner, number, tally, ids, first)
                if ask.clients is None:
                    cohort = reply.ids.repeat(self._draws(ids, reply.ids))
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
        self, ask: Ask, owner: str, number: int, tally: Tally, drawn: Ints, first: bool = False
    ) -> Reply:
        """Ask clients; the first Ask to an over-selected cohort takes the first replies only."""
        if ask.vectors and not (owner == "algorithm" and self.run.algorithm.sees_vectors):
            raise RunFailed(f"'{ask.work}' asks for vectors; declare `sees_vectors`")
        ids, counts = _distinct(drawn)
        if not len(ids):
            raise Nobody
        timing = self._timing(ask, owner, number, tally, ids)
        status, close = self._arrivals(tally, ids, timing, self.run.cohort if first else None)
        used = status == 0
        mass = self.run.views[""].shards.mass(ids)
        raw = counts * (mass if self.run.weights == "size" else 1.0)
        request = Request(
            owner, ask.work, ask.up, ids, raw.astype(np.float64), timing["steps"],
            self.run.population.group_of(ids), number, tally.ask,
            vectors=ask.vectors,
            sleep_s=self._sleep(tally, timing),
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
        if self._heard(ask, owner):
            tally.heard.append(reply)
        return reply

    def _heard(self, ask: Ask, owner: str) -> bool:
        """Whether anything learns from the losses of an Ask's local steps."""
        trained = owner == "algorithm" and isinstance(ask.cost, str)
        return trained and (self.run.selection.listens or self.budgets.listens)

    def _timing(
        self, ask: Ask, owner: str, number: int, tally: Tally, ids: Ints
    ) -> dict[str, Array]:
        """Return what an Ask takes each client, in virtual seconds."""
        pop = self.run.population
        pace = pop.seconds_per_step(ids, number, tally.ask)
        local = isinstance(ask.cost, str)
        steps = np.zeros(len(ids), dtype=np.int64)
        if local:
            steps = self.budgets.steps(ids, pace, number, tally.lengths)
        compute = pace * self._cost(ask, ids, steps)
        down_bytes, up_bytes = self._bytes(ask, owner)
        down, up = pop.transfer_s(ids, down_bytes, up_bytes)
        gone = pop.next_change(ids, tally.time_s)
        if tally.ask:  # some may have left since the Ask before
            gone = np.where(pop.available(ids, tally.time_s, number), gone, tally.time_s)
        return {
            "steps": steps,
            "compute_s": compute,
            "end_s": tally.time_s + down + compute + up,
            "gone_s": gone,
        }

    def _cost(self, ask: Ask, ids: Ints, steps: Ints) -> float | Array:
        """Return the steps or step-equivalents of an Ask, for all or for each client (K,)."""
        sizes = self.run.views[""].shards.sizes(ids)
        cost: float | Array
        if isinstance(ask.cost, str):
            cost = steps * ask.each_step
        else:
            cost = ask.cost(ids, sizes) if callable(ask.cost) else ask.cost
        if not ask.passes:
            return cost
        passes = ask.passes(ids, sizes) if callable(ask.passes) else ask.passes
        return cost + passes * self.budgets.reading(ids)

    def _bytes(self, ask: Ask, owner: str) -> tuple[int, int]:
        down = sum(int(np.asarray(v).nbytes) for v in ask.send.values())
        up = sum(self.itemsize * n if n > 1 else 8 * n for n in ask.up.values())
        up += 8 * self._heard(ask, owner)
        return (0, 0) if self.run.algorithm.pooled else (down, up)

    def _arrivals(
        self, tally: Tally, ids: Ints, timing: Mapping[str, Array], limit: int | None
    ) -> tuple[Array, float]:
        """Decide on the virtual clock who is used (0), late (1) or dropped (2), and the end.

        The server waits for all, for the first `limit` of an over-selected cohort, or until the
        deadline. It notices at once when a client goes away.
        """
        end, gone = timing["end_s"], timing["gone_s"]
        deadline = math.inf
        if self.run.deadline_s is not None:
            deadline = tally.start_s + self.run.deadline_s
        status = np.where(gone < end, 2, 0)
        settled = np.minimum(end, gone)
        close = float(settled.max(initial=tally.time_s))
        if limit is not None and np.count_nonzero(status == 0) > limit:
            order = np.lexsort((ids, end))
            arrived = order[status[order] == 0]
            status[arrived[limit:]] = 1
            close = float(end[arrived[limit - 1]])
        close = max(min(close, deadline), tally.time_s)
        status[(status == 0) & (end > deadline)] = 1
        status[(status == 2) & (gone > close)] = 1  # it left after the server had closed
        return status, close

    def _sleep(self, tally: Tally, timing: Mapping[str, Array]) -> Array | None:
        """Return how long the actors sleep under ``clock: wall``; it decides nothing."""
        if self.run.wall_scale is None:
            return None
        return np.asarray((timing["end_s"] - tally.time_s) * self.run.wall_scale)

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
        tally: Tally,
        ids: Ints,
        timing: Mapping[str, Array],
        status: Array,
        gathered: Gathered | None,
    ) -> None:
        """Add an Ask to the round's counts and its events."""
        used, late, dropped = ((status == s) for s in range(3))
        down, up = self._bytes(ask, owner)
        counts = tally.counts
        if owner == "algorithm" and ask.clients is None:
            counts["participants"] = int(used.sum())
        counts["late"] += int(late.sum())
        counts["dropped"] += int(dropped.sum())
        counts["bytes_down"] += down * len(ids)
        counts["bytes_up"] += up * int(len(ids) - dropped.sum())
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
        self, moment: Moment, tally: Tally, diagnostics: Mapping[str, float], due: bool
    ) -> Row:
        run = self.run
        row: Row = {
            "algorithm": run.algorithm.name, "label": run.label, "seed": run.seed,
            "round": moment.round, "time_s": moment.time_s, **dict.fromkeys(SCORES, math.nan),
            **tally.counts,
            **dict.fromkeys((*self.measures.columns, *run.stop.columns), math.nan),
            **dict.fromkeys(run.selection.diagnostics, math.nan),
            **dict.fromkeys(run.algorithm.diagnostics, math.nan),
        }  # fmt: skip
        row |= {k: float(v) for k, v in diagnostics.items()}
        if due:
            coming = Coming(moment.round + 1, moment.state, moment.lengths)
            row |= self.measures.of(moment.model, coming, at(moment))
        return row

    def _declared(self, moment: Moment, diagnostics: Mapping[str, float]) -> Mapping[str, float]:
        """Refuse a diagnostic that would be lost: the table's columns are those of its row 0."""
        algorithm = self.run.algorithm
        extra = sorted(set(diagnostics) - set(algorithm.diagnostics))
        if extra:
            raise RunFailed(
                f"round {moment.round}: '{algorithm.name}' returns {', '.join(extra)}, which its "
                "`diagnostics` do not declare; add the name there"
            )
        return diagnostics

    def failure(self, moment: Moment, row: Row) -> str | None:
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


def at(moment: Moment) -> str:
    """Return when the model of a moment is evaluated, for messages."""
    return f"evaluation of round {moment.round}, time {moment.time_s:.6g} s"


def _distinct(drawn: Ints) -> tuple[Ints, Ints]:
    """Return the drawn ids without repeats, ascending, and how often each was drawn."""
    if (drawn[1:] > drawn[:-1]).all():
        return drawn, np.ones(len(drawn), dtype=np.int64)
    return np.unique(drawn, return_counts=True)
