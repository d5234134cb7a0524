"""Parts of a run by setting, each with its needs and the terms that it removes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.multi_walk import MultiWalk
from rayfed.algorithms.staleness import ConstantStaleness
from rayfed.channel.base import Codec
from rayfed.channel.faults import UploadFault
from rayfed.channel.stages import Clip, SecureSum
from rayfed.channel.uplink import coded_vectors
from rayfed.clients.request import GROUP
from rayfed.core.needs import (
    ALIKE_LINKS,
    ALL_STEPS,
    AVERAGED,
    BLIND,
    BOTH_WAYS,
    BOUNDED,
    BY_CLOCK,
    CHANCES,
    COHORT,
    COUNT_ONCE,
    EVERYONE,
    EXACT_DOWNLOADS,
    EXACT_UPLOADS,
    FIXED_GRAPH,
    FIXED_NORM,
    FRESH,
    GIVEN,
    GLOBAL_STEPS,
    GRADIENTS,
    HONEST,
    IN_TURN,
    KNOWN_SIZE,
    LOCAL,
    MEAN,
    MEMORYLESS,
    NO_SCALARS,
    NOTHING,
    NUMBERED,
    ONE_ASK,
    ONE_MEAN,
    ONE_MORE,
    ONE_SIZE,
    OWN_MODELS,
    OWN_PART,
    OWN_STATISTICS,
    PLAIN_MEANS,
    REPLIED,
    RESTARTS,
    ROUNDS,
    SAME_CLIENTS,
    SENT,
    SERVER,
    SEVERAL,
    SIZES,
    STAYING,
    STEADY,
    THIS_ROUND,
    TIMES,
    UNAFFECTED,
    UNBROKEN,
    UNCLIPPED,
    VECTORS_ALIKE,
    WEIGHTED,
    Part,
    Term,
    where,
)
from rayfed.engine.channel import FEWEST
from rayfed.engine.run import Run
from rayfed.messages import Ask
from rayfed.population import Population
from rayfed.problems.own_code.problem import BoundOwnCode
from rayfed.selection.simple import All, UniformSelection
from rayfed.solvers.own_train import OwnTrain
from rayfed.study.forecast.declared import needs_of, of_problem


@dataclass(frozen=True)
class Setting:
    """A setting of participation.

    Parameters
    ----------
    key, value : str
        Its key, and the value that has these needs; any other than the default if "".
    holds : callable
        Whether a run has it.
    needs, removes : iterable of Term
    instead : str
        Remedy.
    server : bool
        Whether it needs a server.
    """

    key: str
    value: str
    holds: Callable[[Run], object]
    needs: Iterable[Term]
    removes: Iterable[Term]
    instead: str = "leave it out"
    server: bool = True


def _few(run: Run) -> bool:
    cohort = run.participation.cohort
    return cohort is not None and cohort < run.federation.population.count


def _asks_others(run: Run) -> bool:
    rule = run.participation
    again = rule.may_retry and not run.training.algorithm.asynchronous
    return rule.retry == "other" and (rule.retries > 0 or again)


def _discounts(run: Run) -> bool:
    rule = run.participation
    return rule.late == "stale" and not isinstance(rule.staleness, ConstantStaleness)


def _corrects(run: Run) -> bool:
    return run.participation.correct is not None


def _waits(run: Run) -> bool:
    return run.participation.patience_s is not None and not run.misses


def _misses(run: Run) -> bool:
    return run.misses


def _is(key: str, value: str) -> Callable[[Run], object]:
    return lambda run: getattr(run.participation, key) == value


def _exceeds(key: str, least: float) -> Callable[[Run], object]:
    return lambda run: (getattr(run.participation, key) or 0) > least


_TASK, _CONSTANT = "leave it out, or limit a task by timeout_s", "use drop, or staleness: constant"
_IN_TIME, _DROP = (ROUNDS, LOCAL, IN_TURN), "use drop"
_LATER = (*_IN_TIME, COHORT, ONE_ASK, WEIGHTED)
SETTINGS = (
    Setting("cohort", "", _few, (), (EVERYONE,)),
    Setting("deadline_s", "", _exceeds("deadline_s", 0), (ROUNDS,), (EVERYONE, CHANCES), _TASK),
    Setting("timeout_s", "", _exceeds("timeout_s", 0), (), (EVERYONE, CHANCES)),
    Setting(
        "over_select",
        "",
        _exceeds("over_select", 1),
        (ROUNDS, KNOWN_SIZE),
        (CHANCES, UNAFFECTED),
        "use 1",
    ),
    Setting("minimum", "", _exceeds("minimum", 1), (ROUNDS, COHORT), (CHANCES, UNAFFECTED)),
    Setting("patience_s", "", _waits, (ROUNDS,), ()),
    Setting("patience_s", "", _misses, (ROUNDS, OWN_MODELS), (EVERYONE,), server=False),
    Setting("retries", "", _exceeds("retries", 0), (), (CHANCES, UNAFFECTED)),
    Setting("retry", "other", _asks_others, (ROUNDS, ONE_MORE), (SAME_CLIENTS,), "use same"),
    Setting(
        "late",
        "partial",
        _is("late", "partial"),
        (*_IN_TIME, STEADY, TIMES),
        (ALL_STEPS,),
        "use drop",
    ),
    Setting("late", "stale", _is("late", "stale"), _LATER, (FRESH,), _DROP),
    Setting("late", "stale, discounted", _discounts, (), (VECTORS_ALIKE,), _CONSTANT),
    Setting(
        "interrupted",
        "resume",
        _is("interrupted", "resume"),
        (IN_TURN, STEADY),
        (UNBROKEN,),
        _DROP,
        False,
    ),
    Setting(
        "correct", "", _corrects, (ROUNDS, FRESH, COHORT), (MEAN, PLAIN_MEANS, ONE_MORE, COUNT_ONCE)
    ),
    Setting("correct", "known", _is("correct", "known"), (CHANCES,), (), "give intervals"),
)
"""Settings of participation with needs, in the order in which they are refused."""


def parts(run: Run, ask: Ask | None) -> Iterator[Part]:
    """Yield the parts of a run.

    Parameters
    ----------
    run : Run
    ask : Ask, optional
        The first Ask of its algorithm.
    """
    yield _algorithm(run, ask)
    yield of_problem(run.training.problem)
    yield from _code(run)
    yield from _participation(run)
    yield from _federation(run)
    if (graphs := run.federation.graphs) is not None:
        removes = where({
            ALIKE_LINKS: graphs.routes(0) is not None, BOTH_WAYS: graphs.of(0).directed,
            FIXED_GRAPH: not graphs.fixed,
        })  # fmt: skip
        yield Part("topology", "topology", NOTHING, removes)
    if not run.training.algorithm.centralised:
        yield from _channel(run)


def may_fail(run: Run) -> bool:
    """Return whether a client that takes part may not reply, or may be away."""
    clients, rule = run.federation.clients, run.participation
    return (
        rule.deadline_s is not None
        or rule.timeout_s is not None
        or clients.lossy
        or clients.crashing
        or run.batteries
        or any(each.fault.silent for each in run.faults)
        or clients.comes_and_goes()
    )


def _algorithm(run: Run, ask: Ask | None) -> Part:
    algorithm, privacy = run.training.algorithm, run.channel.privacy
    own = [solver for solver in run.training.solvers if isinstance(solver, OwnTrain)]
    needs = needs_of(algorithm) - where({FRESH: algorithm.asynchronous})
    needs |= where({STEADY: algorithm.gossip})
    removes = GIVEN - algorithm.gives
    removes |= where(
        {
            ROUNDS: algorithm.asynchronous,
            SERVER: algorithm.gossip,
            NUMBERED: isinstance(algorithm, MultiWalk),
            SEVERAL: run.asked < FEWEST,
            RESTARTS: isinstance(algorithm, Asynchronous) and algorithm.redispatch == "update",
            MEMORYLESS: privacy is not None
            and privacy.sampled
            and (algorithm.client_state(run.training.x0) or any(s.state for s in own)),
            SENT: ask is None or not coded_vectors(ask, run.coded(ask)),
            AVERAGED: getattr(algorithm, "server_lr", 1.0) > 1,  # out of the range of the models
        }
    )
    if ask is None:  # the run reports it, whether late tasks are used or not
        return Part("", f"'{run.label}'", needs - {FRESH, ALL_STEPS}, removes)
    vectors = any(n > 1 for n in ask.up.values())
    exact = ask.share is not None or (vectors and not run.coded(ask))
    needs |= where({REPLIED: ask.vectors, EXACT_UPLOADS: exact, STEADY: ask.overlap})
    removes |= where(
        {
            LOCAL: not ask.local,
            ONE_MEAN: GROUP in ask.up or ask.edge_of is not None,
            WEIGHTED: ask.plain,
            NO_SCALARS: any(n == 1 for n in ask.up.values()),
            IN_TURN: ask.overlap,
        }
    )
    return Part("", f"'{run.label}'", needs, removes)


def _code(run: Run) -> Iterator[Part]:
    """Yield the state that own code keeps at clients beyond that of the solver."""
    problem, privacy = run.training.problem, run.channel.privacy
    rows = problem.code.first_state.values() if isinstance(problem, BoundOwnCode) else ()
    if privacy is not None and privacy.sampled and any(row.size for row in rows):
        name, instead = "the state of the app", "give problem.state_bytes: 0 if it keeps none"
        yield Part("problem", name, NOTHING, frozenset({MEMORYLESS}), instead)


def _participation(run: Run) -> Iterator[Part]:
    rule, select = run.participation, run.participation.select
    drawn = select.removes - where({VECTORS_ALIKE: run.training.algorithm.asynchronous})
    name = f"'{select.name}'"
    needs = select.needs | where({SERVER: not isinstance(select, (All, UniformSelection))})
    yield Part("participation.select", name, needs, drawn, "give select: uniform")
    for each in SETTINGS:
        if each.holds(run):
            place, shown = f"participation.{each.key}", f"{each.key}: {getattr(rule, each.key)}"
            needs = frozenset(each.needs) | where({SERVER: each.server})
            yield Part(place, shown, needs, frozenset(each.removes), each.instead)


def _batch_norm(run: Run, module: str) -> Part:
    """Return the running statistics of a module as a part."""
    mode = getattr(run.training.problem, "normalisation", "average")
    needs, gives = frozenset({OWN_STATISTICS}), run.training.algorithm.gives
    if mode == "average" and OWN_STATISTICS in gives:
        needs = NOTHING
    elif mode == "average":
        plain = GLOBAL_STEPS in gives or AVERAGED not in gives
        way = {GLOBAL_STEPS} if plain else {AVERAGED, MEAN, FRESH, EXACT_UPLOADS}
        needs = frozenset({*way, PLAIN_MEANS, EXACT_DOWNLOADS})
    instead = "give problem.normalisation: frozen, or use GroupNorm or algorithm 'fedbn'"
    removes = where({GRADIENTS: GLOBAL_STEPS in needs & gives})  # of all rows: other statistics
    return Part("problem.model", f"BatchNorm ('{module}', {mode})", needs, removes, instead)


def _federation(run: Run) -> Iterator[Part]:
    algorithm, population, rule = (
        run.training.algorithm,
        run.federation.population,
        run.participation,
    )
    if run.training.weights != "uniform":
        name, instead = f"weights: {run.training.weights}", f"give '{run.label}' weights: uniform"
        yield Part("algorithm.weights", name, NOTHING, frozenset({COUNT_ONCE}), instead)
    if any(solver.varying and solver.varying.listens for solver in run.training.solvers):
        needs = frozenset({ROUNDS, SERVER})
        yield Part("algorithm.local", "a number of steps that follows losses", needs)
    if isinstance(algorithm, Asynchronous) and algorithm.overlap:
        needs, removes = frozenset({STEADY, TIMES, RESTARTS}), frozenset({IN_TURN})
        yield Part("algorithm.overlap", "overlap: true", needs, removes, "leave it out")
    if norms := [layer.module for layer in run.layers if layer.kind == "statistics"]:
        yield _batch_norm(run, norms[0])
    clients = run.federation.clients
    wanted = needs_of(algorithm) & {EVERYONE, STAYING}
    fails = bool(wanted) and may_fail(run)  # which looks at all clients
    removes = where({EVERYONE: fails or clients.by_round, STAYING: fails})
    if removes & wanted:
        instead = "let none be away, crash, fail to reply or be silent"
        yield Part("clients", "absence or failure", NOTHING, removes, instead)
    unknown = rule.correct == "known" and population.chance(np.arange(1), 0.0, 1) is None
    needs = where({ROUNDS: population.by_round})
    removes = where({CHANCES: unknown, BLIND: population.needs, BY_CLOCK: population.by_round})
    name = f"'{population.availability.name}'"
    yield Part("clients.availability", name, needs, removes, "give it a period_s")
    privacy, fixed = run.channel.privacy, rule.deadline_s is not None and ONE_ASK in algorithm.gives
    if privacy is not None and privacy.sampled and not fixed and population.comes_and_goes():
        name = "a round that lasts as long as its clients take, where others come and go,"
        instead = f"give '{run.label}' participation.deadline_s: all rounds then last so long"
        yield Part("clients.availability", name, NOTHING, frozenset({UNAFFECTED}), instead)
    yield from _over_time(population)
    yield from _energy(run)
    if population.lossy or population.crashing:
        yield Part("clients", "loss of replies", NOTHING, frozenset({CHANCES}))
    if run.federation.server.limited and not algorithm.gossip:
        waits = rule.deadline_s is not None or rule.timeout_s is not None
        removes = where({TIMES: True, UNAFFECTED: waits})
        yield Part("server", "the server", frozenset({STEADY}), removes)
    if run.federation.views.training.shards.moves_sizes:
        yield Part("drift", "drift", NOTHING, frozenset({SIZES}))


def _over_time(population: Population) -> Iterator[Part]:
    """Yield the files and episodes that change clients over time."""
    if population.numbered:
        needs, instead = frozenset({NUMBERED}), "use another delay"
        yield Part("clients.delay", "'measured'", needs, NOTHING, instead)
    if any(crash.episodic for crash in population.crash_settings):
        needs, instead = frozenset({NUMBERED}), "leave start, end and every out"
        yield Part("clients.crash", "an episode of crashes", needs, NOTHING, instead)
    if population.unsteady:
        yield Part("clients.network.file", "network.file", NOTHING, frozenset({STEADY}))


def _energy(run: Run) -> Iterator[Part]:
    """Yield the energy of devices."""
    if run.metered:
        timed = any(energy.by_time for energy in run.federation.population.energies)
        needs = where({TIMES: True, IN_TURN: True, UNBROKEN: True, SERVER: timed})
        name = "energy with a radio's power" if timed else "energy"
        yield Part("clients.energy", name, needs, NOTHING, "leave energy out")
    if run.batteries:
        privacy = run.channel.privacy  # a coin of a round has an effect on later ones
        removes = where({CHANCES: True, MEMORYLESS: privacy is not None and privacy.sampled})
        needs = frozenset({SERVER})
        yield Part("clients.energy.battery", "a battery", needs, removes, "leave it out")


def _channel(run: Run) -> Iterator[Part]:
    channel, out = run.channel, f"leave it out for '{run.label}'"
    for stage in channel.uplink:
        memory = stage.memory if isinstance(stage, Codec) else None
        needs = stage.needs | where({SERVER: not isinstance(stage, Codec)})
        if isinstance(stage, SecureSum) and channel.privacy is not None:
            needs -= {SEVERAL}  # noise hides a single reply
        if isinstance(stage, Codec) and memory is None:
            needs |= where({ONE_ASK: any(stage.first(shape) for shape in run.layout.shapes)})
        adapts = isinstance(stage, Clip) and stage.adaptive is not None
        removes = stage.removes | where({FIXED_NORM: adapts, UNCLIPPED: isinstance(stage, Clip)})
        yield Part("uplink", f"'{stage.name}'", needs, removes, out)
        if memory is not None:
            needs = memory.needs | where({SERVER: True, UNCLIPPED: True, SIZES: memory.at_server})
            removes = where({THIS_ROUND: memory.at_server, ONE_SIZE: memory.exact_first})
            yield Part("uplink", f"'{memory.name}'", needs, memory.removes | removes, out)
    for stage in channel.downlink:
        memory = stage.memory if isinstance(stage, Codec) else None
        needs = where({SERVER: True, ONE_ASK: memory is not None})
        name = f"'{stage.name if memory is None else memory.name}'"
        yield Part("downlink", name, needs, frozenset({EXACT_DOWNLOADS}), out)
    ask = run.first_ask() if run.faults else None
    repeats = ask is not None and ask.edge_of is not None  # the same Ask at edges, several times
    for faulty in run.faults:
        fault, place = faulty.fault, f"clients.faults.{faulty.number}"
        own = isinstance(fault, UploadFault) and not fault.keeps
        needs = fault.needs | where({
            ONE_ASK: isinstance(fault, UploadFault) and fault.keeps and not repeats,
            SERVER: not (own or fault.rows or fault.silent), ROUNDS: fault.silent,
            OWN_MODELS: fault.silent and run.training.algorithm.gossip,
        })  # fmt: skip
        removes = fault.removes | where({
            HONEST: True, BOUNDED: isinstance(fault, UploadFault),
            OWN_PART: not (fault.rows or fault.silent),
        })  # fmt: skip
        yield Part(place, f"'{fault.name}'", needs, removes)
    if channel.aggregate is not None:
        rule = channel.aggregate
        again = run.secure and run.participation.retries
        needs = rule.needs | where({SERVER: True, SAME_CLIENTS: again})
        yield Part("aggregate", f"'{rule.name}'", needs, rule.removes)
    if channel.privacy is not None:
        needs = channel.privacy.needs | where({SERVER: True, BOUNDED: run.secure})
        yield Part("privacy", "privacy", needs, channel.privacy.removes)
