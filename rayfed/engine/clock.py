"""The virtual clock: what an Ask takes each client, in seconds and bytes, and who is late."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.engine.budgets import Budgets
from rayfed.engine.run import Run
from rayfed.engine.state import RoundStats
from rayfed.messages import Ask


class Clock:
    """Times the Asks of one run.

    Parameters
    ----------
    run : Run
        Has the population, its delays and networks, and the deadline.
    budgets : Budgets
        Counts local steps.
    """

    def __init__(self, run: Run, budgets: Budgets) -> None:
        self.run, self.budgets = run, budgets

    def heard(self, ask: Ask, owner: str) -> bool:
        """Whether anything learns from the losses of an Ask's local steps."""
        trained = owner == "algorithm" and isinstance(ask.cost, str)
        return trained and (self.run.selection.listens or self.budgets.listens)

    def timing(
        self, ask: Ask, owner: str, number: int, tally: RoundStats, ids: Ints
    ) -> dict[str, Array]:
        """Return what an Ask takes each client, in virtual seconds."""
        pop = self.run.population
        pace = pop.seconds_per_step(ids, number, tally.ask)
        local = isinstance(ask.cost, str)
        steps = np.zeros(len(ids), dtype=np.int64)
        if local:
            steps = self.budgets.steps(ids, pace, number, tally.lengths)
        compute = pace * self._cost(ask, ids, steps)
        down_bytes, up_bytes = self.bytes(ask, owner)
        down, up = pop.transfer_s(ids, down_bytes, up_bytes)
        gone = pop.next_change(ids, tally.time_s)
        # Some may have left since the Ask before; nobody looked whether the visited one is there.
        if tally.ask or isinstance(ask.clients, str):
            gone = np.where(pop.available(ids, tally.time_s, number), gone, tally.time_s)
        return {
            "steps": steps,
            "compute_s": compute,
            "end_s": tally.time_s + down + compute + up,
            "gone_s": gone,
        }

    def _cost(self, ask: Ask, ids: Ints, steps: Ints) -> float | Array:
        """Return the steps or step-equivalents of an Ask, for all or for each client (K,)."""
        sizes = self.run.views[""].shards.sizes  # not asked for where the steps say it all
        cost: float | Array
        if isinstance(ask.cost, str):
            cost = steps * ask.each_step
        else:
            cost = ask.cost(ids, sizes(ids)) if callable(ask.cost) else ask.cost
        if not ask.passes:
            return cost
        passes = ask.passes(ids, sizes(ids)) if callable(ask.passes) else ask.passes
        return cost + passes * self.budgets.reading(ids)

    def bytes(self, ask: Ask, owner: str) -> tuple[int, int]:
        """Return the bytes that each client downloads and uploads."""
        down = sum(int(np.asarray(v).nbytes) for v in ask.send.values())
        up = sum(self.run.dtype.itemsize * n if n > 1 else 8 * n for n in ask.up.values())
        up += 8 * self.heard(ask, owner)
        return (0, 0) if self.run.algorithm.pooled else (down, up)

    def arrivals(
        self, tally: RoundStats, ids: Ints, timing: Mapping[str, Array], limit: int | None
    ) -> tuple[Array, float]:
        """Decide on the virtual clock who is used (0), late (1) or dropped (2), and the end.

        The server waits for all, for the first `limit` of an over-selected cohort, or until the
        deadline. It notices at once when a client goes away.
        """
        end, gone = timing["end_s"], timing["gone_s"]
        status = np.where(gone < end, 2, 0)
        settled = np.minimum(end, gone)
        close = float(settled.max(initial=tally.time_s))
        if limit is not None and np.count_nonzero(status == 0) > limit:
            order = np.lexsort((ids, end))
            arrived = order[status[order] == 0]
            status[arrived[limit:]] = 1
            close = float(end[arrived[limit - 1]])
        if self.run.deadline_s is not None:
            deadline = tally.start_s + self.run.deadline_s
            close = max(min(close, deadline), tally.time_s)
            status[(status == 0) & (end > deadline)] = 1
        status[(status == 2) & (gone > close)] = 1  # it left after the server had closed
        return status, close

    def sleep(self, tally: RoundStats, timing: Mapping[str, Array]) -> Array | None:
        """Return how long the actors sleep under ``clock: wall``; it decides nothing."""
        if self.run.wall_scale is None:
            return None
        return np.asarray((timing["end_s"] - tally.time_s) * self.run.wall_scale)
