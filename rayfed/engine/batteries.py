"""Batteries of clients: levels, and tasks that an empty battery ends.

The state has a row for each client that has begun a task: its last task, and the level before it.
So the level at any later time is known, whatever else happens to that task.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.rng import Key
from rayfed.engine.clock import Times, Traffic, postponed
from rayfed.engine.energy import Meter
from rayfed.engine.run import Run
from rayfed.engine.tasks import Tasks
from rayfed.population.energy import Battery

_LEVEL = "level_j"
_ROUNDING = 1 - 1e-9


class Batteries:
    """Batteries of the clients of a run.

    Parameters
    ----------
    run : Run
        A run with `Run.batteries`.
    """

    def __init__(self, run: Run) -> None:
        self.meter, self.seed = Meter(run), run.seed
        self.settings = [each.battery or Battery(np.inf) for each in self.meter.settings]
        table = [(b.capacity_j, b.low, b.high, b.least, b.charge_w) for b in self.settings]
        self.table = np.array(table)

    def levels(self, state: Mapping[str, Array], ids: Ints, now_s: float) -> Floats:
        """Return the levels (K,) of clients in joules, if their last tasks end now or ended before.

        Parameters
        ----------
        state : mapping of str to array
            A row for each client with a task so far; see `began`.
        ids : (K,) array of int
        now_s : float
        """
        groups = self.meter.population.group_of(ids)
        full_j, low, high, _, charge_w = self.table[groups].T
        u = Key(self.seed, "battery").uniforms(ids, 1)[:, 0]
        levels, since_s = full_j * (low + (high - low) * u), np.zeros(len(ids))
        if state:
            at = np.minimum(np.searchsorted(state["client"], ids), len(state["client"]) - 1)
            known = state["client"][at] == ids
            tasks = Tasks.from_arrays(state).part(at[known])
            spent = self.meter.spent(tasks, np.full(len(tasks), now_s))
            spent_j = spent.compute_j + spent.radio_j
            levels[known], since_s[known] = state[_LEVEL][at[known]] - spent_j, spent.until_s
        charged = charge_w * self._charging(groups, since_s, np.full(len(ids), now_s))
        return np.asarray(np.minimum(levels + charged, full_j))

    def charged(self, state: Mapping[str, Array], ids: Ints, now_s: float) -> Bools:
        """Return which clients (K,) have charge enough to begin a task."""
        return self._enough(ids, self.levels(state, ids, now_s))

    def return_s(self, state: Mapping[str, Array], ids: Ints, now_s: float) -> float:
        """Return when the first of clients (K,) that have too little charge may have enough."""
        missing = self._least(ids) - self.levels(state, ids, now_s)
        groups = self.meter.population.group_of(ids)
        empty = missing > (1 - _ROUNDING) * self._least(ids)
        first = np.inf
        for group in np.unique(groups[empty]).tolist():
            own = float(missing[empty & (groups == group)].min())
            first = min(first, self.settings[group].charged_at(now_s, own))
        return first

    def lasting(self, times: Times, traffic: Traffic, ids: Ints, levels: Floats) -> Times:
        """Return the times of tasks (K,) that end when the battery is empty.

        Those with too little charge to begin, as for a later Ask of a round, end at once.
        """
        down_s, compute_s, up_s = times.duration[1:]
        down_j, up_j, active_w, tail_w, tail_s = self.meter.radio[
            self.meter.population.group_of(ids)
        ].T
        watts = self.meter.population.watts(ids)
        between_s = np.minimum(tail_s, compute_s)
        left_j = np.maximum(levels, 0.0)  # of a later Ask of a round, after a tail
        now_s, empty_s = times.start_s, np.full(len(ids), np.inf)
        for joules, seconds in (
            (1e-6 * down_j * traffic.down + active_w * down_s, down_s),
            ((watts + tail_w) * between_s, between_s),
            (watts * (compute_s - between_s), compute_s - between_s),
            (1e-6 * up_j * traffic.up + active_w * up_s, up_s),
        ):
            ends = (joules > left_j) & np.isinf(empty_s)
            share = np.divide(left_j, joules, out=np.zeros(len(ids)), where=ends)
            empty_s[ends] = (now_s + share * seconds)[ends]
            left_j, now_s = left_j - joules, now_s + seconds
        empty_s = np.where(self._enough(ids, levels), empty_s, times.start_s)
        end_s = postponed(times.end_s, empty_s, times.start_s)
        return times._replace(end_s=end_s, gone_s=np.minimum(times.gone_s, empty_s))

    def began(self, state: dict[str, Array], tasks: Tasks, levels: Floats) -> None:
        """Note tasks (K,) of distinct clients, and the levels at their beginning, in the state."""
        new = {**tasks.arrays(), _LEVEL: levels}
        if state:
            stay = ~np.isin(state["client"], tasks.client)
            new = {name: np.concatenate([state[name][stay], new[name]]) for name in new}
        order = np.argsort(new["client"])
        state.update({name: column[order] for name, column in new.items()})

    def empty(self, state: Mapping[str, Array], now_s: float) -> int:
        """Return the number of clients with a task so far and too little charge for another one."""
        if not state:
            return 0
        return int(np.count_nonzero(~self.charged(state, state["client"], now_s)))

    def _enough(self, ids: Ints, levels: Floats) -> Bools:
        return levels >= self._least(ids) * _ROUNDING

    def _least(self, ids: Ints) -> Floats:
        full_j, _, _, least, _ = self.table[self.meter.population.group_of(ids)].T
        return np.where(np.isfinite(full_j), least * full_j, 0.0)

    def _charging(self, groups: Ints, from_s: Floats, to_s: Floats) -> Floats:
        """Return the seconds (K,) of intervals in which clients charge."""
        found = np.zeros(len(groups))
        for group in np.unique(groups).tolist():
            at = groups == group
            until = self.settings[group].charging_until
            found[at] = until(to_s[at]) - until(from_s[at])
        return np.maximum(found, 0.0)
