"""Refusals before a run starts: settings that do not go together, and runs that cannot end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.clients.solvers import Solver
from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.engine.clock import MOST_BREAKS, StepCounter
from rayfed.engine.run import ENDLESS, Run
from rayfed.engine.stopping import Stop
from rayfed.messages import Ask
from rayfed.population import Population
from rayfed.study.forecast.channel import Refusals, first, of_channel

MOST_STEPS = 10**8
"""Local steps of a client in a round; the fastest kernel takes a quarter of an hour for them."""
MOST_LOOKS = 10**6
"""Looks at the clients that a round may need until enough are there, on average."""
_RARE = 1e-3
_CLIENTS, _CHANGES = 4, 16  # that are looked at to know how long clients stay


def check_run(run: Run) -> None:
    """Refuse a run that cannot be run.

    Raises
    ------
    ScenarioError
        If local steps cannot be counted or are too many, if clients are waited for in vain, if the
        algorithm asks for a client function that it does not have, or if only the clock ends the
        run and no operation advances it. The place is a dotted key, see `Refusals`.
    """
    for place, text in _refusals(run):
        if text:
            raise ScenarioError(place, text)


def _refusals(run: Run) -> Refusals:
    yield from _statistics(run)
    yield from _minimum(run)
    yield from _cohorts(run)
    yield from _correction(run)
    yield from _shared_link(run)
    yield from _retries(run)
    yield from _work(run)
    yield from _waiting(run)
    yield from _breaks(run)
    ask = run.first_ask()
    yield from of_channel(run, ask)
    if run.training.algorithm.asynchronous:
        yield from _asynchronous(run, ask)
    if ask is not None:
        yield from _client_function(run, ask)
        yield from _late(run, ask)
        yield from _overlap(run, ask)
        yield from _end(run, ask)


def _work(run: Run) -> Refusals:
    """Refuse local work that cannot be counted or is too much.

    Work for a time (``time_s``) is counted at the clients' mean speeds, and at those that they
    exceed in one round of a thousand: some delays are arbitrarily short now and then. A method's
    further solvers, such as one that fine-tunes, count as well.
    """
    algorithm, population = run.training.algorithm, run.federation.population
    ids = np.arange(1) if algorithm.centralised else run.measuring.evaluated
    rows = StepCounter(run).rows(ids)
    pace = population.mean_seconds_per_step(ids, rows)
    quick = population.quick_seconds_per_step(ids, _RARE, rows)
    sizes = run.federation.views.training.shards.sizes(ids)
    groups = population.group_of(ids)
    for group in np.unique(groups).tolist():
        mine, solver = groups == group, run.training.solvers[group]
        yield from of_steps(solver, sizes[mine], pace[mine])
        if (quick[mine] > 0).all():
            often = "in one round of a thousand"
            yield from of_steps(solver, sizes[mine], quick[mine], often=often)
    for field in fields(algorithm):
        solver = getattr(algorithm, field.name)
        if isinstance(solver, Solver) and field.name != "local":
            yield from of_steps(solver, sizes, pace, place=field.name)


def of_steps(
    solver: Solver, sizes: Ints, pace: Floats, place: str = "local", often: str = "in a round"
) -> Refusals:
    """Refuse more than `MOST_STEPS` local steps, or a number that cannot be computed.

    Parameters
    ----------
    solver : Solver
    sizes : (K,) array of int
        Training rows n_i.
    pace : (K,) array of float
        Virtual seconds of a local step.
    place : str
        Key of the solver.
    often : str
        How often a step takes so long, for the message.
    """
    with np.errstate(over="ignore"):
        most = int(np.max(solver.step_counts(sizes, pace), initial=0))
    if most > MOST_STEPS:
        given = [key for key in ("steps", "epochs", "time_s") if getattr(solver, key, None)]
        remedy = "use fewer, or a longer delay" if given == ["time_s"] else "use fewer"
        text = f"{most:.3g} local steps of a client {often}, more than {MOST_STEPS:,}"
        yield ".".join([place, *given[:1]]), f"comes to {text}; {remedy}"


def _statistics(run: Run) -> Refusals:
    """Refuse to average running statistics over clients."""
    if run.training.algorithm.keeps_statistics:
        return
    for layer in run.layers:
        if layer.kind == "statistics":
            text = f"has BatchNorm ('{layer.module}'), whose running statistics average wrongly"
            ways = "use GroupNorm, or algorithm 'fedbn', which keeps them at the client"
            yield "problem.model", f"{text} over clients with different data; {ways}"


def _minimum(run: Run) -> Refusals:
    """Refuse to wait for clients where the selection says itself for whom it waits."""
    participation = run.participation
    if participation.minimum > 1 and participation.select.own_cohort:
        text = f"found {participation.minimum}, but '{participation.select.name}' says itself"
        yield "participation.minimum", f"{text} who takes part; leave it out"


def _cohorts(run: Run) -> Refusals:
    """Refuse cohorts where an algorithm needs all clients in every round."""
    cohort, select = run.participation.cohort, run.participation.select
    if not run.training.algorithm.needs_everyone:
        return
    text = f"but '{run.label}' needs all clients; leave it out"
    if cohort is not None and cohort < run.federation.population.count:
        yield "participation.cohort", f"found {cohort}, {text}"
    elif select.may_be_empty or select.own_cohort:
        yield "participation.select", f"found '{select.name}', {text}"


def _correction(run: Run) -> Refusals:
    """Refuse to correct for a probability that is not that of taking part, or that is not known."""
    participation, rule = run.participation, run.participation.select
    kind = participation.correct
    if kind is None:
        return
    why = {
        f"'{run.label}' needs a mean whose weights add up to 1; leave it out": (
            not run.training.algorithm.takes_estimates
        ),
        "late: stale gives replies other weights; give another late": participation.late == "stale",
        f"'{rule.name}' says itself who takes part; leave it out": rule.own_cohort,
    }
    if text := first(why):
        yield "participation.correct", f"found {kind}, but {text}"
    if kind == "known" and (text := _unknown(run)):
        yield "participation.correct", f"found known, but {text}; give intervals"


def _unknown(run: Run) -> str:
    """Return why the probability that a client takes part is not known; empty if it is."""
    participation, population = run.participation, run.federation.population
    rule = participation.select
    return first(
        {
            f"whom '{rule.name}' draws depends on losses": rule.asks or rule.listens,
            "over_select prefers the fast": participation.over_select > 1.0,
            "a deadline prefers the fast": participation.deadline_s is not None,
            "time-outs and retries change it": participation.asks_again,
            "replies that are lost on the way are not in the probability": population.lossy
            or population.crashing,
            "a minimum prefers times when many are there": participation.minimum > 1,
            "an availability does not say how likely clients are there": (
                population.chance(np.arange(1), 0.0, 1) is None
            ),
        }
    )


def _shared_link(run: Run) -> Refusals:
    """Refuse work that is cut short for an upload of which nobody knows how long it will take."""
    if run.federation.server.limited and run.participation.late == "partial":
        text = "found partial; how long an upload takes that shares the server's bandwidth is known"
        ways = "only when it has come, use drop or stale, or leave server out"
        yield "participation.late", f"{text} {ways}"


def _retries(run: Run) -> Refusals:
    """Refuse to ask again where that would go to nobody, or to the wrong client."""
    participation, rule = run.participation, run.participation.select
    if not participation.asks_again or run.training.algorithm.asynchronous:
        return
    if participation.retry == "same":
        return
    if rule.asks or rule.listens or rule.own_cohort:
        text = f"'{rule.name}' draws whole cohorts"
        yield "participation.retry", f"found other, but {text}; give same"
    elif participation.correct is not None:
        text = "participation.correct knows the clients of the cohort alone"
        yield "participation.retry", f"found other, but {text}; give same"


def _waiting(run: Run) -> Refusals:
    """Refuse rounds that wait for clients who are there together at less than a look in a million.

    The clock jumps from change to change, and some studies never get there.
    """
    from scipy.special import bdtrc  # imported late, as everywhere

    participation, population = run.participation, run.federation.population
    if participation.patience_s is not None or not population.independent:
        return
    chances = population.chance(run.measuring.evaluated, 0.0, 1)
    if chances is None or not chances.any():  # a round without anybody passes
        return
    wanted = participation.minimum if participation.if_fewer == "wait" else 1
    likely = float(bdtrc(wanted - 1, population.count, float(chances.mean())))
    if likely * MOST_LOOKS < 1:
        looks = f"{1 / likely:.3g}" if likely else "more than 1e+300"
        text = f"{wanted} of {population.count:,} clients are there at one look in {looks}"
        remedy = "be there more often, lower participation.minimum, or set patience_s"
        yield "clients.availability", f"{text}, and rounds wait for that; {remedy}"


def _breaks(run: Run) -> Refusals:
    """Refuse work that stands still so often that even the quickest clients are given up."""
    if run.participation.interrupted != "resume" or run.training.algorithm.centralised:
        return
    population, ids = run.federation.population, run.measuring.evaluated[:_CLIENTS]
    pace = population.mean_seconds_per_step(ids, StepCounter(run).rows(ids))
    sizes = run.federation.views.training.shards.sizes(ids)
    work_s = float(np.min(run.training.solvers[0].step_counts(sizes, pace) * pace))
    stay_s = _stay_s(population, ids)
    if work_s > MOST_BREAKS * stay_s:
        text = f"found resume; clients stay {stay_s:.3g} s and work {work_s:.3g} s"
        remedy = "use drop, shorter work or longer stays"
        reason = f"after {MOST_BREAKS:,} breaks they are given up"
        yield "participation.interrupted", f"{text}, {reason}; {remedy}"


def _stay_s(population: Population, ids: Ints) -> float:
    """Return how many seconds clients are there at a stretch, on average; inf if for ever."""
    stays = []
    for client in ids[:, None]:
        now = 0.0
        for _ in range(_CHANGES):
            there = bool(population.available(client, now, 1)[0])
            later = float(population.next_change(client, now)[0])
            if there:
                stays.append(later - now)
            if not math.isfinite(later):
                break
            now = later
    return float(np.mean(stays)) if stays else math.inf


def _client_function(run: Run, ask: Ask) -> Refusals:
    """Refuse an Ask for a method that the algorithm does not have."""
    algorithm = run.training.algorithm
    if not callable(getattr(algorithm, ask.work, None)):
        found = f"'{algorithm.name}' asks for '{ask.work}', but has no such method; correct its Ask"
        yield "algorithm", found


def _late(run: Run, ask: Ask) -> Refusals:
    """Refuse what an algorithm cannot do with work that is late."""
    algorithm, rule, place = run.training.algorithm, run.participation, "participation.late"
    if rule.late == "partial" and not (algorithm.takes_partial and ask.local):
        yield place, f"found partial, but the work of '{run.label}' cannot be cut short; give drop"
    if rule.late != "stale":
        return
    if not (algorithm.takes_stale and ask.local) or ask.plain:
        yield place, f"found stale, but '{run.label}' cannot use work of earlier rounds; give drop"
    elif rule.select.own_cohort:
        text = f"found stale, but '{rule.select.name}' asks clients that may be at work; give drop"
        yield place, text


def _overlap(run: Run, ask: Ask) -> Refusals:
    """Refuse that work stands still which began before it was asked for."""
    if not ask.overlap:
        return
    text, rule = f"'{run.label}' computes while it sends; use drop", run.participation
    if rule.interrupted == "resume":
        yield "participation.interrupted", f"found resume, but {text}"
    if rule.late != "drop":
        yield "participation.late", f"found {rule.late}, but {text}"


def _end(run: Run, ask: Ask) -> Refusals:
    """Refuse a run that the clock alone ends, if no operation advances the clock."""
    ending, population = run.ending, run.federation.population
    if ending.rounds != ENDLESS or ending.stop != Stop(time_s=ending.stop.time_s):
        return
    ids = np.arange(1) if run.training.algorithm.centralised else run.measuring.evaluated
    transfers = population.transfer_s(ids, float(bool(ask.send)), float(bool(ask.up)))
    shared = zip(run.federation.server.capacities, (ask.send, ask.up), strict=True)
    if any(sent and math.isfinite(capacity) for capacity, sent in shared):
        return
    if not any(s.any() for s in (population.mean_seconds_per_step(ids), *transfers)):
        found = f"alone ends '{run.label}', and its clock stands still; give rounds, or a delay"
        yield "stop.time_s", found


def _asynchronous(run: Run, ask: Ask | None) -> Refusals:
    """Refuse settings that have no meaning where there are no rounds, and Asks that need rounds."""
    for place, found in _of_rounds(run):
        yield place, f"{found}, but '{run.label}' is asynchronous and has no rounds"
    algorithm = run.training.algorithm
    assert isinstance(algorithm, Asynchronous)
    if algorithm.overlap:
        for text in _no_overlap(run, algorithm):
            yield "algorithm.overlap", f"found true, but {text}; leave it out"
    if ask is None:
        return
    if ask.clients is not None or ask.plain:
        text = f"the Ask of '{run.label}' names clients or plain sums; asynchronous methods cannot"
        yield "algorithm", text
    if ask.vectors and not algorithm.sees_vectors:
        yield "algorithm", f"'{ask.work}' asks for vectors; declare `sees_vectors`"


def _no_overlap(run: Run, algorithm: Asynchronous) -> Iterator[str]:
    """Yield why nothing is uploaded behind the next work: there is none, or it would stop."""
    if algorithm.redispatch == "update":
        yield f"the clients of '{run.label}' start together, when all have sent"
    if run.participation.interrupted == "resume":
        yield "participation.interrupted is resume, and uploads would stand still"
    if run.federation.server.limited:
        yield "transfers that share the server's bandwidth follow one another"


def _of_rounds(run: Run) -> Refusals:
    """Yield the settings that are of rounds: their place, what was found and what to do."""
    participation, selection = run.participation, run.participation.select
    if selection.asks or selection.listens or selection.needs_graphs:
        yield "participation.select", f"found '{selection.name}'; use uniform, weighted or all"
    if participation.over_select != 1.0:
        yield "participation.over_select", f"found {participation.over_select:g}; use 1"
    plain = {"late": "drop", "minimum": 1, "patience_s": None, "correct": None}
    for key, meaningless in plain.items():
        if (found := getattr(participation, key)) != meaningless:
            yield f"participation.{key}", f"found {found}; leave it out"
    if participation.deadline_s is not None:
        text = f"found {participation.deadline_s:g}; give timeout_s, which limits a piece of work"
        yield "participation.deadline_s", text
    if participation.retries and participation.retry == "other":
        yield "participation.retry", "found other, which the selection does; leave retries out"
    if run.federation.population.by_round:
        text = "goes by rounds; give it a period_s"
        yield "clients.availability", f"'{run.federation.population.availability.name}' {text}"
    if any(
        solver.varying is not None and solver.varying.listens for solver in run.training.solvers
    ):
        yield "algorithm.local", "the number of local steps follows the losses"
