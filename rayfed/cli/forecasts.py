"""The forecast of `check` before any round: costs, participation and duration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.cli.tables import on_nodes
from rayfed.clients.request import GROUP
from rayfed.core.errors import listed, many
from rayfed.core.machine import in_words
from rayfed.core.needs import VECTORS
from rayfed.datasets.shards import PARTS
from rayfed.engine.channel import FEWEST
from rayfed.engine.run import ENDLESS, Run
from rayfed.runs.forecast import WHY_EMPTY, duration, forecast, probe

_MOST_CELLS = 10_000_000  # clients times rounds
_MOST = 20
"""Settings of algorithms that are looked at; a large grid has thousands."""
T = TypeVar("T")


def costs(plan: Any, cost: Any, nodes: Sequence[int]) -> list[str]:
    """Return the costs of a plan in machines, disks and simulated network."""
    processes, per = cost.processes, "in all" if cost.rounds_known else "a round of each run"
    return [
        f"{many(processes.actors, 'client actor')}{on_nodes(nodes, processes.combiners)}, "
        f"{many(processes.runners, 'driver actor')}"
        f"{', which host clients, too' * plan.executor.hosting_driver}; about "
        f"{in_words(cost.memory)} of memory (data {in_words(cost.data)}, client state "
        f"{in_words(cost.state)}, copies of models {in_words(cost.copies)}, processes "
        f"{in_words(processes.memory)})",
        f"disk: results about {in_words(cost.results)}, checkpoints up to "
        f"{in_words(cost.checkpoints)}, scratch files {in_words(cost.scratch)}",
        f"simulated traffic if a round asks once: {in_words(cost.down)} down, "
        f"{in_words(cost.up)} up {per}",
    ]


def data(plan: Any) -> str:
    """Return the files, clients and rows of the first seed in one line."""
    run = plan.runs[0]
    views, names = run.federation.views, run.federation.clients.names
    shards = views.evaluation.shards
    called = f" ({listed(names, 60)})" if names else ""
    rows = {part: shards.total(part) for part in PARTS}
    server = 0 if views.server is None else views.server.shards.total("test")
    others = 0 if views.unseen is None else views.unseen.shards.clients - shards.clients
    unseen = f", {many(others, 'client')} that never train" * (others > 0)
    if rows["test"] and not server:
        none = int((shards.sizes(run.measuring.evaluated, "test") == 0).sum())
        unseen += f", {many(none, 'client')} without held-out rows" * (none > 0)
    parts = {
        "for training": rows["train"],
        "for validation": rows["validation"],
        "held out by clients": rows["test"],
        "for tests at the server": server,
    }
    files = run.record["data"].get("files", 0)
    found = [f"{files:,} files"] * (files > 1) + [many(shards.clients, "client") + called]
    shown = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
    return f"data: {', '.join(found)}, {shown.replace(' for', ' rows for', 1)}{unseen}"


def expected(plan: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield lines about the first rounds of every algorithm, and warnings of those.

    Yields
    ------
    line : str
    warnings : list of str
        That rounds stay empty, or ask few clients.
    """
    for first, names in _by_value(_one_each(plan), forecast):
        if first is None:
            continue
        named = listed(names, 60)
        line = (
            f"first {first.rounds} rounds ({named}): {first.participants:.3g} replies used and "
            f"{first.time_s:.3g} s simulated each"
        )
        line += "" if first.energy_j is None else f", at {first.energy_j:,.4g} J"
        warnings = [f"the first {first.few_asked} ({named})"] * bool(first.few_asked)
        if first.empty:
            empty = f"{first.empty} of the first {first.rounds} rounds ({named}) stay empty"
            warnings = [f"{empty}: {WHY_EMPTY}", *warnings]
        yield line, warnings
    left = len({(run.label, run.setting) for run in plan.runs}) - len(_one_each(plan))
    if left:
        yield f"{many(left, 'more setting')} of algorithms were not looked at", []


