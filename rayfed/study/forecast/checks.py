"""Refusals before a run starts: settings that do not go together, and runs that cannot end."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np

from rayfed.algorithms.meeting import Meeting
from rayfed.algorithms.multi_walk import MultiWalk
from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.names import called
from rayfed.core.needs import VECTORS, Refusals, clashes
from rayfed.engine.clock import MOST_BREAKS, StepCounter
from rayfed.engine.run import ENDLESS, Run
from rayfed.engine.settings import Stop
from rayfed.messages import Ask
from rayfed.population import Population
from rayfed.population.energy import Radio
from rayfed.solvers.base import Solver
from rayfed.study.forecast.channel import of_channel
from rayfed.study.forecast.parts import may_fail, parts

MOST_STEPS = 10**8
"""Local steps of a client in a round; the fastest kernel takes a quarter of an hour for them."""
MOST_LOOKS = 10**6
"""Largest mean number of availability changes before a round has enough clients."""
_RARE, _LEAST = 1e-3, 2.0**-54  # shares of the draws of a delay; no draw is below the second
_FIRST = 10_000  # clients whose local steps are counted, whether or not they are evaluated
_CLIENTS, _CHANGES = 4, 16  # that are looked at to know how long clients stay


def check_run(run: Run) -> None:
    """Refuse a run that cannot be run.

    Raises
    ------
    ScenarioError
        If its parts do not go together, local steps cannot be counted or are too many, clients
        are waited for in vain, the algorithm asks for a client function that it does not have, or
        only the clock ends the run and no operation advances it. The place is a dotted key, below
        ``algorithm`` for keys of the algorithm itself; keys that an algorithm may say in place of
        the study have the key of the study (see `Study.blamed`).
    """
    for place, text in _refusals(run):
        if text:
            raise ScenarioError(place, text)


def _refusals(run: Run) -> Refusals:
    ask = run.first_ask()
    yield from clashes(parts(run, ask))
    yield from _local_steps(run)
    yield from _waiting(run)
    yield from _breaks(run)
    yield from of_channel(run, ask)
    yield from _asynchronous(run, ask)
    yield from _meetings(run)
    if ask is not None:
        yield from _client_function(run, ask)
        yield from _end(run, ask)


def _local_steps(run: Run) -> Refusals:
    """Refuse local steps that cannot be counted or are too many.

    Work for a time (``time_s``) is counted at the clients' mean speeds, and at those that they
    exceed in one round of a thousand: some delays are arbitrarily short now and then. No delay may
    be 0 then. A method's further solvers, such as one that fine-tunes, count as well.
    """
    algorithm, population = run.training.algorithm, run.federation.population
    first = np.arange(min(population.count, _FIRST))  # groups may have no evaluated client
    ids = np.arange(1) if algorithm.centralised else np.union1d(run.measuring.evaluated, first)
    rows = StepCounter(run).rows(ids)
    pace = population.mean_seconds_per_step(ids, rows)
    quick = population.quick_seconds_per_step(ids, _RARE, rows)
    least = population.quick_seconds_per_step(ids, _LEAST, rows)
    sizes = run.federation.views.training.shards.sizes(ids)
    groups = population.group_of(ids)
    for group in np.unique(groups).tolist():
        members, solver = groups == group, run.training.solvers[group]
        yield from of_steps(solver, sizes[members], pace[members])
        solver.step_counts(sizes[members], least[members])  # refuses steps of no time
        often = "in one round of a thousand"
        yield from of_steps(solver, sizes[members], quick[members], often=often)
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


def _waiting(run: Run) -> Refusals:
    """Refuse rounds that wait for a cohort with an availability below one look in a million.

    The clock jumps from change to change, and some studies never get there.
    """
    from scipy.special import bdtrc  # imported late, as everywhere

    participation, population = run.participation, run.federation.population
    if participation.patience_s is not None or not population.independent:
        return
    chances = population.chance(run.measuring.evaluated, 0.0, 1)
    if chances is None or not chances.any():  # an empty round passes
        return
    wanted = participation.minimum if participation.if_fewer == "wait" else 1
    likely = float(bdtrc(wanted - 1, population.count, float(chances.mean())))
    if likely * MOST_LOOKS < 1:
        looks = f"{1 / likely:.3g}" if likely else "more than 1e+300"
        text = f"{wanted} of {population.count:,} clients are available at one change in {looks}"
        remedy = "increase availability, lower participation.minimum, or set patience_s"
        yield "clients.availability", f"{text}, and rounds wait for them; {remedy}"


def _breaks(run: Run) -> Refusals:
    """Refuse tasks paused so often that even the fastest clients are dropped."""
    if run.participation.interrupted != "resume" or run.training.algorithm.centralised:
        return
    population, ids = run.federation.population, run.measuring.evaluated[:_CLIENTS]
    pace = population.mean_seconds_per_step(ids, StepCounter(run).rows(ids))
    sizes = run.federation.views.training.shards.sizes(ids)
    task_s = float(np.min(run.training.solvers[0].step_counts(sizes, pace) * pace))
    stay_s = _stay_s(population, ids)
    if task_s > MOST_BREAKS * stay_s:
        text = f"found resume; clients stay {stay_s:.3g} s and tasks take {task_s:.3g} s"
        remedy = "use drop, fewer local steps or longer stays"
        reason = f"after {MOST_BREAKS:,} interruptions they are dropped"
        yield "participation.interrupted", f"{text}, {reason}; {remedy}"


def _stay_s(population: Population, ids: Ints) -> float:
    """Return the mean seconds of an uninterrupted stay of clients; inf if they never leave."""
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
    """Refuse Asks that need rounds, or vectors that were not declared."""
    if ask is None or not run.training.algorithm.asynchronous:
        return
    if ask.clients is not None or ask.plain:
        text = f"the Ask of '{run.label}' names clients or plain sums; asynchronous methods cannot"
        yield "algorithm", text
    if ask.vectors and VECTORS not in run.training.algorithm.needs:
        yield "algorithm", f"'{ask.function}' asks for vectors; add VECTORS to `needs`"


def _meetings(run: Run) -> Refusals:
    """Refuse nodes that would meet, or train alone, again and again at one instant.

    So would a walk that never takes time, while the others wait.
    """
    algorithm, population = run.training.algorithm, run.federation.population
    if run.metered and isinstance(algorithm, Meeting) and len(set(_radios(run))) > 1:
        text = f"'{run.label}' charges an exchange to one of its ends, but groups have other radios"
        yield "clients.groups", f"{text}; give all the same"
    walks = isinstance(algorithm, MultiWalk) and algorithm.walks > 1
    if not (walks or (isinstance(algorithm, Meeting) and algorithm.answers)):
        return
    ids = np.arange(population.count)
    seconds = population.mean_seconds_per_step(ids)
    graphs = run.federation.graphs
    if not (may_fail(run) or (graphs and graphs.topology.disconnected == "allow")):
        latency, down, up = population.links(ids)
        seconds = seconds + latency + 1 / down + 1 / up
    if not (seconds.any() if walks else seconds.all()):
        node = called(ids[seconds == 0][:1], run.federation.clients.names)
        found = f"{node} takes no time to compute or send, so the clock of '{run.label}' stands"
        yield "clients.delay", f"{found} still; give a delay"


def _radios(run: Run) -> list[Radio]:
    """Return what transfers cost in energy, by group."""
    return [each.transfers for each in run.federation.population.energies]
