"""Refusals of stages, rules and privacy that follow from numbers, orders and shapes.

What a private run spends has to be what the accountant counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.base import Coded
from rayfed.channel.aggregators import Aggregator
from rayfed.channel.base import Codec, Stage
from rayfed.channel.privacy import Privacy, missing
from rayfed.channel.stages import Clip, SecureSum
from rayfed.channel.uplink import coded_vectors
from rayfed.core.errors import ScenarioError, under
from rayfed.core.needs import EXACT_UPLOADS, VECTORS, Refusals
from rayfed.core.shares import at_least
from rayfed.engine.channel import FEWEST
from rayfed.engine.places import Tiers
from rayfed.engine.run import ENDLESS, Run
from rayfed.engine.settings import Stop
from rayfed.messages import Ask
from rayfed.study.forecast.parts import may_fail

_UNITS, _DEVIATIONS = 5.0, 8.0  # decision 0191


def first(why: Mapping[str, object]) -> str:
    """Return the first text with a true condition; empty if there is none."""
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
    if channel.aggregate is not None:
        yield "aggregate", _rule(run, channel.aggregate)


def _uplink(run: Run, stages: Sequence[Stage], ask: Ask | None) -> str:
    """Return why vectors cannot go up; empty if they can."""
    codecs = [stage for stage in stages if isinstance(stage, Codec)]
    adapts = any(isinstance(stage, Clip) and stage.adaptive is not None for stage in stages)
    if adapts and run.channel.privacy is None:
        return "a norm that follows a quantile is for private runs; give a number"
    if text := _order(stages):
        return text
    if len(codecs) > 1:
        return f"found '{codecs[0].name}' and '{codecs[1].name}'; give one codec"
    changes = any(EXACT_UPLOADS in stage.removes for stage in stages)
    text = _undeclared(run, ask) if ask is not None and changes else ""
    text = text or (_codec(run, codecs[0], ask) if codecs else "")
    return text or _over_selected(run) or _sums_of_tiers(run)


def _over_selected(run: Run) -> str:
    """Return why over-selection loses every secure sum; empty if it does not.

    Of the sums of buckets some may have all of their replies.
    """
    rule, count, uplink = run.participation, run.federation.population.count, run.uplink()
    if uplink is None or uplink.secure is None or rule.cohort is None:
        return ""
    if run.channel.aggregate is not None:
        return ""
    asked, used, threshold = rule.asked(count), min(rule.cohort, count), uplink.secure.threshold
    if at_least(threshold, asked) <= used:
        return ""
    text = f"over_select: {rule.over_select:g} uses {used} of {asked} replies"
    return f"{text}, less than secure-sum's threshold of {threshold:g}; make one of them smaller"


def _sums_of_tiers(run: Run) -> str:
    """Return why the sums of tiers cannot be secure; empty if they can, or there are none.

    The engine opens what a tier has sent without asking how many of it did.
    """
    algorithm, count = run.training.algorithm, run.federation.population.count
    if not isinstance(algorithm, Asynchronous) or algorithm.redispatch != "update":
        return ""
    if not run.secure:
        return ""
    places = Tiers.of(algorithm, count, min(algorithm.concurrency or count, count)).places
    if min(places) < FEWEST:
        return f"found 'secure-sum' of {min(places)} client in a tier; give fewer tiers"
    if may_fail(run):
        return "found 'secure-sum' of tiers whose clients may fail; let no reply fail"
    return ""


def _codec(run: Run, codec: Codec, ask: Ask | None) -> str:
    """Return why a codec cannot code the uploads of an algorithm; empty if it can."""
    coded: Coded = {} if ask is None else run.coded(ask)
    vectors = {} if ask is None else coded_vectors(ask, coded)
    pieces = {name: run.layout.pieces(codec, n) for name, n in vectors.items()}
    shapes = [shape for name in pieces for shape in pieces[name]]
    if codec.matrices and all(len(shape) < 2 for shape in shapes):
        return f"'{codec.name}' codes matrices, and the model has none; give another codec"
    if codec.memory is not None:
        text = codec.memory.misfit(codec, shapes)
        return f"'{codec.memory.name}' {text}" if text else ""
    for name in pieces:
        contracts = all(codec.error(shape) < 1 for shape in pieces[name])
        if coded[name] == "contractive" and not contracts:
            hint = "top-k, or unbiased: false" if codec.name == "rand-k" else "top-k"
            text = f"'{run.label}' adds '{name}' to what its clients keep"
            return f"{text}, which needs a contractive codec, such as {hint}"
    return ""


def _undeclared(run: Run, ask: Ask) -> str:
    """Return why the uploads of a class with client state may not be changed; empty if they may.

    A declaration does not count for client state, or a client function, of a class below it.
    """
    algorithm = run.training.algorithm
    declares, *keeps = (
        next(k for k, cls in enumerate(type(algorithm).__mro__) if name in vars(cls))
        for name in ("coded", "client_state", ask.function)
    )
    vectors = any(n > 1 for n in ask.up.values())
    if vectors and declares > min(keeps) and algorithm.client_state(run.training.x0):
        text = (
            f"'{run.label}' keeps client state, and does not declare which uploads may be changed"
        )
        return f"{text}; declare `coded` in its class, or switch the uplink off for it"
    return ""


def _order(stages: Sequence[Stage]) -> str:
    """Return the error of stages in a wrong order; each occurs once."""
    for before, after in pairwise(stages):
        if isinstance(before, SecureSum):
            return (
                f"found '{after.name}' after 'secure-sum', which hides single vectors; put it first"
            )
        if isinstance(before, Clip) and not isinstance(after, SecureSum):
            return f"found '{after.name}' after 'clip', changing its norm; put it first"
    return ""


def _rule(run: Run, rule: Aggregator) -> str:
    """Return why a robust rule gets too few vectors; empty if it gets enough."""
    if run.secure and (text := _secure_rule(run, rule)):
        return text
    cohort = run.participation.cohort or run.federation.population.count
    vectors = cohort if rule.before is None else rule.before.count(cohort)
    if vectors < rule.least() and not run.training.algorithm.asynchronous:
        return f"'{rule.name}' needs {rule.least()} vectors and gets {vectors}; give a smaller f"
    return ""


def _secure_rule(run: Run, rule: Aggregator) -> str:
    """Return why a rule cannot go by secure sums; empty if it can."""
    assert rule.before is not None
    asked = run.asked
    if asked % rule.before.together(asked) == 1:
        return f"of {asked} clients one is in a bucket of its own; give another size or cohort"
    return ""


def _downlink(run: Run, stages: Sequence[Stage]) -> str:
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
    if not memory.estimates or VECTORS in memory.needs:
        return f"'{memory.name}' is for sums over clients; give ef21"
    text = memory.misfit(codec, run.layout.pieces(codec, run.training.x0.size))
    return f"'{memory.name}' {text}" if text else ""


def with_noise(run: Run) -> Run:
    """Return a private run with its noise multiplier.

    Raises
    ------
    ScenarioError
        If the accountant's epsilon would not apply; the message gives the reason.
    """
    privacy, algorithm = run.channel.privacy, run.training.algorithm
    if privacy is None or algorithm.centralised:
        return run
    if text := missing() or _untrue(run, privacy) or _uncounted(run, run.first_ask()):
        raise ScenarioError("privacy", text)
    if rule := _rule_without_noise(run.ending.stop, sampled=privacy.sampled):
        text = f"'{run.label}' is private, and '{rule}' has no noise: epsilon would be larger"
        raise ScenarioError(f"stop.{rule}", f"{text}; give rounds, or model_change")
    q = (run.participation.cohort or 0) / run.federation.clients.count
    endless = run.ending.rounds == ENDLESS and privacy.noise is not None
    with under("privacy"):
        noise = privacy.multiplier(q, 1 if endless else run.ending.rounds)
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


def _rule_without_noise(stop: Stop, *, sampled: bool) -> str:
    """Return a stopping rule that depends on data or coins of clients; empty if none does.

    The number of rounds is published with the model. Models have noise, and so have changes of
    them. Times and counts of replies depend on the coins of a sampled cohort.
    """
    allowed = {"model_change"} if sampled else {"model_change", "time_s", "client_updates"}
    given = (f.name for f in fields(stop) if getattr(stop, f.name) not in (None, {}))
    return next((name for name in given if name not in allowed), "")


def _untrue(run: Run, privacy: Privacy) -> str:
    """Return the reason why the accountant does not apply to a run; empty if it applies."""
    stages = [stage for stage in run.channel.uplink if not isinstance(stage, SecureSum)]
    clip = stages[-1] if stages and isinstance(stages[-1], Clip) else None
    adaptive = clip is not None and clip.adaptive is not None
    largest = 0.0 if clip is None else max(clip.start, 0.5 if adaptive else 0.0)
    uplink, shares = run.uplink(), privacy.at == "clients"
    return first({
        "the expected cohort is not known; give participation.cohort": (
            privacy.sampled and run.participation.cohort is None
        ),
        "one client decides whether a secure sum of all others is lost; let no reply fail, or give "
        f"secure-sum a threshold of at most {1 / run.federation.clients.count:.2g}": (
            privacy.sampled and _may_lose(run)
        ),
        "the number of rounds is not known; give rounds": run.ending.rounds == ENDLESS,
        "a client's own noise does not hide its upload; end the uplink with secure-sum": (
            shares and not run.secure
        ),
        "nothing bounds an upload; end the uplink with {name: clip, norm: ...}": clip is None,
        f"noise does not hide that a sum of numbers of {largest:g} wraps around; give secure-sum "
        "a larger range, or more bits": (
            not shares and uplink is not None and largest > uplink.largest
        ),
    })  # fmt: skip


def _may_lose(run: Run) -> bool:
    """Whether a secure sum that has a reply may be lost, since too many have failed."""
    uplink = run.uplink()
    secure = None if uplink is None else uplink.secure
    if secure is None or secure.threshold * run.federation.clients.count <= 1:
        return False
    return may_fail(run)


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
    """Return client data that leave without clip or noise; empty if there are none."""
    label = run.label
    if ask is None:
        return f"'{label}' starts without a request; its uploads cannot be accounted for"
    coded = run.coded(ask)
    bare = [name for name, n in ask.up.items() if n == 1 or name not in coded]
    if bare:
        return f"'{label}' uploads '{bare[0]}' unclipped next to the clipped vectors"
    return ""
