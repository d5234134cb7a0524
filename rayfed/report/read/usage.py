"""Use of the clients' time, computing and traffic, from the summary of a run.

At any time a client is in one of five states: it computes, it communicates, it has answered and
waits for its round to end, it is not asked, or it is away. What overlaps is settled so that their
seconds add up to the simulated time: a client that is away does nothing else, and one that is asked
anew leaves its late task, or its upload if that travels meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rayfed.core.arrays import Floats, Ints
from rayfed.core.summary import CLOCKS, NEEDED, STATUS, summarised

STATES = ("computing", "communicating", "finished", "idle", "away")
"""What a client does, the columns of `Usage.activity`."""
FAILED = ("late", "dropped", "unfinished")
"""The statuses of tasks with unused replies."""
ENERGY = ("energy_j", "energy_radio_j", "energy_wasted_j", "carbon_g")
"""The columns of the rounds about energy."""
_MOST = 200_000  # sample size of the staleness values of a run
BY_SPEED = ("samples", "speed_s", "selected", "used", "loss", "accuracy")
_SEEN = ["rounds", "used", "step_s"]


class Summed(NamedTuple):
    """Summed client activity.

    Parameters
    ----------
    usage : DataFrame
        A row for each client; see ``USAGE`` in `rayfed.core.summary`.
    density : DataFrame
        A row for each cell of the heat maps; see ``DENSITY`` there.
    """

    usage: pd.DataFrame
    density: pd.DataFrame


def summed(
    rounds: pd.DataFrame,
    events: pd.DataFrame,
    clients: pd.DataFrame,
    away: pd.DataFrame | None = None,
    network: Mapping[str, Any] | None = None,
) -> Summed | None:
    """Return the summary of a run from its tables; None if there are no rounds or no events.

    Parameters are those of `rayfed.core.summary.summarised`, as frames.
    """
    if not len(events) or "time_s" not in rounds:
        return None
    tables = {"rounds": rounds, "events": events, "clients": clients}
    arrays = {
        name: {c: frame[c].to_numpy() for c in NEEDED[name] if c in frame}
        for name, frame in tables.items()
    }
    texts = events["status"].astype(str)
    arrays["events"]["status"] = texts.map({text: k for k, text in enumerate(STATUS)}).to_numpy()
    gone = None if away is None else {c: away[c].to_numpy() for c in NEEDED["away"]}
    found = summarised(arrays["rounds"], arrays["events"], arrays["clients"], gone, network)
    clocks = np.array(CLOCKS, dtype=object)[found.density["clock"]]
    return Summed(pd.DataFrame(found.usage), pd.DataFrame({**found.density, "clock": clocks}))


@dataclass(frozen=True, eq=False)
class Usage:
    """Client activity of a run, computed on first access.

    Parameters
    ----------
    rounds, clients : DataFrame
        The tables of the run; empty if missing.
    summed : Summed, optional
        Its summary; None if it recorded no events.
    baseline : bool
        Whether the run is a reference, excluded from comparisons of client activity.
    """

    rounds: pd.DataFrame
    clients: pd.DataFrame
    summed: Summed | None
    baseline: bool = False

    @cached_property
    def asked(self) -> pd.DataFrame:
        """The summary's rows of clients that were asked; empty without one."""
        if self.summed is None:
            return pd.DataFrame()
        usage = self.summed.usage
        return usage[usage["asked"].to_numpy() > 0]

    @cached_property
    def bands(self) -> pd.Series:
        """The band of equal speed rank of each client, by client; the fastest is the first."""
        if self.summed is None:
            return pd.Series(dtype=np.int64)
        usage = self.summed.usage
        return pd.Series(usage["band"].to_numpy(), index=usage["client"].to_numpy())

    @property
    def band_sizes(self) -> Ints:
        """Number of clients in each band."""
        return np.bincount(self.bands.to_numpy())

    def cells(self, clock: str, end: float) -> tuple[dict[str, Floats], Floats]:
        """Return client activity on a clock, summed over bands of clients.

        Parameters
        ----------
        clock : str
            "time_s" or "round"; see the column ``clock`` of ``density``.
        end : float
            Up to where.

        Returns
        -------
        dict of str to (bands, steps) array
            By status: computing seconds, or numbers of clients and of rounds.
        (steps + 1,) array
            The edges of the steps; the last is at the end.
        """
        found = self._of_clock(clock)
        origin = float(clock == "round")
        width = float(found["width"].iloc[0]) if len(found) else max(end - origin, 1.0)
        steps = max(1, int(np.ceil((end - origin) / width)))
        place = ((found["start"] - origin) / width).round().astype(int).to_numpy()
        inside = place < steps
        at = found["band"].to_numpy()[inside], place[inside]
        sums = {status: np.zeros((len(self.band_sizes), steps)) for status in STATUS}
        for status, held in sums.items():
            held[at] = found[status].to_numpy(float)[inside]
        return sums, np.append(origin + width * np.arange(steps), end)

    def _of_clock(self, clock: str) -> pd.DataFrame:
        assert self.summed is not None
        density = self.summed.density
        return density[density["clock"] == clock]

    @cached_property
    def activity(self) -> pd.DataFrame | None:
        """Seconds of each asked client in each of `STATES`, by client.

        ``finished`` is the time between a reply that was used and the end of its round (in
        asynchronous runs the update that it enters), as far as the client was not asked again;
        ``idle`` is all other time at which it was there. ``away`` is NaN if it is not recorded;
        that time is then ``idle``. Each row adds up to the simulated time.

        None if there are no events, no time has passed, or the run is a baseline. Where more than
        1,000 clients were asked and some were away, it covers the recorded ones.
        """
        asked = self.asked
        if self.baseline or not len(asked):
            return None
        span = float(asked["time_s"].iloc[0]) - float(self.rounds["time_s"].iloc[0])
        if not span > 0:
            return None
        away = asked["away_s"].to_numpy()
        known = np.isfinite(away)
        asked, away = (asked[known], away[known]) if known.any() else (asked, away)
        computing = asked[[f"{status}_s" for status in ("used", *FAILED)]].to_numpy().sum(axis=1)
        sent, finished = asked["communicating_s"].to_numpy(), asked["finished_s"].to_numpy()
        rest = span - (computing + sent + finished + np.nan_to_num(away))
        idle = np.maximum(rest, 0.0)  # rounding
        columns = dict(zip(STATES, (computing, sent, finished, idle, away), strict=True))
        return pd.DataFrame(columns, index=pd.Index(asked["client"].to_numpy(), name="client"))

    @cached_property
    def shares(self) -> pd.Series | None:
        """The share of the time of all clients of `activity` in each state; they add up to 1."""
        seconds = self.activity
        if seconds is None:
            return None
        sums = seconds.to_numpy().sum(axis=0)  # all of a column are known, or none
        return pd.Series(sums / np.nansum(sums), index=list(STATES))

    @cached_property
    def computing(self) -> pd.Series:
        """Computing seconds of all clients, by the fate of the task."""
        asked = self.asked
        of = {s: asked[f"{s}_s"].to_numpy() if len(asked) else np.empty(0) for s in STATUS}
        return pd.Series({status: float(np.nansum(held)) for status, held in of.items()})

    @cached_property
    def energy(self) -> pd.Series | None:
        """Totals of the recorded columns about energy, by name; None if none is recorded."""
        found = [name for name in ENERGY if name in self.rounds]
        return self.rounds[found].sum() if found else None

    @cached_property
    def traffic(self) -> tuple[float, float]:
        """The bytes of the run, down and up, and those of replies that were not used.

        Runs that did not record the latter have them if each round has one request. What tasks have
        sent that are unfinished at the end is in vain, too. NaN where they are not known.
        """
        return _traffic(self)

    @property
    def round_times(self) -> Floats:
        """The seconds (R,) that each round took; of asynchronous runs each update."""
        if "time_s" not in self.rounds:
            return np.empty(0)
        return np.diff(self.rounds["time_s"].to_numpy(float))

    @cached_property
    def staleness(self) -> Floats:
        """The staleness (n,) of all replies that were used, ascending; empty in runs of rounds.

        Of many replies it is a smaller number of values with the same distribution.
        """
        if self.summed is None:
            return np.empty(0)
        cells = self._of_clock("staleness")
        if not len(cells):
            return np.empty(0)
        counts = cells.groupby("start")["used"].sum()
        thinner = min(1.0, _MOST / max(1.0, float(counts.sum())))
        return np.repeat(counts.index.to_numpy(float), np.ceil(counts * thinner).astype(int))

    @property
    def participation_gap(self) -> float:
        """Distance between shares of updates and shares of data, from 0 to 1.

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
        ``wasted_bytes_share``; ``energy_j``, ``energy_radio_j``, ``wasted_energy_j`` and
        ``carbon_g``; ``participation_gap``;
        ``round_s_p50`` and ``round_s_p90``, quantiles of the time of a round or update;
        ``staleness_p50`` and ``staleness_p90``.
        """
        found: dict[str, float] = {}
        if self.shares is not None:
            found |= {f"{state}_share": float(self.shares[state]) for state in STATES}
            total, wasted = _parts(self.computing)
            found |= {"compute_s": total, "wasted_compute_s": wasted}
            found["wasted_compute_share"] = wasted / total if total > 0 else np.nan
            sent, lost = self.traffic
            found["wasted_bytes"] = lost
            found["wasted_bytes_share"] = lost / sent if sent > 0 else np.nan
            found["participation_gap"] = self.participation_gap
        if self.energy is not None:
            found |= self.energy.rename({"energy_wasted_j": "wasted_energy_j"})
        for name, values in (("round_s", self.round_times), ("staleness", self.staleness)):
            if len(values):
                found |= {f"{name}_p{p}": float(np.quantile(values, p / 100)) for p in (50, 90)}
        return {name: value for name, value in found.items() if not np.isnan(value)}


