"""Refusals of what cannot go through the channel, with an algorithm, or with privacy.

What a private run spends has to be what the accountant counts. Whatever keeps, weighs, replaces or
waits for clients is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from rayfed.algorithms.base import Coded
from rayfed.algorithms.staleness import ConstantStaleness
from rayfed.channel.aggregators import Aggregator
from rayfed.channel.base import Codec, Memory, Stage
from rayfed.channel.faults import Collusion, UploadFault
from rayfed.channel.faulty import Faulty
from rayfed.channel.privacy import Privacy, Tree, missing
from rayfed.channel.stages import Clip, SecureSum
from rayfed.channel.uplink import coded_vectors
from rayfed.clients.request import GROUP
from rayfed.core.errors import ScenarioError, under
from rayfed.engine.channel import FEWEST
from rayfed.engine.run import ENDLESS, Run
from rayfed.messages import Ask

Refusals: TypeAlias = Iterator[tuple[str, str]]
"""Dotted keys, and why what stands there is refused; where that is empty nothing is.

Keys of the algorithm itself are below ``algorithm``. What an algorithm may say in place of the
study has the key of the study (see `Study.blamed`).
"""
_UNITS, _DEVIATIONS = 5.0, 8.0  # decision 0191


def first(why: Mapping[str, object]) -> str:
    """Return the first text whose condition holds; empty if none does."""
    return next((text for text, holds in why.items() if holds), "")


def of_channel(run: Run, ask: Ask | None) -> Refusals:
    """Refuse stages, faults and rules that do not go together, or not with the algorithm.

    Parameters
    ----------
    ask : Ask, optional
        Its first Ask.
    """
    channel = run.channel
    if run.training.algorithm.centralised:
        return
    if channel.uplink:
        yield "uplink", _uplink(run, channel.uplink, ask)
    if channel.downlink:
        yield "downlink", _downlink(run, channel.downlink)
    for faulty in run.faults:
        yield f"clients.faults.{faulty.number}", _fault(run, faulty, ask)
    if channel.aggregate is not None:
        yield "aggregate", _rule(run, channel.aggregate, ask)


def _uplink(run: Run, stages: Sequence[Stage], ask: Ask | None) -> str:
    """Return why vectors cannot go up; empty if they can."""
    codecs = [stage for stage in stages if isinstance(stage, Codec)]
    adapts = any(isinstance(stage, Clip) and stage.adaptive is not None for stage in stages)
    if adapts and run.channel.privacy is None:
        return "a norm that follows a quantile is for private runs; give a number"
    if text := _order(stages) or _secure(run, stages, ask):
        return text
    if len(codecs) > 1:
        return f"found '{codecs[0].name}' and '{codecs[1].name}'; give one codec"
    changes = any(not isinstance(stage, SecureSum) for stage in stages)
    text = _exact(run, ask) if ask is not None and changes else ""
    return text or (_codec(run, codecs[0], ask) if codecs else "")


def _codec(run: Run, codec: Codec, ask: Ask | None) -> str:
    """Return why a codec cannot code the uploads of an algorithm; empty if it can."""
    coded: Coded = {} if ask is None else run.coded(ask)
    vectors = {} if ask is None else coded_vectors(ask, coded)
    pieces = {name: run.layout.pieces(codec, n) for name, n in vectors.items()}
    shapes = [shape for name in pieces for shape in pieces[name]]
    if codec.matrices and all(len(shape) < 2 for shape in shapes):
        return f"'{codec.name}' codes matrices, and the model has none; give another codec"
    if codec.memory is not None:
        text = _memory(run, codec.memory, ask) or codec.memory.misfit(codec, shapes)
        return f"'{codec.memory.name}' {text}" if text else ""
    for name in pieces:
        contracts = all(codec.error(shape) < 1 for shape in pieces[name])
        if coded[name] == "contractive" and not contracts:
            hint = "top-k, or unbiased: false" if codec.name == "rand-k" else "top-k"
            text = f"'{run.label}' adds '{name}' to what its clients keep"
            return f"{text}, which needs a contractive codec, such as {hint}"
    if not run.training.algorithm.asks_once and any(codec.first(s) for s in run.layout.shapes):
        return f"'{codec.name}' is for one Ask in a round, and '{run.label}' asks again"
    return ""


def _exact(run: Run, ask: Ask) -> str:
    """Return why no codec or clip may change the uploads of an algorithm; empty if one may.

    A declaration does not count for client state, or a client function, of a class below it.
    """
    algorithm, off = run.training.algorithm, "switch the uplink off for it"
    if not any(n > 1 for n in ask.up.values()):
        return ""  # nothing to change
    if not run.coded(ask):
        return f"'{run.label}' needs its uploads as they are; {off}"
    declares, *keeps = (
        next(k for k, cls in enumerate(type(algorithm).__mro__) if name in vars(cls))
        for name in ("coded", "client_state", ask.function)
    )
    if declares > min(keeps) and algorithm.client_state(run.training.x0):
        text = f"'{run.label}' keeps client state, and does not say which uploads may be changed"
        return f"{text}; declare `coded` in its class, or {off}"
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
    text = first(why)
    return f"found 'secure-sum', but {text}" if text else ""


def _memory(run: Run, memory: Memory, ask: Ask | None) -> str:
    """Return why an algorithm does not go with a memory, as the end of a sentence."""
    algorithm, shards = run.training.algorithm, run.federation.views.training.shards
    if not algorithm.takes_estimates:
        return f"makes estimates of a mean over all clients, which '{run.label}' does not take"
    if ask is None:
        return f"is for the first Ask of a round, and '{run.label}' asks nothing at first"
    if not coded_vectors(ask, run.coded(ask)):
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
    if text := _alike(run, rule):
        return f"'{name}' counts every vector once, and {text}"
    cohort = participation.cohort or run.federation.population.count
    vectors = cohort if rule.before is None else rule.before.count(cohort)
    if vectors < rule.least() and not algorithm.asynchronous:
        return f"'{name}' needs {rule.least()} vectors and gets {vectors}; give a smaller f"
    return ""


def _alike(run: Run, rule: Aggregator) -> str:
    """Return why vectors do not count alike where a rule needs that; empty if they do."""
    participation, select = run.participation, run.participation.select
    discounts = not isinstance(participation.staleness, ConstantStaleness)
    if rule.weighs and rule.before is None:
        return ""
    if participation.late == "stale" and discounts:
        return "late: stale weighs late ones less; give late: drop, or staleness: constant"
    if select.repeats and not run.training.algorithm.asynchronous:
        return f"'{select.name}' may draw a client twice; give select: uniform"
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


def _downlink(run: Run, stages: Sequence[Stage]) -> str:
    """Return why the server's vectors cannot go down; empty if they can."""
    algorithm, (codec, *others) = run.training.algorithm, stages
    if algorithm.exact_downloads:
        return f"clients of '{run.label}' need exactly what the server sends; leave it out for it"
    if others or not isinstance(codec, Codec):
        return "give one codec, and nothing else"
    shapes = run.layout.shapes
    if any(codec.first(shape) for shape in shapes):
        return f"'{codec.name}' keeps something with each client; give another codec"
    memory = codec.memory
    if memory is None:
        return ""
    if not algorithm.asks_once:
        return f"'{memory.name}' is for one Ask in a round, and '{run.label}' asks again"
    if not memory.estimates or memory.sees_vectors:
        return f"'{memory.name}' is for sums over clients; give ef21"
    text = memory.misfit(codec, run.layout.pieces(codec, run.training.x0.size))
    return f"'{memory.name}' {text}" if text else ""


