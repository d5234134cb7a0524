"""Invariants of every run, checked on what it recorded.

An invariant is a function ``check_*`` of an `Ended` run that raises an AssertionError with what it
found. All functions of this name, here and in `sent`, are checked. They recompute what they can
from the table of events, the population and the messages that were sent, not from the engine's own
counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.core.errors import LONGEST
from rayfed.core.needs import COHORT
from rayfed.engine.loop import NOT_FINITE
from rayfed.engine.tasks import STATUS
from rayfed.testing.checks.common import require
from tests.chaos import sent
from tests.chaos.ended import Ended, last_line

_POINTS = (0.0, 0.2, 0.5, 0.8, 0.999)  # of a task at which its client must be there
_SLACK = 1e-9
_WAITED = "changes of availability"
_AWAY = "are away for good"  # nodes without a server
_APART = "or set disconnected to"  # of a graph that is drawn when its round comes


def broken(ended: Ended) -> Iterator[tuple[str, str]]:
    """Yield the name of every invariant that does not hold, and what was found."""
    for name, check in invariants().items():
        try:
            check(ended)
        except AssertionError as error:
            yield name, str(error)


def invariants() -> dict[str, Callable[[Ended], None]]:
    """Return the invariants by name."""
    return {
        name.removeprefix("check_"): value
        for name, value in sorted((globals() | vars(sent)).items())
        if name.startswith("check_")
    }


def check_status(ended: Ended) -> None:
    """Check that a run finished, or failed by a reason of its own in one line."""
    status, why = ended.record["status"], ended.record["reason"]
    require(status in ("finished", "failed"), f"the status is {status}")
    require((why is None) == (status == "finished"), f"it {status}, and the reason is {why}")
    text = ended.log
    require(ended.meant or "Traceback" not in text, f"the log holds a traceback: {last_line(text)}")
    require(why is None or (len(why) <= LONGEST and why.isprintable()), f"the reason is {why!r}")
    if status == "finished":
        failed = [line for line in text.splitlines() if re.search(r"could not|cannot", line)]
        require(not failed, f"the log of an undisturbed run says: {failed}")
        require(ended.record["stopped_by"] is not None, "no rule ended it")


def check_rows(ended: Ended) -> None:
    """Check that every round has a row; a run that no other rule stops has all."""
    numbers = ended.rounds["round"].tolist()
    if not (numbers or ended.finished):
        return
    require(numbers == list(range(len(numbers))), f"the rounds are {numbers}")
    last = ended.run.ending.rounds
    if ended.record["stopped_by"] == "rounds":
        require(numbers[-1] == last, f"the last round is {numbers[-1]} of {last}")
    require(numbers[-1] <= last, f"there are {numbers[-1]} rounds of {last}")


def edges_of(ended: Ended) -> bool:
    """Whether clients have edge servers."""
    ask = ended.run.first_ask()
    return ask is not None and ask.edge_of is not None


def check_clock(ended: Ended) -> None:
    """Check that the clock never goes back, and that task lies in its round."""
    times, events = ended.rounds["time_s"].to_numpy(), ended.events
    require(np.isfinite(times), f"the times are {times}")
    require(np.diff(times) >= 0, f"the clock goes back: {times}")
    if not len(times) or events.empty:
        return
    start, end, number = (events[name].to_numpy() for name in ("start_s", "end_s", "round"))
    inside = (number > 0) & (number < len(times))  # a round in which a run failed has no row
    used = inside & (events["status"] == "used").to_numpy()
    if ended.ahead:
        require(end[inside] >= times[number[inside] - 1], "work lies before its round")
    elif ended.gossip:
        steps = events.sort_values(["client", "start_s", "end_s"])
        before = steps.groupby("client")["end_s"].shift()
        require(~(steps["start_s"] < before), "a step begins before the last one of its node ends")
    elif ended.apart:
        require(start[inside] >= times[number[inside] - 1], "work lies before its round")
    elif not ended.by_rounds:  # a reply may wait in a buffer while rows close without an update
        failed = inside & ~used
        require(end[failed] >= times[number[failed] - 1], "work lies before its row")
    began = start if ended.by_rounds else end
    require(began[inside] <= times[number[inside]], "work lies after its round")
    require(events["compute_s"] >= 0, "computing takes negative time")
    require(end >= start, "work ends before it starts")
    require(end[used] <= times[number[used]], "a used reply arrives after its round")
    if ended.apart and not (ended.ahead or ended.gossip):
        alike = ["round", "client"] if edges_of(ended) else "round"  # edges have their own clocks
        order = events.groupby(alike)["start_s"]
        require(order.apply(lambda s: s.is_monotonic_increasing), "Asks start in another order")


def check_work(ended: Ended) -> None:
    """Check that every task ends once, with one status."""
    events, keys = ended.events, ["round", "ask", "client"]
    require(not events.duplicated(keys).any(), "a task ends twice")
    require(events["status"].isin(STATUS), f"the statuses are {set(events['status'])}")
    require(events["client"].between(0, ended.run.federation.population.count - 1), "unknown ids")
    for number, asks in events.groupby("round" if ended.by_rounds else ["round", "client"])["ask"]:
        found = sorted(set(asks))
        if not ended.apart and ended.by_rounds:  # an Ask may have been of late clients alone
            break
        require(found == list(range(len(found))), f"round {number} has the Asks {found}")
    steps, taken = events["steps"].to_numpy(), events["status"] == "used"
    losses = events["loss"].to_numpy()
    require(steps >= 0, "negative local steps")
    require(np.isnan(losses[~taken]), "work that is not used has a loss")


def check_counts(ended: Ended) -> None:
    """Check that the counts of a row are those of its events."""
    rounds, events = ended.rounds.set_index("round"), ended.events
    of = events.groupby("round")
    for status in ("late", "dropped"):
        counted = (events["status"] == status).groupby(events["round"]).sum()
        _equal(rounds[status], counted, status)
    used = events["status"] == "used"
    _equal(rounds["local_steps"], (events["steps"] * used).groupby(events["round"]).sum(), "steps")
    for number, row in rounds.iterrows():
        answered = {0}
        if number in of.groups:
            asks = of.get_group(number)
            answered |= set((asks["status"] == "used").groupby(asks["ask"]).sum())
            taken = asks["ask"][asks["status"] == "used"]
            answered |= {(taken >= ask).sum() for ask in set(asks["ask"])}  # late replies come last
        found = row["participants"]
        require(found in answered, f"round {number}: {found} participants, used were {answered}")


def check_separation(ended: Ended) -> None:
    """Check that no client takes part again before a private run lets it."""
    private = ended.run.private
    if private is None or private.tree is None:
        return
    used = ended.events[ended.events["status"] == "used"].sort_values("round")
    gaps = used.groupby("client")["round"].diff().dropna()
    least = private.tree.separation
    require(gaps >= least, f"a client took part again after {gaps.min()} rounds, not {least}")


def check_cohort(ended: Ended) -> None:
    """Check that no Ask goes to more clients than were to be selected."""
    part, algorithm = ended.run.participation, ended.run.training.algorithm
    if part.cohort is None or COHORT in part.select.removes or algorithm.centralised:
        return
    if not ended.apart or part.select.may_be_empty:  # then the cohort is an expected one
        return
    cohorts, count = ended.cohorts, ended.run.federation.clients.count
    most = np.ceil(cohorts * part.over_select - _SLACK).clip(upper=count)
    replies = most if edges_of(ended) else cohorts  # edge servers round their shares up
    there = ended.rounds.set_index("round")["participants"]
    require(there <= replies[there.index], "more participants than the cohort")
    if part.select.listens or hasattr(part.select, "d"):  # it asks its candidates
        return
    sizes = ended.events.groupby(["round", "ask"]).size()
    limits = most[sizes.index.get_level_values("round")].to_numpy()
    require(sizes <= limits, f"an Ask goes to {sizes.max()} clients, of {most.max()}")


def check_there(ended: Ended) -> None:
    """Check that nobody works while away, and that who is dropped goes away then."""
    population = ended.run.federation.population
    for event in ended.events.itertuples():
        one, length = [event.client], event.end_s - event.start_s
        if ended.gossip and event.status == "used":
            length = event.compute_s  # later it waits, wherever it is
        begun = event.round if ended.apart else event.version + 1
        if event.status in ("used", "unfinished") or (event.status == "late" and length > 0):
            for point in _POINTS if ended.stays else _POINTS[:1]:
                now = event.start_s + point * length
                there = population.available(one, now, begun)[0]
                require(there, f"client {event.client} works at {now} s, but is away: {event}")
        silent = any(faulty.fault.silent for faulty in ended.run.faults)
        sure = not (population.lossy or population.crashing or silent or ended.run.batteries)
        if event.status == "dropped" and length > 0 and sure:
            before = population.available(one, event.start_s, begun)[0]
            after = population.available(one, event.end_s, begun)[0]
            require(before and not after, f"client {event.client} was dropped, but: {event}")


def check_attempts(ended: Ended) -> None:
    """Check that attempts are timed out, and that the server asks again only where one failed."""
    part = ended.run.participation
    if not part.may_retry or ended.run.training.algorithm.centralised or ended.ahead:
        return
    events, out_s = ended.events, math.inf if part.timeout_s is None else part.timeout_s
    length, status = events["end_s"] - events["start_s"], events["status"]
    require(length[status == "used"] <= out_s * (1 + _SLACK) + _SLACK, "it came after its time-out")
    if not ended.apart:  # what failed may be in another row
        return
    for _, asks in events.groupby("round"):
        first = asks["start_s"].groupby(asks["ask"]).min()
        for event in asks[asks["start_s"] > asks["ask"].map(first)].itertuples():
            before = asks[(asks["ask"] == event.ask - 1) & (asks["status"] != "used")]
            failed = (before["end_s"] == event.start_s).any()
            require(failed, f"nothing failed when this was asked: {event}")


def check_minimum(ended: Ended) -> None:
    """Check that enough clients were there when a cohort was asked."""
    part, population = ended.run.participation, ended.run.federation.population
    everyone = np.arange(population.count)
    if part.minimum == 1 or not ended.apart:
        return
    for number, start in ended.events.groupby("round")["start_s"].min().items():
        there = int(population.available(everyone, start, number).sum())
        require(there >= part.minimum, f"round {number}: {there} were there, of {part.minimum}")


def check_versions(ended: Ended) -> None:
    """Check that the staleness of a reply is the number of updates that it has missed."""
    algorithm = ended.run.training.algorithm
    if not isinstance(algorithm, Asynchronous):
        return
    updates = (ended.rounds["participants"] > 0).cumsum().to_numpy()
    for event in ended.events[ended.events["status"] == "used"].itertuples():
        if event.round < len(updates):  # a round in which a run failed has no row
            missed = updates[event.round] - 1 - event.version
            require(event.staleness == missed, f"{missed} updates were missed: {event}")
    if algorithm.redispatch == "arrival":
        used = ended.rounds["participants"].iloc[1:]
        require(used.isin((0, algorithm.takes)), f"the updates are of {used.tolist()} replies")


def check_places(ended: Ended) -> None:
    """Check that no more are at work than there are places, and tiers start when all are done."""
    algorithm, wait_s = ended.run.training.algorithm, ended.run.participation.timeout_s
    if not isinstance(algorithm, Asynchronous):
        return
    over_s = ended.events["end_s"]
    if wait_s is not None:
        over_s = np.minimum(over_s, ended.events["start_s"] + wait_s)
    if algorithm.overlap:  # who sends takes no place
        over_s = np.minimum(over_s, ended.events["start_s"] + ended.events["compute_s"])
    tasks = ended.events.assign(
        over_s=over_s, tier=algorithm.tier_of(ended.events["client"].to_numpy())
    )
    for now in tasks["start_s"].unique():
        places = ((tasks["start_s"] <= now) & (tasks["over_s"] > now)).sum()
        most = max(algorithm.concurrency or 0, algorithm.tier_count)
        require(places <= most, f"{places} are at work at {now} s, of {most}")
    if algorithm.redispatch == "update" and not ended.run.participation.retries:
        for tier, those in tasks.groupby("tier"):
            ends = those.groupby("start_s")["over_s"].max()
            early = ends.index.to_numpy()[1:] < ends.cummax().to_numpy()[:-1]
            require(not early.any(), f"tier {tier} starts before it is done")


def check_flight(ended: Ended) -> None:
    """Check that a client is at work once at a time, where work may outlast its row."""
    if ended.apart:
        return
    works_of = ended.events if not ended.by_rounds else ended.events[ended.events["steps"] > 0]
    in_order = works_of.sort_values(["start_s", "end_s"])  # some take no time that a clock shows
    for client, tasks in in_order.groupby("client"):
        ends, starts = tasks["end_s"].to_numpy(), tasks["start_s"].to_numpy()
        if getattr(ended.run.training.algorithm, "overlap", False):  # one more, which is sent
            at_once = ((starts <= starts[:, None]) & (ends > starts[:, None])).sum(axis=1)
            require(at_once <= 2, f"client {client} has three works at a time")
            ends = np.minimum(ends, starts + tasks["compute_s"].to_numpy())
        require(starts[1:] >= ends[:-1], f"client {client} has two works at a time")


def check_energy(ended: Ended) -> None:
    """Check that used tasks cost all of their computing, and others no more than all of theirs."""
    if not ended.run.metered or not ended.finished:
        return
    rows, events = ended.rounds.iloc[1:], ended.events
    total, radio, wasted = (
        rows[f"energy_{part}j"].to_numpy() for part in ("", "radio_", "wasted_")
    )
    slack = _SLACK * (1 + total.sum())
    require(np.minimum(radio, wasted) >= -slack, f"negative energies: {radio}, {wasted}")
    require(np.maximum(radio, wasted) <= total + slack, f"parts beyond {total}: {radio}, {wasted}")
    watts = ended.run.federation.population.watts(events["client"].to_numpy())
    joules, spent = watts * events["compute_s"].to_numpy(), (total - radio).sum()
    least = joules[(events["status"] == "used").to_numpy()].sum()
    require(least - slack <= spent, f"computing took {spent} J, used tasks alone {least} J")
    require(spent <= joules.sum() + slack, f"computing took {spent} J of {joules.sum()} J")


def check_clients(ended: Ended) -> None:
    """Check that the table of clients holds who was asked, and how often."""
    if not ended.finished or ended.run.training.algorithm.centralised:
        return
    table, events = ended.clients.set_index("client"), ended.events
    _equal(table["selected"], events.groupby("client").size(), "selected")
    _equal(table["used"], (events["status"] == "used").groupby(events["client"]).sum(), "used")


def check_scores(ended: Ended) -> None:
    """Check that the loss is finite wherever it is evaluated, the last row included."""
    if not ended.finished:
        why = ended.record["reason"]
        expected = any(text in why for text in (NOT_FINITE, _WAITED, _AWAY, _APART))
        require(ended.meant or expected, why)
        return
    rows = ended.rounds
    due = rows.index == rows.index[-1]
    if ended.run.measuring.every_s is None:
        due |= rows["round"] % ended.run.measuring.every == 0
    require(np.isfinite(rows.loc[due, "loss"]), f"the losses are {rows['loss'].tolist()}")
    accuracy = rows["accuracy"].dropna()
    require((accuracy >= 0) & (accuracy <= 1), f"the accuracies are {accuracy.tolist()}")


def _equal(found: Any, counted: Any, what: str) -> None:
    """Raise an AssertionError unless rows say what was counted; 0 where nothing was."""
    wanted = counted.reindex(found.index, fill_value=0)
    wrong = found.index[(found.to_numpy() != wanted.to_numpy())]
    if len(wrong):
        raise AssertionError(f"{what} of {wrong[0]}: {found[wrong[0]]}, counted {wanted[wrong[0]]}")
