"""Sums over the tasks of each client, to which new rows of a run are added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints, unique_inverse
from rayfed.core.columns import Column
from rayfed.core.summary.absence import Absence
from rayfed.core.summary.grid import STATUS, Grid

USAGE = (
    Column("client", about="Id of the client.", dtype="int64"),
    Column(
        "band", dtype="int64",
        about="Its band of equal speed rank, from 0, the fastest; of a run that goes on, among all "
        "clients or a sample of them.",
    ),
    Column("time_s", "simulated time", "s", about="Simulated clock up to which it is counted."),
    Column("asked", "tasks", about="Tasks that it began.", dtype="int64"),
    Column("rounds", about="Rounds in which its tasks ended.", dtype="int64"),
    Column(
        "first_round", about="The first of these rounds; -1 if there is none.", dtype="int64"
    ),
    Column("used", "tasks used", about="Tasks whose replies were used.", dtype="int64"),
    Column("late", "tasks late", about="Tasks that replied too late.", dtype="int64"),
    Column("dropped", "tasks dropped", about="Tasks that it left.", dtype="int64"),
    Column(
        "unfinished", "tasks unfinished", about="Tasks that the end of the run cut.", dtype="int64"
    ),
    Column(
        "replied", dtype="int64",
        about="Those of them that had replied, and waited for others at the end of the run.",
    ),
    Column("steps", "local steps", about="Local steps of all tasks.", dtype="int64"),
    Column("first_s", "first seen", "s", about="When its first task began; NaN if none did."),
    Column("last_s", "last seen", "s", about="End of its last task; NaN without tasks."),
    Column("used_s", "computing, used", "s", about="Seconds of computing for tasks used."),
    Column("late_s", "computing, late", "s", about="The same for tasks that were late."),
    Column("dropped_s", "computing, dropped", "s", about="The same for tasks that it left."),
    Column("unfinished_s", "computing, unfinished", "s", about="The same for unfinished tasks."),
    Column("communicating_s", "communicating", "s", about="Seconds of downloads and uploads."),
    Column(
        "finished_s", "finished", "s",
        about="Seconds between its replies that were used and the ends of their rounds; in gossip "
        "in steps those in which it waited for neighbours.",
    ),
    Column(
        "waited_s", "waited", "s",
        about="Seconds between its last reply that was used in each round and the round's end, "
        "whether or not it was asked meanwhile.",
    ),
    Column("round_s", "rounds", "s", about="Length of all rounds in which its reply was used."),
    Column("step_s", "time of a step", "s", about="Mean seconds of a local step, as seen."),
    Column(
        "away_s", "away", "s",
        about="Seconds at which it could not be reached; NaN as long as that is not recorded.",
    ),
)  # fmt: skip
"""The table ``usage``."""
DENSITY = (
    Column(
        "clock", dtype="category",
        about='What is divided into steps: "time_s", "round", or "staleness" of the replies.',
    ),
    Column("band", about="Band of clients, as in ``usage``.", dtype="int64"),
    Column("start", about="Where the step begins: seconds, rounds or versions."),
    Column("width", about="How long it is; at most 160 steps are long enough for the run."),
    Column(
        "used",
        about="Seconds of the step that clients of the band spent on used tasks; with clock round, "
        "their number of rounds; with clock staleness, their number of tasks.",
    ),
    Column("late", about="The same of tasks that were late."),
    Column("dropped", about="The same of tasks that their clients left."),
    Column("unfinished", about="The same of tasks that the end of the run cut."),
)  # fmt: skip
"""The table ``density``; cells in which nothing is have no row."""
_SUMMED = USAGE[3:-1]  # neither client, band and clock, nor what absences alone say
COUNTS = tuple(column.name for column in _SUMMED if column.dtype == "int64")
SECONDS = tuple(column.name for column in _SUMMED if column.dtype == "float64")
USED, LATE, DROPPED, UNFINISHED = range(len(STATUS))
CLOCKS = ("time_s", "round", "staleness")
_OPEN = ("start_s", "end_s", "compute_s", "wait_s", "status", "closes")
_OWN = ("transfer_s", "transfers")  # of tasks that were seen whole
_ROUNDING = 1e-9
_NEVER = np.iinfo(np.int64).max


class Sums:
    """Running sums of client activity.

    A task counts once it is known how long its client was at it: at the next task of the client, or
    at the end. The last one of each client is counted up to now in what `tables` returns.

    A client that leaves, or is asked anew, has downloaded first, then computed, then uploaded. How
    long the download of such a task took is not recorded: it is taken from the transfers of the
    client's other tasks so far, divided by the network of the scenario.

    Parameters
    ----------
    bands : callable
        Returns the band (K,) of clients (K,).
    network : mapping, optional
        ``clients.network`` of the scenario.
    absence : Absence, optional
        When clients were away.
    """

    def __init__(
        self,
        bands: Callable[[Ints], Ints],
        network: Mapping[str, Any] | None = None,
        absence: Absence | None = None,
    ) -> None:
        self.bands, self.network, self.absence = bands, network or {}, absence or Absence(None)
        self.place: dict[int, int] = {}
        self.ids, self.band = np.empty(0, np.int64), np.empty(0, np.int64)
        self.sums: dict[str, Array] = {name: np.empty(0, np.int64) for name in COUNTS}
        self.sums |= {name: np.empty(0) for name in (*SECONDS, *_OWN, *_OPEN)}
        self.begin_s, self.time_s = np.nan, np.nan
        self.sent: Mapping[str, float] | None = None  # bytes of all tasks, down and up
        self.grids: dict[str, Grid] = {}

    def add(
        self, rounds: Mapping[str, Array], events: Mapping[str, Array], *, last: bool = False
    ) -> None:
        """Add rows and their tasks.

        Parameters
        ----------
        rounds : mapping of str to (R,) array
            Further rows of ``rounds``: ``round``, ``time_s`` and, if known, bytes.
        events : mapping of str to (n,) array
            All rows of ``events`` of these rounds.
        last : bool
            Whether the run ends with them.
        """
        if len(rounds["round"]):
            self._advance(rounds)
        if len(events.get("client", ())):
            slot = self._slots(events["client"])
            begin, end = self._times(rounds, events["round"])
            self._count(slot, events, begin, end)
            self._follow(slot, events, end, last)

    def _advance(self, rounds: Mapping[str, Array]) -> None:
        """Move the clocks on."""
        times = np.asarray(rounds["time_s"], dtype=np.float64)
        self.before_s = times[0] if np.isnan(self.begin_s) else self.time_s
        if not self.grids:
            self.begin_s = float(times[0])
            self.grids = {"time_s": Grid(self.begin_s), "round": Grid(1, 1.0)}
            self.grids["staleness"] = Grid(0, 1.0)
        self.time_s = float(times[-1])
        self.grids["time_s"].reach(self.time_s)
        self.grids["round"].reach(int(rounds["round"][-1]) + 1)
        if {"bytes_down", "bytes_up"} <= rounds.keys():
            sent = self.sent or {"bytes_down": 0.0, "bytes_up": 0.0}
            self.sent = {way: known + float(rounds[way].sum()) for way, known in sent.items()}

    def _slots(self, clients: Ints) -> Ints:
        """Return the places (n,) of clients; new ones get one."""
        ids, inverse = unique_inverse(clients)
        fresh = np.array([client for client in ids.tolist() if client not in self.place], np.int64)
        if len(fresh):
            count = len(self.ids)
            self.place |= {client: count + k for k, client in enumerate(fresh.tolist())}
            self.ids = np.concatenate([self.ids, fresh])
            self.band = np.concatenate([self.band, self.bands(fresh)])
            blank = {"first_s": np.inf, "first_round": _NEVER, "status": -1}
            for name, held in self.sums.items():
                more = np.full(len(fresh), blank.get(name, 0), held.dtype)
                self.sums[name] = np.concatenate([held, more])
        return np.asarray(np.array([self.place[client] for client in ids.tolist()])[inverse])

    def know(self, clients: Ints) -> None:
        """Let there be a row for each of these clients, also if none is ever asked."""
        self._slots(clients)

    def _times(self, rounds: Mapping[str, Array], numbers: Ints) -> tuple[Floats, Floats]:
        """Return when the rounds (n,) of tasks began and ended; NaN of tasks that have none."""
        if not len(rounds["round"]):
            return (np.full(len(numbers), np.nan),) * 2
        times = np.asarray(rounds["time_s"], dtype=np.float64)
        row = np.minimum(np.searchsorted(rounds["round"], numbers), len(times) - 1)
        known = rounds["round"][row] == numbers
        before = np.concatenate([[self.before_s], times[:-1]])
        return np.where(known, before[row], np.nan), np.where(known, times[row], np.nan)

    def _count(self, slot: Ints, events: Mapping[str, Array], begin: Floats, end: Floats) -> None:
        """Add the properties of tasks that are known at once."""
        status = events["status"].astype(np.int64)
        self._add("asked", slot)
        self._add("steps", slot, events["steps"])
        self._add("step_s", slot, events["compute_s"] / np.maximum(events["steps"], 1))
        for code, name in enumerate(STATUS):
            self._add(name, slot[status == code])
        np.minimum.at(self.sums["first_s"], slot, events["start_s"])
        self._count_rounds(slot, events, status, begin, end)
        if "staleness" in events:
            known = events["staleness"] >= 0
            staleness = np.asarray(events["staleness"])[known]
            self.grids["staleness"].reach(float(staleness.max(initial=0)) + 1)
            self.grids["staleness"].count(self.band[slot[known]], staleness, status[known])

    def _count_rounds(
        self, slot: Ints, events: Mapping[str, Array], status: Ints, begin: Floats, end: Floats
    ) -> None:
        """Add counts per client and round, independent of the number of its tasks."""
        numbers = np.asarray(events["round"])
        whose = slot * (int(numbers.max()) + 1) + numbers  # a number for each client and round
        keys = whose * len(STATUS) + status
        order = np.lexsort((events["end_s"], keys))
        order = order[numbers[order] >= 0]
        last = order[np.append(np.diff(keys[order]) > 0, True)[: len(order)]]  # of each status
        self.grids["round"].count(self.band[slot[last]], numbers[last], status[last])
        single = last[np.insert(np.diff(whose[last]) > 0, 0, True)[: len(last)]]
        self._add("rounds", slot[single])
        np.minimum.at(self.sums["first_round"], slot[single], numbers[single])
        used = last[status[last] == USED]
        self._add("waited_s", slot[used], (end - events["end_s"])[used])
        self._add("round_s", slot[used], (end - begin)[used])

    def _follow(self, slot: Ints, events: Mapping[str, Array], closes: Floats, last: bool) -> None:
        """Settle tasks that others of their clients follow, and keep the newest of each client."""
        events = {"wait_s": np.zeros(len(slot)), **events}
        fresh = {name: np.asarray(events[name], np.float64) for name in _OPEN[:-1]}
        fresh |= {"closes": closes}
        touched = np.unique(slot)
        open_ = touched[self.sums["status"][touched] >= 0]
        tasks = {n: np.concatenate([self.sums[n][open_], fresh[n]]) for n in _OPEN}
        slots = np.concatenate([open_, slot])
        fresh_ones = np.arange(len(slots)) >= len(open_)  # tasks that were open come first
        order = np.lexsort((tasks["start_s"], fresh_ones, slots))
        slots, tasks = slots[order], {name: values[order] for name, values in tasks.items()}
        newest = np.r_[slots[1:] != slots[:-1], True]
        following = np.where(newest, np.inf, np.r_[tasks["start_s"][1:], np.inf])
        done = np.ones(len(slots), bool) if last else ~newest
        self._settle(slots[done], {n: v[done] for n, v in tasks.items()}, following[done])
        for name in _OPEN:
            self.sums[name][slots[newest]] = -1 if last else tasks[name][newest]

    def _settle(self, slot: Ints, tasks: Mapping[str, Array], following: Floats) -> None:
        """Add the seconds of tasks until their clients were done with them or left them."""
        if not len(slot):
            return
        start, end, compute, wait, codes, closes = (tasks[name] for name in _OPEN)
        status = codes.astype(np.int64)
        following = np.minimum(following, self.time_s)
        stop = np.maximum(np.minimum(end, following), start)
        ids = self.ids[slot]
        busy = np.clip(end - wait, start, stop)  # then it waits for neighbours
        taken = np.maximum(busy - start - self.absence.seconds(ids, start, busy), 0.0)
        complete = (status <= LATE) & (stop >= end) & (taken >= (1 - _ROUNDING) * compute)
        self._add("transfer_s", slot[complete], np.maximum(taken - compute, 0.0)[complete])
        self._add("transfers", slot[complete])
        download = np.where(complete, 0.0, self._download_share() * self._transfers()[slot])
        computing = np.clip(taken - download, 0.0, compute)
        used = status == USED
        until = np.where(used, np.maximum(np.fmin(closes, following), stop), stop)
        waited = until - busy - self.absence.seconds(ids, busy, until)
        for code, name in enumerate(STATUS):
            self._add(f"{name}_s", slot[status == code], computing[status == code])
        self._add("communicating_s", slot, taken - computing)
        self._add("finished_s", slot, np.maximum(waited, 0.0))
        self._add("replied", slot[(status == UNFINISHED) & (end < self.time_s)])
        np.maximum.at(self.sums["last_s"], slot, stop)
        self.grids["time_s"].spread(self.band[slot], start, busy, status)

    def _transfers(self) -> Floats:
        """Return transfer times of a task of each client, from fully observed ones."""
        seconds, count = self.sums["transfer_s"], self.sums["transfers"]
        everybody = seconds.sum() / max(1.0, count.sum())
        return np.where(count > 0, seconds / np.maximum(count, 1.0), everybody)

    def _download_share(self) -> float:
        """Return which part of the transfers is the download: by the network, else half."""
        if self.sent is None:
            return 0.5
        latency = float(self.network.get("latency_s") or 0.0)
        sums = {name: int(self.sums[name].sum()) for name in ("asked", "used", "late", "replied")}
        answered = sums["used"] + sums["late"] + sums["replied"]
        size = {
            "down": self.sent["bytes_down"] / max(1, sums["asked"]),
            "up": self.sent["bytes_up"] / max(1, answered),
        }
        rates = {way: float(self.network.get(f"{way}_mbps") or np.inf) for way in size}
        down, up = (latency + 8e-6 * size[way] / rates[way] for way in size)
        return down / (down + up) if down + up > 0 else 0.5

    def _add(self, name: str, slot: Ints, values: Array | float = 1) -> None:
        sums = self.sums[name]
        weights = np.broadcast_to(values, slot.shape)
        sums += np.bincount(slot, weights, minlength=len(sums)).astype(sums.dtype)

    def tables(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the columns of both tables: of each client, and of the cells of each clock."""
        now = deepcopy(self)
        open_ = np.flatnonzero(self.sums["status"] >= 0)
        tasks = {name: self.sums[name][open_] for name in _OPEN}
        now._settle(open_, tasks, np.full(len(open_), np.inf))
        return now._usage(), now._density()

    def _usage(self) -> dict[str, Array]:
        order, sums = np.argsort(self.ids), self.sums
        ids = self.ids[order]
        columns = {name: sums[name][order] for name in (*COUNTS, *SECONDS)}
        columns["step_s"] = columns["step_s"] / np.maximum(columns["asked"], 1)
        never = columns["first_round"] == _NEVER
        columns["first_round"] = np.where(never, -1, columns["first_round"])
        none = columns["asked"] == 0
        for name in ("first_s", "last_s", "step_s"):
            columns[name] = np.where(none, np.nan, columns[name])
        start, end = np.full(len(ids), self.begin_s), np.full(len(ids), self.time_s)
        away = self.absence.seconds(ids, start, end)
        columns["away_s"] = np.where(self.absence.covers(ids), away, np.nan)
        return {"client": ids, "band": self.band[order], "time_s": end} | columns

    def _density(self) -> dict[str, Array]:
        cells = [grid.filled() for grid in self.grids.values()]
        clock = np.repeat(np.arange(len(cells)), [len(each["band"]) for each in cells])
        names = ("band", "start", "width", *STATUS)
        empty: list[Array] = [np.empty(0)]
        joined = {n: np.concatenate([each[n] for each in cells] or empty) for n in names}
        return {"clock": clock} | joined | {"band": joined["band"].astype(np.int64)}
