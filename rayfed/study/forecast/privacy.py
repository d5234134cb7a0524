"""Private training: its noise, and refusals wherever what it spends would be untrue."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rayfed.channel.base import Codec
from rayfed.channel.faults.base import Collusion, UploadFault
from rayfed.channel.privacy import Tree, missing
from rayfed.channel.stages import Clip, SecureSum
from rayfed.clients.request import GROUP
from rayfed.core.errors import ScenarioError
from rayfed.engine.run import ENDLESS, Run
from rayfed.messages import Ask

_UNITS, _DEVIATIONS = 5.0, 8.0  # decision 0191


def with_noise(index: int, run: Run) -> Run:
    """Return a run whose noise is known, where it is to be private.

    Parameters
    ----------
    index : int
        Number of the algorithm in the scenario file.

    Raises
    ------
    ScenarioError
        If its epsilon would not be that of the accountant; the message says why.
    """
    privacy, algorithm = run.channel.privacy, run.training.algorithm
    if privacy is None or algorithm.centralised:
        return run
    place = "privacy" if algorithm.privacy == "study" else f"algorithms.{index}.privacy"
    if text := missing() or _untrue(run) or _uncounted(run, run.first_ask()):
        raise ScenarioError(place, text)
    q = (run.participation.cohort or 0) / run.federation.clients.count
    try:
        noise = privacy.multiplier(q, run.ending.rounds)
    except ScenarioError as error:
        raise error.under(place) from None
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


def _untrue(run: Run) -> str:
    """Return why a run is not what the accountant counts; empty if it is."""
    algorithm, rule = run.training.algorithm, run.participation
    stages = [s for s in run.channel.uplink if not isinstance(s, SecureSum)]
    memory = next((s.memory for s in stages if isinstance(s, Codec) and s.memory), None)
    clip = stages[-1] if stages and isinstance(stages[-1], Clip) else None
    privacy, select = run.channel.privacy, rule.select
    assert privacy is not None
    drawn, tree, shares = privacy.sampled, isinstance(privacy, Tree), privacy.at == "clients"
    data = select.listens or select.asks or select.size_weighted or select.repeats
    knowing = next((f.fault.name for f in run.faults if isinstance(f.fault, Collusion)), "")
    uplink = run.uplink()
    limit = math.inf if uplink is None else uplink.largest
    largest = 0.0 if clip is None else max(clip.start, 0.5 if clip.adaptive is not None else 0.0)
    waits = rule.deadline_s is not None or rule.timeout_s is not None
    why = {
        f"'{run.label}' has no rounds, and sampling is of rounds": algorithm.asynchronous,
        "every client takes part with one probability; give participation.select: poisson": (
            drawn and not select.may_be_empty
        ),
        "the expected cohort is not known; give participation.cohort": (
            (drawn or select.own_cohort) and rule.cohort is None
        ),
        f"'{select.name}' goes by data or draws clients twice; give select: uniform": (
            not drawn and (data or select.own_cohort)
        ),
        "every client is drawn anew; a tree is for cohorts that nobody draws": (
            tree and select.may_be_empty
        ),
        "the noise of a sum tells how many clients added to it, which coins must hide; give "
        "participation.select: uniform, or at: server": shares and select.may_be_empty,
        "a client's own noise does not hide its upload; end the uplink with secure-sum": (
            shares and not run.secure
        ),
        "faulty clients leave their noise out; leave clients.faults or at: clients out": (
            shares and bool(run.faults)
        ),
        "no clip bounds what faulty clients send, and noise does not hide that a secure sum wraps "
        "around; leave clients.faults or secure-sum out": run.secure
        and any(isinstance(each.fault, UploadFault) for each in run.faults),
        "clients count alike; give weights: uniform": run.training.weights != "uniform",
        "nothing bounds an upload; end the uplink with {name: clip, norm: ...}": (clip is None),
        f"noise does not hide that a sum of numbers of {largest:g} wraps around; give secure-sum "
        "a larger range, or more bits": not shares and largest > limit,
        "the noise of a tree is on sums over rounds; give a norm that does not change": (
            tree and clip is not None and clip.adaptive is not None
        ),
        "the count of an adaptive norm gets its noise at the server; give a norm that does not "
        "change, or at: server": shares and clip is not None and clip.adaptive is not None,
        f"'{memory and memory.name}' remembers earlier rounds, in which a client was not drawn": (
            memory is not None
        ),
        f"clients of '{run.label}' remember earlier rounds, in which they were not drawn": (
            drawn and bool(algorithm.client_state(run.training.x0))
        ),
        "over_select lets one client displace another; leave it out": rule.over_select > 1,
        "retries ask others in the place of a client; leave them out": bool(rule.retries),
        "minimum lets the others wait for a client; leave it out": rule.minimum > 1,
        "late: stale uses a client in rounds in which it was not drawn; give drop": (
            rule.late == "stale"
        ),
        "participation.correct weighs clients; leave it out": rule.correct is not None,
        "a robust rule does not divide by the expected cohort; leave aggregate out": (
            run.channel.aggregate is not None
        ),
        f"clients with '{knowing}' know what others send; leave it out": bool(knowing),
        "clients share a link, so one makes another late; leave the deadline or the link out": (
            waits and run.federation.server.limited
        ),
        "one client decides whether a secure sum of all others is lost; let no reply fail, or give "
        f"secure-sum a threshold of at most {1 / run.federation.clients.count:.2g}": (
            drawn and _may_lose(run)
        ),
        "availability depends on the clients' data; give one that does not": bool(
            run.federation.clients.needs
        ),
        "the number of rounds is not known; give rounds": run.ending.rounds == ENDLESS,
    }
    return next((text for text, holds in why.items() if holds), "")


def _may_lose(run: Run) -> bool:
    """Whether a secure sum that has a reply may be lost, since too many have failed."""
    clients, rule, uplink = run.federation.clients, run.participation, run.uplink()
    secure = None if uplink is None else uplink.secure
    if secure is None or secure.threshold * clients.count <= 1:
        return False
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
    bare = [name for name, n in ask.up.items() if n == 1 or name in ask.plain]
    if bare:
        return f"'{label}' uploads '{bare[0]}' beside the clipped vectors, in the clear"
    return ""