def data_notes(plan: Any) -> list[str]:
    """Return warnings about data and models, each line once.

    It is what data say of themselves, such as that they are a subset, and what was found in them.
    """
    notes = ([run.record.get("data_note"), *run.record["beware"]] for run in plan.runs)
    return list(dict.fromkeys(filter(None, chain.from_iterable(notes))))


def aims(plan: Any) -> list[str]:
    """Return the algorithms that do not aim at the minimum of F, with their targets."""
    found: dict[str, dict[str, None]] = {}
    for run in plan.runs:
        if run.record["aim"]:
            found.setdefault(run.record["aim"], {})[run.label] = None
    return [f"{listed(list(labels), 60)}: {text}" for text, labels in found.items()]


def coded(plan: Any) -> list[str]:
    """Return coded uploads, spent privacy and the server's view, in lines."""
    runs = [run for run in _one_each(plan) if not run.training.algorithm.centralised]
    sent, private, seen = (_by_value(runs, each) for each in (traffic, spent, server_sees))
    return [
        *(f"a client of '{name}' {text}" for text, names in sent if text for name in names),
        *(f"'{name}' {text}" for text, names in private if text for name in names),
        *(f"the server gets {text} ({listed(names, 60)})" for text, names in seen),
    ]


def traffic(run: Run) -> str:
    """Return the upload and download of a client per round through the channel, or ""."""
    ask, up, down = run.first_ask(), run.uplink(), run.downlink()
    parts = []
    if ask is not None and up is not None:
        plain, coded = ask.bytes_up(run.training.dtype.itemsize), up.bytes_up(ask)
        text = f"uploads {coded:,} of {plain:,} bytes a round"
        if up.secure is not None and up.members is not None:
            keys = up.secure.key_bytes(up.members.cohort)[1]
            masked = f"{coded - keys:,} of masked numbers in place of {plain:,}"
            text = f"uploads {coded:,} bytes a round: {masked}, and {keys:,} of keys and shares"
        if up.memory is not None and up.memory.exact_first:
            text += f", the first time {up.bytes_up(ask, first=True):,}"
        if up.memory is not None and VECTORS in up.memory.needs:
            text += f" (with '{up.memory.name}' the server sees single vectors)"
        parts.append(text)
    if ask is not None and down is not None:
        text = f"downloads {down.bytes_down(ask.send, 1):,} of {ask.bytes_down:,} bytes"
        if down.codec.memory is not None:
            text += " for each round since its last, and never more than all of them"
        parts.append(text)
    return " and ".join(parts)


def server_sees(run: Run) -> str:
    """Return the server's view of its clients in a round."""
    algorithm, ask, rule = run.training.algorithm, run.first_ask(), run.channel.aggregate
    if algorithm.gossip:
        return "nothing; neighbours get single vectors"
    uplink = run.uplink()
    memory = None if uplink is None else uplink.memory
    rules = () if run.control is None else run.control.rules
    single = (algorithm, rule, memory, *(each.set.get("aggregate") for each in rules))
    if any(part is not None and VECTORS in part.needs for part in single):
        return "the vectors of single clients"
    if run.private is not None and run.private.in_shares:
        return "noisy modular sums, and the participants"
    if run.private is not None:
        return f"{'sums modulo a number, then ' * run.secure}means with noise, and no scalars"
    sums = "sums modulo a number" if run.secure else "means"
    rest = "the participants" if run.secure else "the scalars and weight of each client"
    if rule is not None and rule.before is not None:
        count, size = rule.before.count(run.asked), rule.before.together(run.asked)
        return f"{count} {sums} of {size} clients, one more for every {size}, and {rest}"
    if run.secure:
        return f"{sums}, and {rest}"
    if ask is not None and ask.edge_of is not None:
        return f"means by edge server, which gets {rest}"
    if ask is not None and GROUP in ask.up:
        return "means by group, and the scalars, weights and group of each client"
    if isinstance(algorithm, Asynchronous) and algorithm.takes < FEWEST:
        return "the vectors of single clients, since an update is of one reply"
    return f"means of vectors, and {rest}"


