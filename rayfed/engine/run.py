"""What one run is: a plain value that can be sent to any process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.algorithms.examiner import Examiner
from rayfed.clients.host import Setup, View
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.engine.measures.evaluation import Scored
from rayfed.engine.measures.personal import Thinning, told
from rayfed.engine.stopping import Stop
from rayfed.population import Population
from rayfed.problems.base import Problem
from rayfed.selection import Selection

if TYPE_CHECKING:
    from rayfed.topology import Graphs


@dataclass(frozen=True)
class Optimum:
    """What is known of the optimum of a convex objective.

    Parameters
    ----------
    value : float
        F*, the least value of F.
    x : (p,) array of float64
        x*, where F takes it; of many minimisers the one nearest to the first model.
    least : (N,) array of float64, optional
        F_i*, the least value of every client's objective, where it was asked for.
    """

    value: float
    x: Floats
    least: Floats | None = None


@dataclass(frozen=True)
class Run:
    """One algorithm, one seed, one setting.

    Parameters
    ----------
    label, setting : str
        Name in tables; the setting of a grid, empty without one.
    views : mapping of str to View
        "" for training, "evaluation" for the clients, "server" for the server's test rows.
    data : mapping of str to str
        For each view the name of the table that its shards lack (they travel without).
    solvers : tuple of Solver
        Local solver of each client group.
    population, clients : Population
        Whom the engine asks (one machine, where all data are in one place), and the clients
        that evaluations and ``clients.parquet`` are about.
    x0 : (p,) array
        Initial model, in the run's dtype.
    evaluated : (K,) array of int
        Whom evaluations ask.
    cohort : int or None
        Clients to a round; all if None.
    graphs : Graphs or None
        Who is linked with whom, where the scenario has a topology.
    optimum : Optimum or None
        F* and x*, where something asked for them.
    examiner : Examiner or None
        What compares the run with the theory of its algorithm.
    fairness, skew, heterogeneity, distance : bool
        Whether evaluated rows tell how evenly clients are served, how biased their selection is,
        how far they differ, and how far the model is from x*.
    skew_draws : int
        Cohorts drawn anew for the expected skew of a round.
    record : mapping
        What ``run.json`` tells about the scenario.
    """

    label: str
    setting: str
    seed: int
    folder: str
    algorithm: Algorithm
    weights: str
    problem: Problem
    views: Mapping[str, View]
    data: Mapping[str, str]
    solvers: tuple[Any, ...]
    population: Population
    clients: Population
    selection: Selection
    x0: Array
    evaluated: Ints
    scored: Scored
    cohort: int | None
    over_select: float
    deadline_s: float | None
    rounds: int
    stop: Stop
    evaluate_every: int
    checkpoint_s: float
    block: int
    wall_scale: float | None = None
    graphs: Graphs | None = None
    optimum: Optimum | None = None
    examiner: Examiner | None = None
    fairness: bool = False
    skew: bool = False
    skew_draws: int = 100
    heterogeneity: bool = False
    distance: bool = False
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the model's numbers."""
        return self.x0.dtype

    @property
    def told(self) -> tuple[str, ...]:
        """What evaluations tell of every client, among `personal.COLUMNS`."""
        return told(self.algorithm, len(self.evaluated), self.fairness)

    @property
    def thinning(self) -> Thinning | None:
        """Which evaluations of every client are kept; None where there are no models of their own.

        Nor where too many are evaluated.
        """
        if "personal_loss" not in self.told:
            return None
        return Thinning(self.evaluate_every, len(self.evaluated))

    def setup(self) -> Setup:
        """Return what a host needs to know."""
        from rayfed.engine.measures.evaluation import Evaluation
        from rayfed.engine.measures.heterogeneity import Heterogeneity

        evaluation = Evaluation(self.algorithm, self.scored, self.told)
        return Setup(
            owners={
                "algorithm": self.algorithm,
                "selection": self.selection,
                "evaluation": evaluation,
                "server": evaluation,
                "heterogeneity": Heterogeneity(self.algorithm),
                "examiner": self.examiner,
            },
            views=self.views,
            problem=self.problem,
            solvers=self.solvers,
            initial=self.algorithm.client_state(self.x0),
            seed=self.seed,
            p=self.x0.size,
            block=self.block,
        )
