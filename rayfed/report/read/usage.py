"""Use of the clients' time, computing and traffic, from the records of a run.

At any time a client is in one of five states: it computes, it communicates, it has answered and
waits for its round to end, it is not asked, or it is away. What overlaps is settled so that their
seconds add up to the simulated time: a client that is away does nothing else, and one that is asked
anew leaves its late work, or its upload if that travels meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rayfed.core.arrays import Floats

STATES = ("computing", "communicating", "finished", "idle", "away")
"""What a client does, the columns of `Usage.activity`."""
FAILED = ("late", "dropped", "unfinished")
"""The statuses of works whose replies were not used."""
_ROUNDING = 1e-9
_RECORDED = 1000  # clients at most of whom a run records when they were away


@dataclass(frozen=True, eq=False)
class Usage:
    """What the clients of a run did, computed when it is first asked for.

    Parameters
    ----------
    rounds, events, clients : DataFrame
        The tables of the run; empty if missing.
    away : DataFrame, optional
        When clients were away; None if it is not recorded.
    network : mapping
        ``clients.network`` of the scenario; empty if it is not known.
    baseline : bool
        Whether the run is a reference: what its clients do is not compared.
    """

    rounds: pd.DataFrame
    events: pd.DataFrame
    clients: pd.DataFrame
    away: pd.DataFrame | None = None
    network: Mapping[str, Any] = field(default_factory=dict)
    baseline: bool = False

    @cached_property
    def works(self) -> pd.DataFrame:
        """What clients did for each Ask, a row an event, by client and time.

        A client that leaves, or is asked anew, has downloaded first, then computed, then uploaded.
        How long the download of such work took is not recorded: it is taken from the transfers of
        the client's other works, divided as the network of the scenario says.

        It has ``client``, ``round``, ``ask``, ``status`` (a text) and seconds: ``start_s``;
        ``stop_s``, when the client was done with it or left it; ``computing`` and
        ``communicating`` until then, without the time that it was away; ``finished``, see
        `activity`.
        """
        return _works(self)

    @cached_property
    def activity(self) -> pd.DataFrame | None:
        """How many seconds each client that was asked spent in each of `STATES`, by client.

        ``finished`` is the time between a reply that was used and the end of its round (in
        asynchronous runs the update that it enters), as far as the client was not asked again;
        ``idle`` is all other time at which it was there. ``away`` is NaN if it is not recorded;
        that time is then ``idle``. Each row adds up to the simulated time.

        None if there are no events, no time has passed, or the run is a baseline. Where more than
        1,000 clients were asked and some were away, it is of those of whom that is recorded.
        """
        start_s, end_s = _span(self.rounds)
        if self.baseline or not len(self.events) or not end_s > start_s:
            return None
        clients = _recorded(self.away, np.unique(self.works["client"].to_numpy()))
        taken = self.works.groupby("client")[["computing", "communicating", "finished"]].sum()
        seconds = taken.reindex(clients)
        seconds["away"] = _away(self.away, clients, np.full(len(clients), start_s), end_s)
        rest = end_s - start_s - seconds.sum(axis=1)
        seconds["idle"] = rest.clip(lower=0.0)  # rounding
        if self.away is None:
            seconds["away"] = np.nan
        return seconds[list(STATES)]

    @cached_property
    def shares(self) -> pd.Series | None:
        """The share of the time of all clients of `activity` in each state; they add up to 1."""
        seconds = self.activity
        if seconds is None:
            return None
        sums = seconds.sum(min_count=1)
        return sums / sums.sum()

    @cached_property
    def computing(self) -> pd.Series:
        """The seconds that all clients computed, by what became of the work."""
        return _by_status(self.works, self.works["computing"])

    @cached_property
    def energy(self) -> pd.Series | None:
        """The joules of computing, by what became of the work; None if no power is known.

        They are watts times computing seconds, over the clients whose power is known.
        """
        if "watts" not in self.clients or not len(self.events):
            return None
        watts = self.works["client"].map(self.clients.set_index("client")["watts"])
        return _by_status(self.works, watts * self.works["computing"])

    @cached_property
    def traffic(self) -> tuple[float, float]:
        """The bytes of the run, down and up, and those of replies that were not used.

        Runs that did not record the latter have them if each round has one Ask. What works have
        sent that are unfinished at the end is in vain, too. NaN where they are not known.
        """
        return _traffic(self)

    @property
    def round_times(self) -> Floats:
        """The seconds (R,) that each round took; of asynchronous runs each update."""
        if "time_s" not in self.rounds:
            return np.empty(0)
        return np.diff(self.rounds["time_s"].to_numpy(float))

    @property
    def staleness(self) -> Floats:
        """The staleness (n,) of all replies that were used; empty in runs of rounds."""
        if "staleness" not in self.events:
            return np.empty(0)
        values = self.events["staleness"].to_numpy(float)
        return values[values >= 0]

    @property
    def participation_gap(self) -> float:
        """By how much shares of the updates and of the data differ, from 0 to 1.

        It is half the sum over the clients that were asked of the absolute difference between their
        share of the updates and their share of the data: the share of the updates that would have
        to come from other clients. NaN where neither is recorded.
        """
        clients = self.clients
        if not {"samples", "used"} <= set(clients) or not clients["used"].sum() > 0:
            return np.nan
        used, rows = clients["used"].to_numpy(float), clients["samples"].to_numpy(float)
        return float(np.abs(used / used.sum() - rows / rows.sum()).sum() / 2)

    @cached_property
    def totals(self) -> dict[str, float]:
        """The measures of the run that are one number each, as far as they were recorded.

        ``<state>_share`` for each of `STATES`; ``compute_s`` and ``wasted_compute_s``, computing in
        all and for replies that were not used, and ``wasted_compute_share``; ``wasted_bytes`` and
        ``wasted_bytes_share``; ``energy_j`` and ``wasted_energy_j``; ``participation_gap``;
        ``round_s_p50`` and ``round_s_p90``, quantiles of the time of a round or update;
        ``staleness_p50`` and ``staleness_p90``.
        """
        found: dict[str, float] = {}
        if self.shares is not None:
            found |= {f"{state}_share": float(self.shares[state]) for state in STATES}
            whole, vain = _parts(self.computing)
            found |= {"compute_s": whole, "wasted_compute_s": vain}
            found["wasted_compute_share"] = vain / whole if whole > 0 else np.nan
            sent, lost = self.traffic
            found["wasted_bytes"] = lost
            found["wasted_bytes_share"] = lost / sent if sent > 0 else np.nan
            if self.energy is not None:
                found["energy_j"], found["wasted_energy_j"] = _parts(self.energy)
            found["participation_gap"] = self.participation_gap
        for name, values in (("round_s", self.round_times), ("staleness", self.staleness)):
            if len(values):
                found |= {f"{name}_p{p}": float(np.quantile(values, p / 100)) for p in (50, 90)}
        return {name: value for name, value in found.items() if not np.isnan(value)}


def _works(usage: Usage) -> pd.DataFrame:
    """Return `Usage.works`."""
    events = usage.events
    # Rows of what a run leaves behind have round -1; they come last.
    number = events["round"].where(events["round"] >= 0, np.inf)
    order = np.lexsort((events["ask"], number, events["start_s"], events["client"]))
    frame = events.iloc[order].reset_index(drop=True)
    frame["status"] = frame["status"].astype(str)
    end_s = _span(usage.rounds)[1]
    start, end = frame["start_s"].to_numpy(float), frame["end_s"].to_numpy(float)
    following = frame.groupby("client")["start_s"].shift(-1, fill_value=end_s).to_numpy(float)
    following = np.minimum(following, end_s)
    stop = np.maximum(np.minimum(end, following), start)
    clients = frame["client"].to_numpy()
    taken = np.maximum(stop - start - _away(usage.away, clients, start, stop), 0.0)
    whole = frame["status"].isin(["used", "late"]).to_numpy() & (stop >= end)
    whole &= taken >= (1 - _ROUNDING) * frame["compute_s"]  # if not, it was given up
    frame["transfer"] = np.where(whole, np.maximum(taken - frame["compute_s"], 0.0), np.nan)
    download = np.where(whole, 0.0, _download_share(usage) * _transfers(frame))
    computing = np.clip(taken - download, 0.0, frame["compute_s"].to_numpy(float))
    used = (frame["status"] == "used").to_numpy()
    closes = frame["round"].map(usage.rounds.set_index("round")["time_s"]).to_numpy(float)
    until = np.where(used, np.maximum(np.fmin(closes, following), stop), stop)
    waited = until - stop - _away(usage.away, clients, stop, until)
    return frame[["client", "round", "ask", "status", "start_s"]].assign(
        stop_s=stop,
        computing=computing,
        communicating=taken - computing,
        finished=np.maximum(waited, 0.0),
    )


def _by_status(works: pd.DataFrame, values: pd.Series) -> pd.Series:
    return values.groupby(works["status"]).sum().reindex(["used", *FAILED], fill_value=0.0)


def _parts(by_status: pd.Series) -> tuple[float, float]:
    """Return the sum, and that of works whose replies were not used."""
    return float(by_status.sum()), float(by_status[list(FAILED)].sum())


def _traffic(usage: Usage) -> tuple[float, float]:
    """Return `Usage.traffic`."""
    rounds, events = usage.rounds, usage.events
    if not {"bytes_down", "bytes_up"} <= set(rounds) or not len(events):
        return np.nan, np.nan
    sent = float(rounds["bytes_down"].sum() + rounds["bytes_up"].sum())
    status = events["status"].astype(str)
    down, up = _bytes_of_a_work(usage)
    left = down * float((status == "unfinished").sum()) + up * float(_waits(usage).sum())
    if "bytes_wasted" in rounds and rounds["bytes_wasted"].notna().all():
        vain = float(rounds["bytes_wasted"].sum())
    elif (events["ask"] == 0).all() or "version" in events:
        late, dropped = float((status == "late").sum()), float((status == "dropped").sum())
        vain = down * (late + dropped) + up * late
    else:
        return sent, np.nan
    return sent, vain + left


def _bytes_of_a_work(usage: Usage) -> tuple[float, float]:
    """Return the mean bytes that a work downloads, and uploads if it answers."""
    answered = usage.events["status"].astype(str).isin(("used", "late")) | _waits(usage)
    down, up = float(usage.rounds["bytes_down"].sum()), float(usage.rounds["bytes_up"].sum())
    return down / max(1, len(usage.events)), up / max(1, int(answered.sum()))


def _waits(usage: Usage) -> pd.Series:
    """Return which works have replied, and wait for others at the end of the run."""
    unfinished = usage.events["status"].astype(str) == "unfinished"
    return unfinished & (usage.events["end_s"] < _span(usage.rounds)[1])


# -- times ---------------------------------------------------------------------------------


def _span(rounds: pd.DataFrame) -> tuple[float, float]:
    """Return when a run began and where it is."""
    if not len(rounds):
        return 0.0, 0.0
    times = rounds["time_s"].to_numpy(float)
    return float(times[0]), float(times[-1])


def _recorded(away: pd.DataFrame | None, clients: np.ndarray) -> np.ndarray:
    """Return the clients of whom it is recorded when they were away: those with the lowest ids."""
    if away is None or not len(away) or len(clients) <= _RECORDED:
        return clients
    return np.asarray(clients[clients <= away["client"].max()])


def _away(
    away: pd.DataFrame | None, clients: np.ndarray, start: Floats, end: Floats | float
) -> Floats:
    """Return for how many seconds clients (n,) were away between `start` (n,) and `end` (n,)."""
    if away is None or not len(away):
        return np.zeros(len(clients))
    end = np.broadcast_to(end, start.shape)
    away = away.sort_values(["client", "start_s"], kind="stable")
    return _away_until(away, clients, end) - _away_until(away, clients, start)


def _away_until(away: pd.DataFrame, clients: np.ndarray, times: Floats) -> Floats:
    """Return for how many seconds clients (n,) were away up to `times` (n,)."""
    known, owner = np.unique(away["client"].to_numpy(), return_inverse=True)
    begins, ends = away["start_s"].to_numpy(float), away["end_s"].to_numpy(float)
    before = np.concatenate([[0.0], np.cumsum(ends - begins)[:-1]])
    first = np.searchsorted(owner, np.arange(len(known)))
    before -= before[first][owner]  # of the same client
    # The last interval that had begun. Clients are set apart by more than any time; what this
    # rounds off does not matter, since seconds away grow from 0 at the beginning of an interval.
    apart = 2.0 * max(float(ends.max()), float(times.max(initial=0.0)), 1.0)
    place = np.minimum(np.searchsorted(known, clients), len(known) - 1)
    last = np.searchsorted(owner * apart + begins, place * apart + times, side="right") - 1
    last = np.maximum(last, 0)
    mine = (known[place] == clients) & (owner[last] == place)
    inside = np.maximum(np.minimum(times, ends[last]) - begins[last], 0.0)
    return np.where(mine, before[last] + inside, 0.0)


def _transfers(frame: pd.DataFrame) -> Floats:
    """Return what the transfers of each work take, from those that were seen whole."""
    same = frame.groupby(["client", "ask"])["transfer"].transform("mean")
    client = frame.groupby("client")["transfer"].transform("mean")
    everybody = frame["transfer"].mean()
    return same.fillna(client).fillna(everybody).fillna(0.0).to_numpy(float)


def _download_share(usage: Usage) -> float:
    """Return which part of the transfers is the download: by the scenario's network, else half."""
    network = usage.network
    if not {"bytes_down", "bytes_up"} <= set(usage.rounds):
        return 0.5
    latency = float(network.get("latency_s") or 0.0)
    ways = zip(_bytes_of_a_work(usage), ("down_mbps", "up_mbps"), strict=True)
    down, up = (
        latency + (8e-6 * size / network[key] if network.get(key) else 0.0) for size, key in ways
    )
    return down / (down + up) if down + up > 0 else 0.5