def with_noise(run: Run) -> Run:
    """Return a run whose noise is known, where it is to be private.

    Raises
    ------
    ScenarioError
        If its epsilon would not be that of the accountant; the message says why.
    """
    privacy, algorithm = run.channel.privacy, run.training.algorithm
    if privacy is None or algorithm.centralised:
        return run
    if text := missing() or _untrue(run, privacy) or _uncounted(run, run.first_ask()):
        raise ScenarioError("privacy", text)
    q = (run.participation.cohort or 0) / run.federation.clients.count
    with under("privacy"):
        noise = privacy.multiplier(q, run.ending.rounds)
    solved = replace(privacy, noise=noise, epsilon=None)
    run = replace(run, channel=replace(run.channel, privacy=solved))
    if text := _no_room(run):
        raise ScenarioError("uplink", text)
    assert run.private is not None
    if math.isfinite(run.private.multiplier):
        return run
    text = f"the count alone spends more with noise {run.private.counted_noise:g}; with noise"
    least = (0.5 + run.private.rounding[1]) * noise
    raise ScenarioError("uplink", f"{text} {noise:.4g} on all, give norm.noise above {least:.4g}")


def _untrue(run: Run, privacy: Privacy) -> str:
    """Return why a run is not what the accountant counts; empty if it is."""
    return first(_drawn(run, privacy) | _sent(run, privacy) | _others(run, privacy))


