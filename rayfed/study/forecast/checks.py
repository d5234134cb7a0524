"""Refusals before a run starts: settings that do not go together, and runs that cannot end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.engine.clock import MOST_BREAKS, StepCounter
from rayfed.engine.run import ENDLESS, Run
from rayfed.engine.settings import Stop
from rayfed.messages import Ask
from rayfed.population import Population
from rayfed.solvers.base import Solver
from rayfed.study.forecast.channel import Refusals, first, may_fail, of_channel

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
    yield from _participation(run, _who(run))
    if run.training.algorithm.needs_everyone and (may_fail(run) or run.federation.clients.by_round):
        text = f"'{run.label}' needs all clients in every round"
        yield "clients", f"{text}; let none be away, crash, fail to reply or be silent"
    yield from _work(run)
    yield from _waiting(run)
    yield from _breaks(run)
    ask = run.first_ask()
    yield from of_channel(run, ask)
    if run.training.algorithm.asynchronous:
        yield from _asynchronous(run, ask)
    if ask is not None:
        yield from _client_function(run, ask)
        yield from _participation(run, _late(run, ask))
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


def _participation(run: Run, why: Mapping[str, Mapping[str, object]]) -> Refusals:
    """Refuse values of keys of participation, each for the first reason that holds."""
    for key, reasons in why.items():
        found = getattr(run.participation, key)
        shown = f"'{found.name}'" if key == "select" else found
        shown = f"{found:g}" if isinstance(found, float) else shown
        if text := first(reasons):
            yield f"participation.{key}", f"found {shown}, but {text}"


def _who(run: Run) -> dict[str, dict[str, object]]:
    """Return what algorithms, selections and servers of limited bandwidth do not go with."""
    algorithm, rule, select = run.training.algorithm, run.participation, run.participation.select
    few = rule.cohort is not None and rule.cohort < run.federation.population.count
    everyone = f"'{run.label}' needs all clients; leave it out"
    other = rule.asks_again and rule.retry == "other" and not algorithm.asynchronous
    return {
        "minimum": {
            f"'{select.name}' says itself who takes part; leave it out": (
                rule.minimum > 1 and select.own_cohort
            )
        },
        "cohort": {everyone: algorithm.needs_everyone and few},
        "deadline_s": {everyone: algorithm.needs_everyone and rule.deadline_s is not None},
        "timeout_s": {everyone: algorithm.needs_everyone and rule.timeout_s is not None},
        "select": {
            everyone: algorithm.needs_everyone
            and (select.may_be_empty or select.own_cohort or select.repeats)
        },
        "correct": _correction(run) if rule.correct else {},
        "late": {
            "how long an upload takes that shares the server's bandwidth is known only when it has "
            "come; use drop or stale, or leave server out": (
                rule.late == "partial" and run.federation.server.limited
            ),
        },
        "retry": {
            f"'{select.name}' draws whole cohorts; give same": (
                other and (select.asks or select.listens or select.own_cohort)
            ),
            "participation.correct knows the clients of the cohort alone; give same": (
                other and rule.correct is not None
            ),
        },
    }


def _correction(run: Run) -> dict[str, object]:
    """Return why no probability is to be corrected for, or none that is known."""
    rule, select = run.participation, run.participation.select
    unknown = _unknown(run) if rule.correct == "known" else ""
    return {
        f"'{run.label}' needs a mean whose weights add up to 1; leave it out": (
            not run.training.algorithm.takes_estimates
        ),
        "late: stale gives replies other weights; give another late": rule.late == "stale",
        f"'{select.name}' says itself who takes part; leave it out": select.own_cohort,
        f"{unknown}; give intervals": unknown,
    }


def _late(run: Run, ask: Ask) -> dict[str, dict[str, object]]:
    """Return what an algorithm cannot do with work that is late, or began ahead of its Ask."""
    algorithm, rule = run.training.algorithm, run.participation
    partial, stale = rule.late == "partial", rule.late == "stale"
    sends = f"'{run.label}' computes while it sends; use drop"
    return {
        "late": {
            f"the work of '{run.label}' cannot be cut short; give drop": (
                partial and not (algorithm.takes_partial and ask.local)
            ),
            f"'{run.label}' cannot use work of earlier rounds; give drop": (
                stale
                and (not (algorithm.takes_stale and algorithm.asks_once and ask.local) or ask.plain)
            ),
            f"'{rule.select.name}' asks clients that may be at work; give drop": (
                stale and rule.select.own_cohort
            ),
            sends: ask.overlap and rule.late != "drop",
        },
        "interrupted": {sends: ask.overlap and rule.interrupted == "resume"},
    }


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
    if not callable(getattr(algorithm, ask.function, None)):
        found = (
            f"'{algorithm.name}' asks for '{ask.function}', but has no such method; correct its Ask"
        )
        yield "algorithm", found


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
    no_rounds = f"'{run.label}' is asynchronous and has no rounds"
    yield from _participation(run, _of_rounds(run, no_rounds))
    population = run.federation.population
    if population.by_round:
        text = f"'{population.availability.name}' goes by rounds, but {no_rounds}"
        yield "clients.availability", f"{text}; give it a period_s"
    if any(solver.varying and solver.varying.listens for solver in run.training.solvers):
        yield "algorithm.local", f"the number of local steps follows the losses, but {no_rounds}"
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
        yield "algorithm", f"'{ask.function}' asks for vectors; declare `sees_vectors`"


def _no_overlap(run: Run, algorithm: Asynchronous) -> Iterator[str]:
    """Yield why nothing is uploaded behind the next task: there is none, or it would stop."""
    if algorithm.redispatch == "update":
        yield f"the clients of '{run.label}' start together, when all have sent"
    if run.participation.interrupted == "resume":
        yield "participation.interrupted is resume, and uploads would stand still"
    if run.federation.server.limited:
        yield "transfers that share the server's bandwidth follow one another"


def _of_rounds(run: Run, why: str) -> dict[str, dict[str, object]]:
    """Return the settings of participation that are of rounds."""
    rule, select = run.participation, run.participation.select
    out = f"{why}; leave it out"
    of_rounds = select.asks or select.listens or select.needs_graphs
    chosen = f"{why}: to ask another client is what the selection does; leave retries out"
    return {
        "select": {f"{why}; use uniform, weighted or all": of_rounds},
        "over_select": {f"{why}; use 1": rule.over_select != 1.0},
        "late": {out: rule.late != "drop"},
        "minimum": {out: rule.minimum != 1},
        "patience_s": {out: rule.patience_s is not None},
        "correct": {out: rule.correct is not None},
        "deadline_s": {f"{why}; give timeout_s, which limits a task": rule.deadline_s is not None},
        "retry": {chosen: rule.retries and rule.retry == "other"},
    }
