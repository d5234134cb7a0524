"""Refusals of what cannot go through the channel, or not with an algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rayfed.channel.aggregators.base import Aggregator
from rayfed.channel.base import Codec, Memory, Stage
from rayfed.channel.faults.base import Collusion
from rayfed.channel.faulty import Faulty
from rayfed.channel.stages import Clip, SecureSum
from rayfed.channel.uplink import coded_vectors
from rayfed.clients.request import GROUP
from rayfed.core.errors import ScenarioError
from rayfed.engine.channel import FEWEST
from rayfed.engine.run import Run
from rayfed.messages import Ask


def check_channel(index: int, run: Run, ask: Ask | None) -> None:
    """Refuse stages that do not go together, or not with the algorithm.

    Parameters
    ----------
    index : int
        Number of the algorithm in the scenario file.
    ask : Ask, optional
        Its first Ask.

    Raises
    ------
    ScenarioError
        With the place of the stages: of the study, or of the algorithm if it has its own.
    """
    algorithm = run.training.algorithm
    if algorithm.centralised:
        return
    for key, own, stages, why in (
        ("uplink", algorithm.uplink, run.channel.uplink, _uplink),
        ("downlink", algorithm.downlink, run.channel.downlink, _downlink),
    ):
        if stages and (text := why(run, stages, ask)):
            raise ScenarioError(key if own == "study" else f"algorithms.{index}.{key}", text)
    for faulty in run.faults:
        if text := _fault(run, faulty, ask):
            raise ScenarioError(f"clients.faults.{faulty.number}", text)
    if run.channel.aggregate is not None and (text := _rule(run, run.channel.aggregate, ask)):
        whole = algorithm.aggregate == "study"
        raise ScenarioError("aggregate" if whole else f"algorithms.{index}.aggregate", text)


def _uplink(run: Run, stages: Sequence[Stage], ask: Ask | None) -> str:
    """Return why vectors cannot go up; empty if they can."""
    if not run.training.algorithm.takes_codecs:
        return f"what '{run.label}' uploads cannot be coded on its way; leave it out for it"
    codecs = [stage for stage in stages if isinstance(stage, Codec)]
    adapts = any(isinstance(stage, Clip) and stage.adaptive is not None for stage in stages)
    if adapts and run.channel.privacy is None:
        return "a norm that follows a quantile is for private runs; give a number"
    if text := _order(stages) or _secure(run, stages, ask):
        return text
    if len(codecs) > 1:
        return f"found '{codecs[0].name}' and '{codecs[1].name}'; give one codec"
    vectors = {} if ask is None else coded_vectors(ask)
    if ask is not None and not vectors and any(n > 1 for n in ask.up.values()):
        text = "uploads only vectors that its clients keep, which travel as they are"
        return f"'{run.label}' {text}; switch the uplink off for it"
    for codec in codecs:
        shapes = [s for n in vectors.values() for s in run.layout.pieces(codec, n)]
        if codec.matrices and all(len(shape) < 2 for shape in shapes):
            return f"'{codec.name}' codes matrices, and the model has none; give another codec"
        if codec.memory is not None:
            text = _memory(run, codec.memory, ask) or codec.memory.misfit(codec, shapes)
            if text:
                return f"'{codec.memory.name}' {text}"
    return ""


def _order(stages: Sequence[Stage]) -> str:
    """Return which stage does not go behind another; each is there once."""
    for before, after in pairwise(stages):
        if isinstance(before, SecureSum):
            return (
                f"found '{after.name}' behind 'secure-sum', where nothing can be seen; put it first"
            )
        if isinstance(before, Clip) and not isinstance(after, SecureSum):
            return f"found '{after.name}' behind 'clip', whose norm it would change; put it first"
    if any(isinstance(stage, Clip) for stage in stages):
        for stage in stages:
            if isinstance(stage, Codec) and stage.memory is not None:
                return (
                    f"'{stage.memory.name}' notes what is sent, which 'clip' changes; leave one out"
                )
    return ""


def _secure(run: Run, stages: Sequence[Stage], ask: Ask | None) -> str:
    """Return why sums of a run cannot be secure; empty if they can, or need not."""
    if not run.secure:
        return ""
    algorithm, rule = run.training.algorithm, run.participation
    memories = [stage.memory for stage in stages if isinstance(stage, Codec)]
    scalars = [] if ask is None else [name for name, n in ask.up.items() if n == 1]
    why = {
        f"the server sees single vectors of '{run.label}'": algorithm.sees_vectors
        or any(memory is not None and memory.sees_vectors for memory in memories),
        "first vectors as they are cost as much as all others; give start: coded": any(
            memory is not None and memory.whole_first for memory in memories
        ),
        f"'{run.label}' uploads scalars, which leave in the clear ({', '.join(scalars)})": scalars,
        f"'{rule.select.name}' learns from losses, which leave in the clear": rule.select.listens,
        "late: stale opens sums of single clients; give another late": rule.late == "stale",
        "an update of a single reply is no sum": run.asked < FEWEST and run.channel.privacy is None,
        "its turns are not timed on a link that is shared": run.federation.server.limited,
    }
    return next((f"found 'secure-sum', but {text}" for text, holds in why.items() if holds), "")


def _memory(run: Run, memory: Memory, ask: Ask | None) -> str:
    """Return why an algorithm does not go with a memory, as the end of a sentence."""
    algorithm, shards = run.training.algorithm, run.federation.views.training.shards
    if not algorithm.takes_estimates:
        return f"makes estimates of a mean over all clients, which '{run.label}' does not take"
    if ask is None:
        return f"is for the first Ask of a round, and '{run.label}' asks nothing at first"
    if not coded_vectors(ask):
        return f"is for the first Ask of a round, in which '{run.label}' uploads no vectors"
    if GROUP in ask.up:
        return f"makes one mean, and '{run.label}' needs one of each group"
    if memory.at_server and shards.moves_sizes:
        return "goes by the sizes of clients, which drift changes; leave the memory out"
    return ""


def _fault(run: Run, faulty: Faulty, ask: Ask | None) -> str:
    """Return why clients cannot have a fault; empty if they can."""
    fault, algorithm = faulty.fault, run.training.algorithm
    collude = isinstance(fault, Collusion)
    if algorithm.asynchronous and (collude or fault.silent):
        return f"'{fault.name}' is of rounds, and '{run.label}' has none; leave one of them out"
    if collude and any(isinstance(stage, SecureSum) for stage in run.channel.uplink):
        return f"'{fault.name}' is made of sums that 'secure-sum' hides; leave one of them out"
    if collude and ask is not None and (ask.plain or GROUP in ask.up):
        text = "needs one mean of the honest, and"
        return f"'{fault.name}' {text} '{run.label}' uploads vectors that have none"
    return ""


def _rule(run: Run, rule: Aggregator, ask: Ask | None) -> str:
    """Return why a robust rule cannot take the place of the mean; empty if it can."""
    algorithm, participation, name = run.training.algorithm, run.participation, rule.name
    if not algorithm.takes_estimates:
        return f"'{run.label}' needs the mean itself, not what '{name}' makes of the vectors"
    if ask is not None and (GROUP in ask.up or ask.vectors):
        return f"'{run.label}' needs the vectors in its own way; leave '{name}' out for it"
    if run.training.weights != "uniform":
        return f"'{name}' counts every client once; give '{run.label}' weights: uniform"
    if participation.correct is not None:
        return f"'{name}' counts every client once; leave participation.correct out"
    memory = next((s.memory for s in run.channel.uplink if isinstance(s, Codec)), None)
    if memory is not None and memory.at_server:
        return f"'{memory.name}' adds up what all clients sent, which '{name}' does not"
    if run.secure and (text := _secure_rule(run, rule)):
        return text
    buckets = rule.before is not None and not rule.sees_vectors
    if buckets and (algorithm.asynchronous or participation.late == "stale"):
        return "buckets are of one cohort, whose replies come in one round; take another mixer"
    cohort = participation.cohort or run.federation.population.count
    vectors = cohort if rule.before is None else rule.before.count(cohort)
    if vectors < rule.least() and not algorithm.asynchronous:
        return f"'{name}' needs {rule.least()} vectors and gets {vectors}; give a smaller f"
    return ""


def _secure_rule(run: Run, rule: Aggregator) -> str:
    """Return why a rule cannot go by secure sums; empty if it can."""
    participation, name = run.participation, rule.name
    if rule.sees_vectors or rule.before is None:
        return f"'{name}' needs vectors, which 'secure-sum' hides; give before: buckets"
    if participation.retry == "other" and participation.retries:
        return "buckets of secure sums are known before anybody fails; give retry: same"
    asked = run.asked
    if asked % rule.before.together(asked) == 1:
        return f"of {asked} clients one is in a bucket of its own; give another size or cohort"
    return ""


def _downlink(run: Run, stages: Sequence[Stage], ask: Ask | None) -> str:
    """Return why the server's vectors cannot go down; empty if they can."""
    codec, *others = stages
    if others or not isinstance(codec, Codec):
        return "give one codec, and nothing else"
    shapes = run.layout.shapes
    if any(codec.first(shape) for shape in shapes):
        return f"'{codec.name}' keeps something with each client; give another codec"
    memory = codec.memory
    if memory is None:
        return ""
    if not memory.estimates or memory.sees_vectors:
        return f"'{memory.name}' is for sums over clients; give ef21"
    text = memory.misfit(codec, run.layout.pieces(codec, run.training.x0.size))
    return f"'{memory.name}' {text}" if text else ""
