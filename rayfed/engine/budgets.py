"""How many local steps the clients of one run get, by the solver of each client's group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.engine.run import Run
from rayfed.messages import Reply

State = Mapping[str, Array]


class Budgets:
    """Counts local steps, and keeps what lengths that change over rounds have learnt.

    Parameters
    ----------
    run : Run
        Has the solvers, the groups and the rows.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.solvers = run, run.solvers
        self.lengths = [solver.length for solver in run.solvers]
        self.listens = any(length is not None and length.listens for length in self.lengths)
        batches = [getattr(solver, "batch", "full") for solver in run.solvers]
        self.full = np.array([batch == "full" for batch in batches])
        self.batch = np.array([1 if batch == "full" else batch for batch in batches])

    def init(self) -> State:
        """Return what the lengths of all solvers keep, before the first round."""
        states = {k: length.init() for k, length in enumerate(self.lengths) if length is not None}
        return {f"{k}.{name}": v for k, held in states.items() for name, v in held.items()}

    def steps(self, ids: Ints, pace: Floats, round: int, state: State) -> Ints:
        """Return the local steps (K,) of clients in a round.

        Parameters
        ----------
        ids : (K,) array of int
        pace : (K,) array of float
            Virtual seconds of one step.
        round : int
        state : mapping
            What `init` or `learn` returned.
        """
        sizes = self.run.views[""].shards.sizes(ids)
        each = [
            solver.budget(
                sizes, pace, ids=ids, seed=self.run.seed, round=round, state=_of(state, k)
            )
            for k, solver in enumerate(self.solvers)
        ]
        if len(each) == 1:
            return np.asarray(each[0])
        groups = self.run.population.group_of(ids)
        return np.asarray(np.stack(each)[groups, np.arange(len(ids))])

    def reading(self, ids: Ints, rows: int | None = None) -> Floats:
        """Return the local steps (K,) that go through so many rows of each client, or all."""
        sizes = self.run.views[""].shards.sizes(ids)
        groups = self.run.population.group_of(ids)
        full, batch = self.full[groups], self.batch[groups]
        return np.asarray(np.minimum(sizes, rows or sizes) / np.where(full, sizes, batch))

    def learn(self, state: State, reply: Reply, round: int, time_s: float) -> State:
        """Return the state after local steps of a round, whose losses are in the reply."""
        learnt = dict(state)
        groups = self.run.population.group_of(reply.ids)
        for k, length in enumerate(self.lengths):
            mine = groups == k
            if length is None or not length.listens or not mine.any():
                continue
            loss = float(np.average(reply.each["loss"][mine], weights=reply.weights[mine]))
            held = length.learn(_of(state, k), loss, round=round, time_s=time_s)
            learnt |= {f"{k}.{name}": v for name, v in held.items()}
        return learnt


def _of(state: State, k: int) -> State:
    """Return what the length of solver number k keeps."""
    start = f"{k}."
    return {name[len(start) :]: v for name, v in state.items() if name.startswith(start)}