def spent(run: Run) -> str:
    """Return the privacy spent by the rounds of a run and the noise; empty without privacy.

    Clients that are away in some rounds spend less: the most is said where rounds decide that.
    """
    private = run.private
    if private is None:
        return ""
    rounds, privacy, clip = run.ending.rounds, private.privacy, private.clip
    text = f"spends at most epsilon {private.epsilon(rounds):.4g} at delta"
    norm = f"the norm {clip.start:g}" + (", at first" if clip.adaptive is not None else "")
    noise = f"noise {private.multiplier:.5g} times {norm}"
    unit = f"{private.cohort:,} of {private.clients:,} clients a round, {privacy.accountant}"
    if private.tree is not None:
        tree = f"a node of trees of {private.tree.length:,} rounds, no client again within"
        noise = f"{noise}, {tree} {private.tree.separation:,}"
    if private.in_shares:
        uplink = run.uplink()
        assert uplink is not None
        noise = f"{noise}, in shares of {uplink.survivors:,} clients, without client sampling"
    spent_by_rounds = "" if private.tree is not None else _spent_by_rounds(run)
    return f"{text} {privacy.delta:g} in {rounds:,} rounds ({noise}; {unit}){spent_by_rounds}"


def _spent_by_rounds(run: Run) -> str:
    """Return the privacy spent by a client that is away by round, where availability is known."""
    clients, rounds = run.federation.clients, run.ending.rounds
    plain = not clients.groups and clients.by_round  # groups may go by time
    if not plain or clients.count * rounds > _MOST_CELLS or run.private is None:
        return ""
    ids = np.arange(clients.count)
    counts = sum(clients.available(ids, 0.0, t).astype(int) for t in range(1, rounds + 1))
    most = int(np.max(counts))
    if most == rounds:
        return ""
    spent = run.private.epsilon(most)
    return (
        f"; every client is available in at most {most:,} of them, and spends at most {spent:.4g}"
    )


def timed(plan: Any) -> str:
    """Return the expected computing time of the runs, from a round of each setting run here.

    Settings that were left out are as slow as the slowest of their algorithm.
    """
    probed = {(run.label, run.setting): probe(run, plan.tables) for run in _one_each(plan)}
    slowest: dict[str, tuple[float, float]] = {}
    for (label, _), times in probed.items():
        slowest[label] = max(times, slowest.get(label, times), key=lambda both: both[1])
    parts, total = [f"{label} {duration(times[1])}" for label, times in slowest.items()], 0.0
    for run in plan.runs:
        start_s, round_s = probed.get((run.label, run.setting), slowest[run.label])
        total += start_s + run.ending.rounds * round_s
    most = "at most " if len(probed) > len(slowest) else ""
    line = f"a round here takes: {most}{listed(parts)}"
    if any(run.ending.rounds >= ENDLESS for run in plan.runs):
        return f"{line}; how many there will be is not known"
    return f"{line}; all runs one after the other about {duration(total)}, without records"


def _one_each(plan: Any) -> list[Run]:
    """Return a run of every algorithm, and of its further settings as long as they are not many."""
    first: dict[str, Run] = {}
    others: dict[tuple[str, str], Run] = {}
    for run in plan.runs:
        if first.setdefault(run.label, run).setting != run.setting:
            others.setdefault((run.label, run.setting), run)
    return [*first.values(), *[*others.values()][: max(0, _MOST - len(first))]]


def _by_value(runs: Iterable[Run], value: Callable[[Run], T]) -> list[tuple[T, list[str]]]:
    """Return what holds of runs, each with the names of the runs.

    That is the algorithm, with the setting where the settings of an algorithm differ in it.
    """
    found: dict[T, list[Run]] = {}
    for run in runs:
        found.setdefault(value(run), []).append(run)
    labels = Counter(label for held in found.values() for label in {run.label for run in held})
    return [
        (held, list(dict.fromkeys(
            run.label if labels[run.label] == 1 else f"{run.label} ({run.setting})"
            for run in of
        )))
        for held, of in found.items()
    ]  # fmt: skip
