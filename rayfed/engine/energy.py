"""Energy of tasks, from the durations and bytes that the timeline knows.

A task downloads, computes and uploads, in this order, and a radio has a tail after each transfer.
All of it ends when the client goes away or is timed out, or when its next task begins. A task that
the server no longer waits for goes on until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats
from rayfed.engine.tasks import USED, Task, Tasks


class Spent(NamedTuple):
    """Energy of tasks (K,) in joules, its grams of CO2 equivalents, and when the last is spent."""

    compute_j: Floats
    radio_j: Floats
    carbon_g: Floats
    until_s: Floats


_SUMMED = Spent._fields[:3]


class Meter:
    """Energy of the tasks of a run.

    Parameters
    ----------
    run : Run
        A run with `Run.metered`.
    """

    def __init__(self, run: Run) -> None:
        self.population = run.federation.population
        self.settings = self.population.energies
        self.radio = np.array([each.transfers for each in self.settings])
        self.tails = bool((self.radio[:, -2:] > 0).all(axis=1).any())
        self.emits = run.emits
        self.messages = run.training.algorithm.gossip  # they take their time between tasks

    def values(
        self, stats: RoundStats, before: Mapping[str, Array]
    ) -> tuple[dict[str, float], Mapping[str, Array]]:
        """Return the columns of a row, and the state after it.

        Parameters
        ----------
        stats : RoundStats
            The round, when all of its tasks are counted.
        before : mapping of str to array
            Tasks of earlier rows that still cost energy, as columns, with what they cost so far.
        """
        rows: list[Task] = Tasks.from_arrays(before).rows() if before else []
        for ended in stats.ended:
            rows += ended.tasks.rows() if isinstance(ended.tasks, Tasks) else ended.tasks
        line = stats.timeline if self.tails else None
        others = [] if line is None else [*line.open.values(), *line.waiting]
        tasks, now_s = Tasks.of(rows), stats.time_s
        next_s = np.minimum(_next_starts(rows, others), now_s)
        spent = self.spent(tasks, next_s)
        new = {name: getattr(spent, name).copy() for name in _SUMMED}
        for name, joules in new.items():
            earlier = before.get(name, np.empty(0))
            joules[: len(earlier)] -= earlier
        both = new["compute_j"] + new["radio_j"]
        values = {
            "energy_j": float(both.sum()),
            "energy_radio_j": float(new["radio_j"].sum()),
            "energy_wasted_j": float(both[tasks.status != USED].sum()),
        }
        if self.emits:
            values["carbon_g"] = float(new["carbon_g"].sum())
        tail_s = self.radio[self.population.group_of(tasks.client), -1]
        on = (next_s >= now_s) & (tasks.over_s + tail_s > now_s)
        if not on.any():
            return values, {}
        held = {name: getattr(spent, name)[on] for name in _SUMMED}
        return values, {**tasks.part(on).arrays(), **held}

    def spent(self, tasks: Tasks, until_s: Floats) -> Spent:
        """Return the energy of tasks (K,) up to a time of each (K,)."""
        groups = self.population.group_of(tasks.client)
        down_j, up_j, active_w, tail_w, tail_s = self.radio[groups].T
        watts = self.population.watts(tasks.client)
        assert watts is not None
        down_s, up_s, whole = self._planned(tasks, until_s)
        left_s = np.where(whole, np.inf, np.minimum(tasks.over_s, until_s) - tasks.start_s)
        got_s = np.clip(left_s, 0.0, down_s)
        computed_s = np.clip(left_s - down_s, 0.0, tasks.compute_s)
        sent_s = np.clip(left_s - down_s - tasks.compute_s, 0.0, up_s)
        got = _share(got_s, down_s, np.ones(len(tasks)))
        moved = whole | self.messages  # messages count what has travelled, of lost tasks, too
        sent = _share(sent_s, up_s, moved.astype(np.float64))
        begin_s = tasks.start_s + got_s
        done_s = begin_s + computed_s
        end_s = done_s + sent_s
        between_s = np.minimum(tail_s, computed_s)
        after_s = np.where(whole, np.clip(until_s - end_s, 0.0, tail_s), 0.0)
        compute_j = watts * computed_s
        transfers = [
            (1e-6 * down_j * got * tasks.down_bytes + active_w * got_s, tasks.start_s, begin_s),
            (1e-6 * up_j * sent * tasks.up_bytes + active_w * sent_s, done_s, end_s),
            (tail_w * between_s, begin_s, begin_s + between_s),
            (tail_w * after_s, end_s, end_s + after_s),
        ]
        carbon_g = np.zeros(len(tasks))
        for joules, from_s, to_s in ((compute_j, begin_s, done_s), *transfers):
            for group in np.unique(groups).tolist() if self.emits else ():
                at = groups == group
                grams = self.settings[group].grams
                carbon_g[at] += grams(joules[at], from_s[at], to_s[at])
        radio_j = np.sum([joules for joules, *_ in transfers], axis=0)
        return Spent(compute_j, radio_j, carbon_g, end_s + after_s)

    def _planned(self, tasks: Tasks, until_s: Floats) -> tuple[Floats, Floats, Bools]:
        """Return the full seconds (K,) of transfers, and which tasks reach their end."""
        if self.messages:
            nothing = np.zeros(len(tasks))
            return nothing, nothing, tasks.status == USED
        down_s, _ = self.population.transfer_s(
            tasks.client, tasks.down_bytes, tasks.up_bytes, tasks.start_s, tasks.compute_s
        )
        up_s = np.maximum(tasks.end_s - tasks.start_s - down_s - tasks.compute_s, 0.0)
        whole = (tasks.over_s >= tasks.end_s) & (tasks.end_s <= np.minimum(tasks.gone_s, until_s))
        return down_s, up_s, whole


def _share(done_s: Floats, planned_s: Floats, instant: Floats) -> Floats:
    """Return the share (K,) of transfers that is done; that of instantaneous ones is given."""
    return np.divide(done_s, planned_s, out=instant.copy(), where=planned_s > 0)


def _next_starts(rows: list[Task], others: Iterable[Task]) -> Floats:
    """Return when the next task of each task's client begins, inf if none has begun."""
    found = np.full(len(rows), np.inf)
    every = [(task.client, task.start_s, k) for k, task in enumerate([*rows, *others])]
    every.sort()
    for (client, _, k), (other, start_s, _) in pairwise(every):
        if client == other and k < len(rows):
            found[k] = start_s
    return found
