"""The policy of rounds: a cohort is selected, the algorithm asks it, and the server waits."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.columns import names
from rayfed.core.errors import RunFailed
from rayfed.core.needs import GRAPHS
from rayfed.engine.cohort import Cohorts, Others
from rayfed.engine.exchange import Asker, Exchange, NobodyToAsk, NoReply
from rayfed.engine.measuring import Measures, RequestedCohort
from rayfed.engine.run import ENDLESS, Run
from rayfed.engine.state import Measured, RoundStats, RunState, ServerFunction
from rayfed.engine.tasks import USED, columns_of, distinct
from rayfed.executors.profile import Profile
from rayfed.messages import Ask, Diagnostics, Reply, State, Wait
from rayfed.selection import SelectionView
from rayfed.selection.draws import chunks

Result = TypeVar("Result")

MOST_CHANGES = 100_000
"""Changes of availability that a selection waits for in one round."""
_FIRST_LOOK = 64  # clients
_LAST_LOOK = 1_000  # rounds in which somebody may be available, if nothing else ends a run


class RoundPolicy:
    """Advances one run, round by round.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : Exchange
        Asks its clients.
    server_function : ServerFunction
    measures : Measures
        For what measures say of cohorts.
    """

    def __init__(
        self, run: Run, exchange: Exchange, server_function: ServerFunction, measures: Measures
    ) -> None:
        self.run, self.exchange, self.measures = run, exchange, measures
        self.server_function, self.counter = server_function, exchange.counter
        self.cohorts, self.round_s = Cohorts(run, exchange), run.round_s

    def profile(self, profile: Profile) -> None:
        """Measure the steps of rounds from now on."""
        profile.watch(self.cohorts, "answer", "clock")
        profile.watch(self.exchange, "reply", "adding up")
        for method in ("_select", "_corrected", "_learn"):
            profile.watch(self, method, "selection")
        profile.watch(self, "_measured", "evaluation", inclusive=True)

    def first(self, first: RunState) -> RunState:
        """Return the state before the first round."""
        stays = self.run.participation.late == "stale"
        return replace(first, timeline=self.cohorts.timeline() if stays else None)

    # -- a round ---------------------------------------------------------------------------

    def advance(
        self, before: RunState, stats: RoundStats
    ) -> tuple[dict[str, Any], dict[str, float], bool]:
        """Run a round and count its costs in its statistics.

        Returns
        -------
        changes : dict
            Fields of `RunState` that differ after it, other than those in the statistics.
        values : dict of str to float
            Columns of its row.
        answered : bool
            Whether anybody did.
        """
        rule = self.run.participation.select
        state, selection = before.state, before.selection
        if before.timeline is not None:
            stats.timeline = self.cohorts.timeline(before.timeline)
        self.exchange.look_at(stats.round)
        diagnostics: Diagnostics = {}
        values: Mapping[str, float] = {}
        changes: dict[str, Any] = {}
        answered, end_s = True, None
        try:
            ids, selection = self._select(before, stats)
            stats.start_s = stats.time_s
            if self.round_s is not None:
                end_s = stats.start_s + self.round_s
            if len(ids):
                values, changes["measured"] = self._measured(before, ids, stats)
            if self.run.participation.correct is not None and len(ids):
                stats.corrected = self._corrected(before, ids, stats)
            asks = self.server_function.asks(self.run.round(state), stats.round)
            visited = rule.visited(selection)
            returned = self._answer_all(asks, "algorithm", before, stats, ids, visited)
            state, diagnostics = self.server_function.result(returned, state, stats.round)
        except NoReply:
            answered = False
        stats.time_s = stats.time_s if end_s is None else end_s
        selection, step_state = self._learn(selection, before.step_state, stats)
        changes |= {"state": state, "selection": selection, "step_state": step_state}
        if stats.corrected is not None:
            tasks = [ended.tasks for ended in stats.ended[-1:]]
            clients, status = columns_of(tasks, "client", "status")
            ids = np.sort(clients[status == USED])
            learn = self.exchange.correction.learn
            changes["correction"] = learn(before.correction, ids, stats.round)
        place = {name: float(selection[name]) for name in names(rule.diagnostics)}
        private = self.exchange.private
        if private is not None and private.clip.adaptive is not None:
            place["clip_norm"] = private.norm(before.channel)
        late = {} if stats.timeline is None else stats.lateness(len(stats.timeline))
        return changes, {**diagnostics, **values, **place, **late}, answered

    def _learn(self, selection: State, step_state: State, stats: RoundStats) -> tuple[State, State]:
        """Return the states of the selection and the step counter after the replies of a round."""
        rule = self.run.participation.select
        for reply in stats.replies:
            if rule.listens:
                selection = rule.learn(selection, reply)
            step_state = self.counter.learn(step_state, reply, stats.round, stats.time_s)
        return selection, step_state

    def _measured(
        self, before: RunState, ids: Ints, stats: RoundStats
    ) -> tuple[Mapping[str, float], Measured]:
        """Return the measures of a cohort if the row is evaluated, and their state."""
        measuring, rule = self.run.measuring, self.run.participation.select
        if not measuring.uses("cohort") or (before.round + 1) % measuring.every:
            return {}, before.measured
        x = before.state["x"]
        view = self._selection_view(x, stats)

        def shares(losses: Floats, draws: int) -> Floats | None:
            return rule.expected_shares(view, before.selection, losses, draws)

        return self.measures.measured(before, x, {}, RequestedCohort(ids, shares))

    def _corrected(self, before: RunState, ids: Ints, stats: RoundStats) -> Floats:
        """Return the weights (K,) of the distinct clients of a cohort."""
        view, correction = self._selection_view(before.state["x"], stats), self.exchange.correction
        return correction.weights(view, before.selection, before.correction, *distinct(ids))

    # -- selection -------------------------------------------------------------------------

    def _select(self, before: RunState, stats: RoundStats) -> tuple[Ints, State]:
        """Return the drawn ids and the selection's new state.

        If fewer than ``participation.minimum`` clients, or none, are available, the clock jumps to
        the next change of the availability of a client that the selection waits for.

        Raises
        ------
        NobodyToAsk
            If there is no such change, if the round does not wait, or if it has waited too long.
        RunFailed
            If none is available after `MOST_CHANGES` of them, or if nothing will ever end the run.
        """
        participation, selection = self.run.participation, before.selection
        latest_s = stats.time_s + (participation.patience_s or math.inf)
        for _ in range(MOST_CHANGES):
            enough = self._enough(stats)
            if enough:
                asks = participation.select.select(
                    self._selection_view(before.state["x"], stats), selection
                )
                try:
                    ids, selection = self._answer_all(asks, "selection", before, stats)
                    if len(ids) or (participation.select.may_be_empty and self._anybody(stats)):
                        return ids, selection
                except NobodyToAsk:  # it would have polled its candidates
                    pass
            if not self._jump(before, selection, stats, latest_s):
                raise NobodyToAsk
            if not enough and participation.if_fewer == "skip":
                raise NobodyToAsk
        name = self.run.participation.select.name
        raise RunFailed(
            f"round {stats.round}: after {MOST_CHANGES:,} changes of availability, at "
            f"{stats.time_s:.6g} s, '{name}' found no available client; increase availability"
        )

    def _selection_view(self, x: Array, stats: RoundStats) -> SelectionView:
        """Return the selection's view of a round."""
        wanted = self.run.participation.asked(self.run.federation.population.count)
        return self.exchange.selection_view(
            stats.round, stats.time_s, wanted, lambda ids: self._free(ids, stats), x=x
        )

    @property
    def _wanted(self) -> int | None:
        """The replies after which a round is over; None if all are waited for."""
        participation = self.run.participation
        return None if participation.select.may_be_empty else participation.cohort

    def _others(self, before: RunState, stats: RoundStats) -> Others | None:
        """Return the selection of substitutes for failed clients; None without one."""
        rule = self.run.participation
        if rule.retry != "other" or not rule.retries:
            return None

        def others(count: int, now_s: float, asked: Ints) -> Ints:
            view = self._selection_view(before.state["x"], replace(stats, time_s=now_s))

            def idle(ids: Ints) -> Bools:
                return view.available(ids) & ~np.isin(ids, asked)

            found = replace(view, wanted=min(count, view.count), available=idle)
            return rule.select.at_once(found, before.selection)[:count]

        return others

    def _free(self, ids: Ints, stats: RoundStats) -> Bools:
        """Return a mask (K,) of clients that are available and not busy with an earlier round."""
        present = self.run.federation.population.available(ids, stats.time_s, stats.round)
        if self.exchange.private is not None:
            resting = self.exchange.private.at_rest(stats.channel, stats.round)
            present = present & ~np.isin(ids, resting)
        if (batteries := self.exchange.batteries) is not None:
            present = present & batteries.charged(stats.batteries, ids, stats.time_s)
        if stats.timeline is None:
            return present
        self.cohorts.catch_up(stats)
        return present & ~np.isin(ids, stats.timeline.busy_clients)

    def _anybody(self, stats: RoundStats) -> bool:
        """Whether anybody is there at all."""
        return any(self._free(ids, stats).any() for ids in
                   chunks(self.run.federation.population.count, _FIRST_LOOK))  # fmt: skip

    def _enough(self, stats: RoundStats) -> bool:
        """Whether as many clients are there as a round needs; it looks at no more than it has to.

        Whether anybody is there at all is left to the selection.
        """
        missing, count = self.run.participation.minimum, self.run.federation.population.count
        if missing == 1:
            return True
        for ids in chunks(count, max(_FIRST_LOOK, missing)):
            missing -= int(np.count_nonzero(self._free(ids, stats)))
            if missing <= 0:
                return True
        return False

    def _jump(self, before: RunState, selection: State, stats: RoundStats, latest_s: float) -> bool:
        """Move the clock to the next change that the selection waits for; False if none comes.

        Where late replies are used, it also waits for the next client that is done. Clients that
        privacy lets rest are not waited for. A change after `latest_s` is none: the clock moves to
        `latest_s`.

        Raises
        ------
        RunFailed
            If none ever comes, and only participants could end the run.
        """
        population = self.run.federation.population
        view = self._selection_view(before.state["x"], stats)
        awaited = self.run.participation.select.awaited(view, selection)
        ids = np.arange(population.count) if awaited is None else awaited
        if self.exchange.private is not None:
            resting = self.exchange.private.at_rest(stats.channel, stats.round)
            ids = ids[~np.isin(ids, resting)]
        change = float(np.min(population.next_change(ids, stats.time_s), initial=math.inf))
        if (batteries := self.exchange.batteries) is not None:
            change = min(change, batteries.return_s(stats.batteries, ids, stats.time_s))
        if stats.timeline is not None:
            self.cohorts.catch_up(stats)
            change = min(change, stats.timeline.next_over_s())
        if not math.isfinite(min(change, latest_s)):
            graphs = GRAPHS in self.run.participation.select.needs
            if self.run.ending.rounds == ENDLESS and not (graphs or self._returns(ids, stats)):
                raise RunFailed(
                    f"round {stats.round}: at {stats.time_s:.6g} s no client is available, and no "
                    "changes of availability are left; give rounds to end the run"
                )
            return False
        stats.time_s = stats.start_s = min(change, latest_s)
        return change <= latest_s

    def _returns(self, ids: Ints, stats: RoundStats) -> bool:
        """Whether one of clients (K,) is available in a round to come, at the time of this one."""
        population, batteries = self.run.federation.population, self.exchange.batteries
        if not population.by_round:
            return False
        if batteries is not None:
            ids = ids[batteries.charged(stats.batteries, ids, stats.time_s)]
        rounds = range(stats.round + 1, stats.round + 1 + _LAST_LOOK)
        return any(population.available(ids, stats.time_s, round).any() for round in rounds)

    # -- asking ----------------------------------------------------------------------------

    def _answer_all(
        self,
        asks: Generator[Ask | Wait, Reply, Result],
        owner: Asker,
        before: RunState,
        stats: RoundStats,
        cohort: Ints | None = None,
        visited: int | None = None,
    ) -> Result:
        """Answer the Asks of a generator until it returns, and return its result.

        Asks to the cohort after the first go to those of it who answered; edge servers ask their
        whole cohorts each time.
        """
        reply: Reply | None = None
        first_ask = True  # no client of the cohort has been asked yet
        try:
            while True:
                ask = next(asks) if reply is None else asks.send(reply)
                if owner == "algorithm":
                    ask = self.server_function.ask(ask, stats.round)
                if isinstance(ask, Wait):
                    stats.time_s, reply = stats.time_s + ask.seconds, None
                    continue
                ids = _asked(ask, owner, cohort, visited)
                to_cohort = ask.clients is None
                first = self._wanted if to_cohort and first_ask else None
                others = self._others(before, stats) if to_cohort and first_ask else None
                reply = self.cohorts.answer(ask, owner, ids, stats, first, others)
                if to_cohort and ask.edge_of is None:
                    first_ask, cohort = False, stats.answered
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            asks.close()


def _asked(ask: Ask, owner: Asker, cohort: Ints | None, visited: int | None) -> Ints:
    """Return the clients of an Ask.

    Raises
    ------
    RunFailed
        If it names clients that its owner does not have.
    """
    if ask.clients is None:
        ids = cohort
    elif isinstance(ask.clients, str):
        ids = None if visited is None else np.array([visited])
    else:
        ids = ask.clients
    if ids is None:
        raise RunFailed(f"'{ask.function}' asks clients that its {owner} does not know")
    return ids