def _drawn(run: Run, privacy: Privacy) -> dict[str, object]:
    """Return what a cohort must be for the accountant to count it."""
    rule, select = run.participation, run.participation.select
    tree, shares = isinstance(privacy, Tree), privacy.at == "clients"
    data = select.listens or select.asks or select.size_weighted or select.repeats
    return {
        f"'{run.label}' has no rounds, and sampling is of rounds": (
            run.training.algorithm.asynchronous
        ),
        "every client takes part with one probability; give participation.select: poisson": (
            privacy.sampled and not select.may_be_empty
        ),
        "the expected cohort is not known; give participation.cohort": (
            (privacy.sampled or select.own_cohort) and rule.cohort is None
        ),
        f"'{select.name}' goes by data or draws clients twice; give select: uniform": (
            not privacy.sampled and (data or select.own_cohort)
        ),
        "every client is drawn anew; a tree is for cohorts that nobody draws": (
            tree and select.may_be_empty
        ),
        "the noise of a sum tells how many clients added to it, which coins must hide; give "
        "participation.select: uniform, or at: server": shares and select.may_be_empty,
    }


def _sent(run: Run, privacy: Privacy) -> dict[str, object]:
    """Return what uploads must be for their noise to hide them."""
    stages = [stage for stage in run.channel.uplink if not isinstance(stage, SecureSum)]
    clip = stages[-1] if stages and isinstance(stages[-1], Clip) else None
    adaptive = clip is not None and clip.adaptive is not None
    largest = 0.0 if clip is None else max(clip.start, 0.5 if adaptive else 0.0)
    uplink, shares = run.uplink(), privacy.at == "clients"
    changed = any(isinstance(each.fault, UploadFault) for each in run.faults)
    return {
        "a client's own noise does not hide its upload; end the uplink with secure-sum": (
            shares and not run.secure
        ),
        "faulty clients leave their noise out; leave clients.faults or at: clients out": (
            shares and run.faults
        ),
        "no clip bounds what faulty clients send, and noise does not hide that a secure sum wraps "
        "around; leave clients.faults or secure-sum out": run.secure and changed,
        "clients count alike; give weights: uniform": run.training.weights != "uniform",
        "nothing bounds an upload; end the uplink with {name: clip, norm: ...}": clip is None,
        f"noise does not hide that a sum of numbers of {largest:g} wraps around; give secure-sum "
        "a larger range, or more bits": (
            not shares and uplink is not None and largest > uplink.largest
        ),
        "the noise of a tree is on sums over rounds; give a norm that does not change": (
            isinstance(privacy, Tree) and adaptive
        ),
        "the count of an adaptive norm gets its noise at the server; give a norm that does not "
        "change, or at: server": shares and adaptive,
    }