def _parts(by_status: pd.Series) -> tuple[float, float]:
    """Return the sum over all tasks, and over tasks with unused replies."""
    return float(by_status.sum()), float(by_status[list(FAILED)].sum())


def _traffic(usage: Usage) -> tuple[float, float]:
    """Return `Usage.traffic`."""
    rounds, asked = usage.rounds, usage.asked
    if not {"bytes_down", "bytes_up"} <= set(rounds) or not len(asked):
        return np.nan, np.nan
    all_down, all_up = (float(rounds[way].sum()) for way in ("bytes_down", "bytes_up"))
    counted = ("asked", "rounds", "used", *FAILED, "replied")
    counts = {name: float(asked[name].to_numpy().sum()) for name in counted}
    down = all_down / counts["asked"]
    up = all_up / max(1, counts["used"] + counts["late"] + counts["replied"])
    left = down * counts["unfinished"] + up * counts["replied"]
    single = counts["asked"] == counts["rounds"] or len(usage.staleness)  # one Ask in each round
    if "bytes_wasted" in rounds and rounds["bytes_wasted"].notna().all():
        wasted = float(rounds["bytes_wasted"].sum())
    elif single:
        wasted = down * (counts["late"] + counts["dropped"]) + up * counts["late"]
    else:
        return all_down + all_up, np.nan
    return all_down + all_up, float(wasted + left)


def by_speed(clients: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Return a row a client that is known of, the fastest first.

    Stragglers come after all others, then the order is that of the recorded seconds per step, and
    among equals that of the seconds per step that were seen.

    Parameters
    ----------
    clients : DataFrame
        Table of the run.
    asked : DataFrame
        `Usage.asked`.

    Returns
    -------
    DataFrame
        Indexed by client, with `BY_SPEED` (NaN where not recorded; ``speed_s`` is then what was
        seen).
    """
    seen = asked.set_index("client") if len(asked) else pd.DataFrame(columns=_SEEN)
    counts = seen.rename(columns={"rounds": "selected"})
    known = clients.set_index("client") if "client" in clients else counts
    frame = known.reindex(columns=list(BY_SPEED)).astype(float)
    paces = seen["step_s"].reindex(frame.index).astype(float)
    if frame["speed_s"].isna().all():
        frame["speed_s"] = paces
    slow = known["straggler"].to_numpy(bool) if "straggler" in known else np.zeros(len(frame))
    last = np.inf  # a speed that is not known
    order = np.lexsort((paces.fillna(last), frame["speed_s"].fillna(last), slow))
    return frame.iloc[order]
