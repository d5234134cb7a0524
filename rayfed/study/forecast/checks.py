"""Refusals before a run starts: work that cannot be counted, and runs that cannot end."""

from __future__ import annotations

import math

import numpy as np

from rayfed.core.errors import ScenarioError
from rayfed.engine.run import ENDLESS, Run
from rayfed.engine.stopping import Stop
from rayfed.messages import Ask
from rayfed.study.forecast.asynchronous import check_asynchronous
from rayfed.study.forecast.channel import check_channel
from rayfed.study.forecast.waiting import check_breaks, check_waiting
from rayfed.study.forecast.work import check_work


def check_run(index: int, run: Run) -> None:
    """Refuse a run that cannot be run.

    Parameters
    ----------
    index : int
        Number of the algorithm in the scenario file.

    Raises
    ------
    ScenarioError
        If local steps cannot be counted or are too many, if clients are waited for in vain, if the
        algorithm asks for a client function that it does not have, or if only the clock ends the
        run and no operation advances it.
    """
    _check_statistics(run)
    _check_minimum(run)
    _check_everyone(run)
    _check_correction(run)
    _check_server(run)
    _check_retries(run)
    check_work(run)
    check_waiting(run)
    check_breaks(run)
    ask = run.first_ask()
    check_channel(index, run, ask)
    if run.training.algorithm.asynchronous:
        check_asynchronous(index, run, ask)
    if ask is not None:
        _check_client_half(index, run, ask)
        _check_late(index, run, ask)
        _check_overlap(run, ask)
        _check_end(run, ask)


def _check_client_half(index: int, run: Run, ask: Ask) -> None:
    """Refuse an Ask for a method that the algorithm does not have."""
    algorithm = run.training.algorithm
    if not callable(getattr(algorithm, ask.work, None)):
        found = f"'{algorithm.name}' asks for '{ask.work}', but has no such method; correct its Ask"
        raise ScenarioError(f"algorithms.{index}", found)


def _check_correction(run: Run) -> None:
    """Refuse to correct for a probability that is not that of taking part, or that is not known."""
    participation, algorithm = run.participation, run.training.algorithm
    kind, rule = participation.correct, participation.select
    if kind is None:
        return
    text = ""
    if not algorithm.takes_estimates:
        text = f"'{run.label}' needs a mean whose weights add up to 1; leave it out"
    elif participation.late == "stale":
        text = "late: stale gives replies other weights; give another late"
    elif rule.own_cohort:
        text = f"'{rule.name}' says itself who takes part; leave it out"
    elif kind == "known":
        text = _unknown(run)
    if text:
        raise ScenarioError("participation.correct", f"found {kind}, but {text}")


def _unknown(run: Run) -> str:
    """Return why the probability that a client takes part is not known; empty if it is."""
    participation, population = run.participation, run.federation.population
    rule = participation.select
    why = {
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
    return next((f"{text}; give intervals" for text, holds in why.items() if holds), "")


def _check_minimum(run: Run) -> None:
    """Refuse to wait for clients where the selection says itself for whom it waits."""
    participation = run.participation
    if participation.minimum > 1 and participation.select.own_cohort:
        text = f"found {participation.minimum}, but '{participation.select.name}' says itself"
        raise ScenarioError("participation.minimum", f"{text} who takes part; leave it out")


def _check_everyone(run: Run) -> None:
    """Refuse cohorts where an algorithm needs all clients in every round."""
    participation, name = run.participation, run.label
    if not run.training.algorithm.needs_everyone:
        return
    place, text = "participation", ""
    cohort = participation.cohort
    if cohort is not None and cohort < run.federation.population.count:
        place, text = "participation.cohort", f"found {cohort}"
    elif participation.select.may_be_empty or participation.select.own_cohort:
        place, text = "participation.select", f"found '{participation.select.name}'"
    if text:
        raise ScenarioError(place, f"{text}, but '{name}' needs all clients; leave it out")


def _check_late(index: int, run: Run, ask: Ask) -> None:
    """Refuse what an algorithm cannot do with work that is late."""
    algorithm, participation = run.training.algorithm, run.participation
    text, label = "", run.label
    if participation.late == "partial" and not (algorithm.takes_partial and ask.local):
        text = f"found partial, but the work of '{label}' cannot be cut short; give drop"
    if participation.late == "stale":
        if not (algorithm.takes_stale and ask.local) or ask.plain:
            text = f"found stale, but '{label}' cannot use work of earlier rounds; give drop"
        elif participation.select.own_cohort:
            name = participation.select.name
            text = f"found stale, but '{name}' asks clients that may be at work; give drop"
    if text:
        raise ScenarioError("participation.late", text)


def _check_retries(run: Run) -> None:
    """Refuse to ask again where that would go to nobody, or to the wrong client."""
    participation, rule = run.participation, run.participation.select
    if not participation.asks_again or run.training.algorithm.asynchronous:
        return
    if participation.retry == "same":
        return
    why = ""
    if rule.asks or rule.listens or rule.own_cohort:
        why = f"'{rule.name}' draws whole cohorts"
    elif participation.correct is not None:
        why = "participation.correct knows the clients of the cohort alone"
    if why:
        raise ScenarioError("participation.retry", f"found other, but {why}; give same")


def _check_statistics(run: Run) -> None:
    """Refuse to average running statistics over clients."""
    shards, algorithm = run.federation.views.training.shards, run.training.algorithm
    for layer in run.training.problem.layers(shards.features, shards.classes):
        if layer.kind == "statistics" and not algorithm.keeps_statistics:
            text = f"has BatchNorm ('{layer.module}'), whose running statistics average wrongly"
            ways = "use GroupNorm, or algorithm 'fedbn', which keeps them at the client"
            raise ScenarioError("problem.model", f"{text} over clients with different data; {ways}")


def _check_server(run: Run) -> None:
    """Refuse work that is cut short for an upload of which nobody knows how long it will take."""
    if run.federation.server.limited and run.participation.late == "partial":
        text = "found partial; how long an upload takes that shares the server's bandwidth is known"
        ways = "only when it has come, use drop or stale, or leave server out"
        raise ScenarioError("participation.late", f"{text} {ways}")


def _check_overlap(run: Run, ask: Ask) -> None:
    """Refuse that work stands still which began before it was asked for."""
    if ask.overlap and run.participation.interrupted == "resume":
        text = f"found resume, but '{run.label}' computes while it sends; use drop"
        raise ScenarioError("participation.interrupted", text)
    if ask.overlap and run.participation.late != "drop":
        text = (
            f"found {run.participation.late}, but '{run.label}' computes while it sends; use drop"
        )
        raise ScenarioError("participation.late", text)


def _check_end(run: Run, ask: Ask) -> None:
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
        raise ScenarioError("stop.time_s", found)
