"""Numbers of local steps that the clients of a run get, by the solver of each client's group."""

from __future__ import annotations

import numpy as np

from rayfed.clients.solvers import Descent
from rayfed.core.arrays import Floats, Ints, under
from rayfed.core.rng import Draw
from rayfed.engine.run import Run
from rayfed.messages import Reply, State


class StepCounter:
    """Counts local steps, and what numbers that change over rounds learn from their losses.

    Parameters
    ----------
    run : Run

    Attributes
    ----------
    shards : Shards
        The rows of the clients in the round.
    listens : bool
        Whether a rule learns from the losses of local steps.
    """

    def __init__(self, run: Run) -> None:
        self.solvers, self.seed = run.training.solvers, run.seed
        self.population = run.federation.population
        self.shards = run.federation.views.training.shards
        self.rules = [solver.varying for solver in self.solvers]
        self.listens = any(rule is not None and rule.listens for rule in self.rules)
        batches = [
            solver.batch if isinstance(solver, Descent) else "full" for solver in self.solvers
        ]
        self.full = np.array([batch == "full" for batch in batches])
        self.batch = np.array([1 if batch == "full" else batch for batch in batches])

    def init(self) -> State:
        """Return the state of the numbers of all solvers before the first round."""
        states = {k: rule.init() for k, rule in enumerate(self.rules) if rule is not None}
        return {f"{k}.{name}": v for k, state in states.items() for name, v in state.items()}

    def steps(self, ids: Ints, pace: Floats, draw: Draw, state: State) -> Ints:
        """Return the local steps (K,) of clients in a piece of work.

        Parameters
        ----------
        ids : (K,) array of int
        pace : (K,) array of float
            Virtual seconds of one step.
        draw : int or (K,) array of int
            Coordinate of keyed draws: the round, or the number of each client's work.
        state : mapping of str to array
            What `init` or `learn` returned.
        """
        sizes = self.shards.sizes(ids)
        by_solver = [
            solver.step_counts(
                sizes, pace, ids=ids, seed=self.seed, draw=draw, state=under(state, f"{k}.")
            )
            for k, solver in enumerate(self.solvers)
        ]
        if len(by_solver) == 1:
            return np.asarray(by_solver[0])
        groups = self.population.group_of(ids)
        return np.asarray(np.stack(by_solver)[groups, np.arange(len(ids))])

    def reading(self, ids: Ints, rows: int | None = None) -> Floats:
        """Return the local steps (K,) that go through so many rows of each client, or all."""
        sizes = self.shards.sizes(ids)
        groups = self.population.group_of(ids)
        full, batch = self.full[groups], self.batch[groups]
        return np.asarray(np.minimum(sizes, rows or sizes) / np.where(full, sizes, batch))

    def rows(self, ids: Ints) -> Floats | None:
        """Return the rows (K,) that a local step reads; None if no delay goes by samples."""
        if not self.population.by_sample:
            return None
        groups = self.population.group_of(ids)
        rows = np.where(self.full[groups], self.shards.sizes(ids), self.batch[groups])
        return rows.astype(np.float64)

    def learn(self, state: State, reply: Reply, round: int, time_s: float) -> State:
        """Return the state after local steps of a round, whose losses are in the reply."""
        learnt = dict(state)
        groups = self.population.group_of(reply.ids)
        for k, rule in enumerate(self.rules):
            mine = groups == k
            if rule is None or not rule.listens or not mine.any():
                continue
            loss = float(np.average(reply.each["loss"][mine], weights=reply.weights[mine]))
            updated = rule.learn(under(state, f"{k}."), loss, round=round, time_s=time_s)
            learnt |= {f"{k}.{name}": v for name, v in updated.items()}
        return learnt
