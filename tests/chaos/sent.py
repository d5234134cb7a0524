"""Invariants of the bytes that a run counts: they are those that it sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from rayfed.algorithms.multi_walk import MultiWalk
from rayfed.engine.clock import StepCounter
from rayfed.testing.checks.common import require
from tests.chaos.ended import Ended
from tests.chaos.hosts import Traffic

_FAILED = ("late", "dropped")


def check_ends(ended: Ended) -> None:
    """Check that all work that was sent out ends in the table of events, once."""
    if ended.gossip or ended.apart or ended.coded or not ended.finished:
        return
    each = _each(ended)
    if each is not None:
        total = int(ended.rounds["bytes_down"].sum())
        require(total == each[0] * len(ended.events), f"{total} bytes went to {len(ended.events)}")


def check_bytes(ended: Ended) -> None:
    """Check that the bytes of a row are what was sent, and what came back."""
    if ended.gossip:
        _bytes_of_nodes(ended)
        return
    if ended.coded:  # bits of codecs have tests of their own
        return
    if not ended.apart:
        _bytes_in_flight(ended)
        return
    rounds, events = ended.rounds.set_index("round"), ended.events
    free = ended.run.training.algorithm.centralised
    for number, asks in events.groupby("round"):
        if number not in rounds.index:
            continue
        down = up = vain = 0
        known = True
        for ask, work in asks.groupby("ask"):
            sent = ended.traffic.get((ended.run.folder, number, ask))
            known = known and sent is not None
            if sent is None or free:
                continue
            back = int((work["status"] != "dropped").sum())
            each = _upload(ended, sent, local=bool((work["steps"] > 0).any()))
            down, up = down + sent.down * len(work), up + each * back
            late = int((work["status"] == "late").sum())
            vain += sent.down * int((work["status"] != "used").sum()) + each * late
        if known:
            _equal_bytes(rounds.loc[number], (down, up, vain))


def _bytes_of_nodes(ended: Ended) -> None:
    """Check that what is sent is received, if in vain where the steps that follow are lost."""
    training = ended.run.training
    if "walk" in ended.rounds:  # a move ends in a later row; each walk makes one at a time
        assert isinstance(training.algorithm, MultiWalk)
        moving = (ended.rounds["bytes_up"] - ended.rounds["bytes_down"]).cumsum()
        most = training.algorithm.walks * training.x0.nbytes
        require((moving >= 0) & (moving <= most), f"{moving.tolist()} bytes are under way")
        return
    for _, row in ended.rounds.set_index("round").iterrows():
        vain = min(row["bytes_wasted"], row["bytes_down"]) if row["dropped"] else 0
        _equal_bytes(row, (row["bytes_up"], row["bytes_up"], vain))


def _bytes_in_flight(ended: Ended) -> None:
    """Check the bytes of rows that works outlast: down where they begin, up where they arrive."""
    rounds, events, each = ended.rounds, ended.events, _each(ended)
    if each is None or not ended.finished:
        return
    down, up = each
    failed = [(events["status"] == status).groupby(events["round"]).sum() for status in _FAILED]
    late, dropped = (counts.reindex(rounds["round"], fill_value=0).to_numpy() for counts in failed)
    vain = down * (late + dropped) + up * late
    require(rounds["bytes_wasted"].to_numpy() == vain, "other bytes than of failed tasks are vain")
    begun, come = (rounds[name].cumsum().to_numpy() for name in ("bytes_down", "bytes_up"))
    updates = (rounds["participants"] > 0).cumsum().to_numpy()
    versions = rounds["round"].to_numpy() if ended.by_rounds else updates
    changes = np.diff(versions, prepend=-1) > 0  # after these rows nobody begins from the version
    again = ended.run.participation.retries > 0  # in a tier later ones may be of older versions
    for k, now in enumerate(rounds["time_s"]):
        older, starts = events["version"] < versions[k], events["start_s"]
        least = int((older & ((starts < now) | (not again))).sum())
        most = int((older & ((starts <= now) | (not again))).sum())
        if not changes[k]:
            most += int(((events["version"] == versions[k]) & (starts <= now)).sum())
        require(down * least <= begun[k] <= down * most, f"{begun[k]} bytes down by row {k}")
        least, most = _come(ended, k, now)
        require(up * least <= come[k] <= up * most, f"{come[k]} bytes up by row {k}")


def _come(ended: Ended, row: int, now: float) -> tuple[int, int]:
    """Return how many uploads have come when a row is closed at a time: at least, and at most.

    What ends at one time is handled in the order of clients, and a row is closed by one of them. It
    is not known of tasks that take no time, and of what is unfinished then, on which side they are.
    """
    tasks = ended.events[ended.events["status"] != "dropped"]
    closed, ends = tasks["round"].between(1, row), tasks["end_s"]
    if ended.by_rounds:
        return (int(closed.sum()),) * 2
    known = (tasks["start_s"] < now) & (tasks["status"] != "unfinished")
    rows = ended.events[ended.events["round"].between(1, row) & (ended.events["end_s"] == now)]
    before = tasks["client"] <= rows["client"].max()
    least = int(((ends < now) | ((ends == now) & known & before)).sum())
    return least, least + int(((ends == now) & ~known).sum())


def _each(ended: Ended) -> tuple[int, int] | None:
    """Return what each task downloads and uploads; None where there are several kinds of Asks."""
    asked, participation = list(ended.traffic.values()), ended.run.participation
    if participation.select.asks or any(sent != asked[0] for sent in asked) or not asked:
        return None
    return asked[0].down, _upload(ended, asked[0], local=True)


def _upload(ended: Ended, sent: Traffic, *, local: bool) -> int:
    """Return the bytes of an upload; of local steps it has a loss where that is learnt from."""
    run = ended.run
    itemsize = run.training.dtype.itemsize
    listens = run.participation.select.listens or StepCounter(run).listens
    each = sum(itemsize * n if n > 1 else 8 * n for n in sent.up.values())
    return each + 8 * (listens and local)


def _equal_bytes(row: Any, sums: tuple[int, int, int]) -> None:
    """Raise an AssertionError unless a row has these bytes, down, up and in vain."""
    found = tuple(row[["bytes_down", "bytes_up", "bytes_wasted"]])
    require(found == sums, f"round {row.name}: {found} bytes, sent were {sums}")