def _others(run: Run, privacy: Privacy) -> dict[str, object]:
    """Return what else one client must not decide of others, or of other rounds."""
    algorithm, rule, clients = run.training.algorithm, run.participation, run.federation.clients
    codecs = [stage for stage in run.channel.uplink if isinstance(stage, Codec)]
    memory = next((codec.memory.name for codec in codecs if codec.memory), "")
    knowing = next((f.fault.name for f in run.faults if isinstance(f.fault, Collusion)), "")
    waits = rule.deadline_s is not None or rule.timeout_s is not None
    state = privacy.sampled and algorithm.client_state(run.training.x0)
    return {
        f"'{memory}' remembers earlier rounds, in which a client was not drawn": memory,
        f"clients of '{run.label}' remember earlier rounds, in which they were not drawn": state,
        "over_select lets one client displace another; leave it out": rule.over_select > 1,
        "retries ask others in the place of a client; leave them out": rule.retries,
        "minimum lets the others wait for a client; leave it out": rule.minimum > 1,
        "late: stale uses a client in rounds in which it was not drawn; give drop": (
            rule.late == "stale"
        ),
        "participation.correct weighs clients; leave it out": rule.correct,
        "a robust rule does not divide by the expected cohort; leave aggregate out": (
            run.channel.aggregate is not None
        ),
        f"clients with '{knowing}' know what others send; leave it out": knowing,
        "clients share a link, so one makes another late; leave the deadline or the link out": (
            waits and run.federation.server.limited
        ),
        "one client decides whether a secure sum of all others is lost; let no reply fail, or give "
        f"secure-sum a threshold of at most {1 / clients.count:.2g}": (
            privacy.sampled and _may_lose(run)
        ),
        "availability depends on the clients' data; give one that does not": clients.needs,
        "the number of rounds is not known; give rounds": run.ending.rounds == ENDLESS,
    }


def _may_lose(run: Run) -> bool:
    """Whether a secure sum that has a reply may be lost, since too many have failed."""
    uplink = run.uplink()
    secure = None if uplink is None else uplink.secure
    if secure is None or secure.threshold * run.federation.clients.count <= 1:
        return False
    return may_fail(run)


def may_fail(run: Run) -> bool:
    """Whether a client that takes part may not reply, or may be away."""
    clients, rule = run.federation.clients, run.participation
    return (
        rule.deadline_s is not None
        or rule.timeout_s is not None
        or clients.lossy
        or clients.crashing
        or any(each.fault.silent for each in run.faults)
        or bool(np.isfinite(clients.next_change(np.arange(clients.count), 0.0)).any())
    )


def _no_room(run: Run) -> str:
    """Return why a secure sum cannot bear the noise of clients; empty if it can, or need not."""
    uplink = run.uplink()
    if uplink is None or not uplink.noise:
        return ""
    noise, text = f"noise of {uplink.share:.3g} at each client", "give secure-sum"
    if uplink.share_units < _UNITS:
        found = f"{uplink.share_units:.2g} units of a sum, and {_UNITS:g} are needed"
        return f"{noise} is {found}; {text} more bits"
    if uplink.deviations < _DEVIATIONS:
        return f"with {noise} a sum may wrap around; {text} a larger range"
    return ""


def _uncounted(run: Run, ask: Ask | None) -> str:
    """Return what leaves clients that is neither clipped nor noised; empty if nothing does."""
    label = run.label
    if ask is None:
        return f"'{label}' does not ask its clients at first; what it asks is not counted"
    if not run.training.algorithm.takes_estimates:
        return f"'{label}' needs to know who took part; the server gets a noised mean alone"
    if GROUP in ask.up or ask.vectors:
        return f"'{label}' needs more than one mean; the server gets a noised mean alone"
    coded = run.coded(ask)
    bare = [name for name, n in ask.up.items() if n == 1 or name not in coded]
    if bare:
        return f"'{label}' uploads '{bare[0]}' beside the clipped vectors, in the clear"
    return ""
