"""From a scenario to runs: everything loaded and checked, and what it will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from rayfed.algorithms.base import Algorithm
from rayfed.algorithms.examiner import Examiner
from rayfed.clients.clients import STACKS_BYTES
from rayfed.clients.solvers import Solver, block
from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.base import Source
from rayfed.datasets.shards import Shards, label_ranks
from rayfed.engine.run import Run
from rayfed.engine.stopping import Stop
from rayfed.population import Population
from rayfed.population.availability import Always
from rayfed.problems.base import STARTS, Problem
from rayfed.selection import All
from rayfed.study import Study, plain
from rayfed.study.firstmodel import read_model
from rayfed.study.names import check_runs, run_folder
from rayfed.study.optimum import optimum
from rayfed.study.views import Loader, Views, Wanted
from rayfed.study.work import check_work
from rayfed.topology import Graphs
from rayfed.topology.walks import Walk

ACTOR_BYTES = 90 * 2**20
DRIVER_BYTES = 220 * 2**20
ENDLESS = 2**31
"""Rounds of a run that only a rule under ``stop`` ends."""
EVALUATE_ALL = 10_000
"""Up to so many clients, ``evaluate.clients: auto`` means all."""


@dataclass(frozen=True)
class Plan:
    """What will run.

    Parameters
    ----------
    study : Study
        The scenario.
    runs : tuple of Run
        One for each setting, algorithm and seed.
    tables : dict of str to Rows
        What the shards of the runs travel without.
    """

    study: Study
    runs: tuple[Run, ...]
    tables: dict[str, Any] = field(repr=False)

    @property
    def clients(self) -> int:
        """Number N of clients, the largest of all settings."""
        return max(run.clients.count for run in self.runs)

    def graphs(self) -> Graphs:
        """Return who is linked with whom under the first seed.

        Raises
        ------
        ScenarioError
            If the scenario has no topology.
        """
        if self.study.topology is None:
            text = "is missing; say who is linked with whom, for example topology: ring"
            raise ScenarioError("topology", text)
        return Graphs(self.study.topology, self.clients, self.study.seeds[0])

    def cost(self, cpus: int) -> Cost:
        """Return what the placement will cost on so many CPUs."""
        return Cost.of(self, cpus)


@dataclass(frozen=True)
class Cost:
    """A forecast of processes and memory.

    Parameters
    ----------
    actors, drivers : int
        Processes beside this one.
    data, state, processes : int
        Bytes of the tables, of client state at its most, and of the processes themselves.
    """

    actors: int
    drivers: int
    data: int
    state: int
    processes: int

    @property
    def memory(self) -> int:
        """Bytes in all."""
        return self.data + self.state + self.processes

    @classmethod
    def of(cls, plan: Plan, cpus: int) -> Cost:
        """Forecast, with room: measured at work, an actor has 73 MB of its own, a driver 121."""
        executor = plan.study.executor
        data = sum(t.X.nbytes + t.y.nbytes for t in plan.tables.values())
        state = max(_state_bytes(run) for run in plan.runs)
        if executor.name == "serial":
            return cls(0, 0, data + min(data, STACKS_BYTES), state, DRIVER_BYTES)
        from rayfed.executors.placement import actor_count

        actors = actor_count(plan.clients, executor.clients_per_actor, cpus)
        drivers = min(cpus, len(plan.runs))
        processes = actors * ACTOR_BYTES + (drivers + 1) * DRIVER_BYTES
        # the tables are in this process and in the object store; runs go on side by side, and
        # each keeps stacks of rows in the actors
        stacks = drivers * min(data, actors * STACKS_BYTES)
        return cls(actors, drivers, 2 * data + stacks, drivers * state, processes)

    def check(self, available: int | None = None) -> None:
        """Refuse what cannot fit.

        Raises
        ------
        ScenarioError
            If more memory is needed than there is.
        """
        there = psutil.virtual_memory().available if available is None else available
        if self.memory > there:
            remedy = "fewer clients or a smaller model"
            if self.actors:
                remedy = f"a larger executor.clients_per_actor, {remedy}"
            raise ScenarioError(
                "executor",
                f"needs about {self.memory / 2**30:.1f} GiB of memory ({self.actors} actors), "
                f"but {there / 2**30:.1f} GiB are available; use {remedy}",
            )


def _state_bytes(run: Run) -> int:
    """Return the bytes that client state can grow to, its copies at a checkpoint included."""
    row = sum(v.nbytes for v in run.algorithm.client_state(run.x0).values())
    cohort = run.cohort or run.clients.count
    touched = min(run.clients.count, cohort * run.rounds)
    return 3 * row * touched


def make(study: Study, settings: Sequence[tuple[str, Study]]) -> Plan:
    """Load and check everything that a study needs.

    Parameters
    ----------
    study : Study
        The whole study, with its grid.
    settings : sequence of (name, Study)
        Its settings, as `rayfed.study.expand` returns them.

    Raises
    ------
    ScenarioError
        If anything is wrong: nothing has been started then.
    """
    loader = Loader()
    runs = []
    for name, setting in settings:
        for seed in setting.seeds:
            runs += _Seed(name, setting, seed, loader).runs()
    check_runs((run.label, run.setting, run.seed, run.folder) for run in runs)
    return Plan(study, tuple(runs), loader.tables)


class _Seed:
    """Makes the runs of one setting and seed; they share data, population and first model."""

    def __init__(self, setting: str, study: Study, seed: int, loader: Loader) -> None:
        self.setting, self.study, self.seed, self.loader = setting, study, seed, loader
        task = study.problem
        self.problem: Problem = task.kernels
        self.dtype = np.dtype(study.dtype or ("float64" if self.problem.convex else "float32"))
        if task.dataset is None:
            raise ScenarioError("problem.dataset", "is missing; name a data set or a file")
        wanted = Wanted(
            self.problem, task.dataset, task.target, task.test, study.partition,
            study.clients.count, self.dtype, Source.here(),
        )  # fmt: skip
        self.views: Views = loader.views(wanted, seed)
        self.count = self.views.shards.clients
        self.clients = self._population()
        study.check_cohort(self.count)
        study.check_selection(self.count)
        self.graphs: Graphs | None = None
        if study.topology is not None:
            self.graphs = Graphs(study.topology, self.count, seed)
            self.graphs.check()  # refused here, not in a run
        self.x0 = self._first_model()
        self.evaluated = self._evaluated()

    def runs(self) -> list[Run]:
        """Return a run for each algorithm, with the optimum that they share."""
        runs = [self._run(index, a) for index, a in enumerate(self.study.algorithms)]
        evaluate = self.study.evaluate
        place = evaluate.needs_optimum(self.study.stop)
        of_clients = evaluate.heterogeneity or evaluate.skew
        examined = any(run.examiner is not None and run.examiner.needs_optimum for run in runs)
        if not (place or of_clients or examined):
            return runs
        best = optimum(runs[0], self.loader.tables, place, of_clients=of_clients)
        return [replace(run, optimum=best) for run in runs]

    def _run(self, index: int, algorithm: Algorithm) -> Run:
        study, part = self.study, self.study.participation
        label = algorithm.label or algorithm.name
        record = self._record(algorithm)
        whole = self.views.whole(self.loader.tables)
        algorithm, examiner = self._bound(index, algorithm, whole)
        views, data = self.views.of(algorithm, self.loader.tables)
        select = algorithm.select or part.select
        weights = algorithm.weights or ("uniform" if select.size_weighted else "size")
        everyone = select.own_cohort or isinstance(select, All)
        population, cohort = self.clients, None if everyone else part.cohort
        if algorithm.pooled:  # one machine with an ordinary client's speed, always there
            delay, select = self.clients.delay, All()
            population, cohort = Population(1, self.seed, delay, availability=Always()), None
        if self.graphs is not None and select.needs_graphs:
            own = algorithm.select is not None
            try:
                select.check_graphs(self.graphs)
            except ScenarioError as error:
                place = f"algorithms.{index}.select" if own else "participation.select"
                raise error.under(place) from error
        run = Run(
            label=label, setting=self.setting, seed=self.seed,
            folder=run_folder(label, self.setting, self.seed), algorithm=algorithm, weights=weights,
            problem=self.problem, views=views, data=data,
            solvers=self._solvers(index, algorithm), population=population, clients=self.clients,
            selection=select, x0=self.x0, evaluated=self.evaluated,
            scored=self.views.scored, cohort=cohort, over_select=part.over_select,
            deadline_s=None if algorithm.pooled else part.deadline_s,
            rounds=study.rounds or ENDLESS,
            stop=Stop(**dict(study.stop)), evaluate_every=study.evaluate.every,
            checkpoint_s=study.checkpoint.every_s, block=self._block(algorithm),
            wall_scale=study.clock.scale if study.clock.name == "wall" else None,
            fairness=study.evaluate.fairness, skew=study.evaluate.skew,
            skew_draws=study.evaluate.skew_draws,
            heterogeneity=study.evaluate.heterogeneity, distance=study.evaluate.distance,
            graphs=self.graphs if select.needs_graphs else None, examiner=examiner,
            record=record,
        )  # fmt: skip
        check_work(run)
        _check_end(run)
        return run

    def _population(self) -> Population:
        clients = self.study.clients.population(self.seed, self.count)
        if not clients.needs_labels:
            return clients
        if not self.views.shards.classes:
            text = "found label, but the targets are numbers; leave it out"
            raise ScenarioError("clients.availability.by", text)
        return replace(clients, ranks=label_ranks(self.views.whole(self.loader.tables)))

    def _bound(
        self, index: int, algorithm: Algorithm, whole: Shards
    ) -> tuple[Algorithm, Examiner | None]:
        """Return an algorithm that has met clients and problem, and its examiner.

        Errors say which algorithm it is.
        """
        known = (whole, self.clients, self.views.objective)
        try:
            examiner = algorithm.examiner
            return algorithm.bound(*known), examiner and examiner.bound(*known)
        except ScenarioError as error:
            raise error.under(f"algorithms.{index}") from None

    def _solvers(self, index: int, algorithm: Algorithm) -> tuple[Solver, ...]:
        """Return the local solver of clients in no group, then that of each group."""
        if algorithm.pooled:
            return (algorithm.local,)
        return (algorithm.local, *self.study.group_solvers(index))

    def _block(self, algorithm: Algorithm) -> int:
        batch = getattr(algorithm.local, "batch", "full")
        widths = self.views.shards.widths(self.evaluated)
        rows = int(widths.max()) if batch == "full" else min(int(batch), int(widths.max()))
        shards = self.views.shards
        return block(self.problem, shards.features, shards.classes, rows, self.dtype.itemsize)

    def _first_model(self) -> Array:
        shards = self.views.shards
        kind = self.study.problem.init or self.problem.default_init
        if self.study.problem.init is None and self.views.start is not None:
            return self.views.start.astype(self.dtype)
        if kind in STARTS:
            key = Key(self.seed, "init")
            first = self.problem.initial(kind, shards.features, shards.classes, key)
            return first.astype(self.dtype)
        p = self.problem.size(shards.features, shards.classes)
        return read_model(Path(kind), p).astype(self.dtype)

    def _evaluated(self) -> Ints:
        """Return whom evaluations ask: all, or a fixed keyed sample, ascending."""
        asked = self.study.evaluate.clients
        if asked == "auto":
            asked = EVALUATE_ALL if self.count > EVALUATE_ALL else "all"
        if asked == "all" or int(asked) >= self.count:
            return np.arange(self.count)
        return np.sort(Key(self.seed, "evaluate").permutation(self.count)(np.arange(int(asked))))

    def _record(self, algorithm: Algorithm) -> dict[str, Any]:
        study = self.study
        return {
            "study": {"name": study.name, "description": study.description},
            "settings": plain(algorithm),
            "scenario": study.to_dict(),
            "clients": self.count,
            "scored": self.views.scored,
            "dtype": str(self.dtype),
            "classes": [str(label) for label in self.views.labels],
        }


def _check_end(run: Run) -> None:
    """Refuse a run that the clock alone ends, where nothing takes time."""
    if run.rounds != ENDLESS or run.stop != Stop(time_s=run.stop.time_s):
        return
    ids = np.arange(1) if run.algorithm.pooled else run.evaluated
    asks = run.algorithm.round(run.algorithm.init(run.x0))
    ask = next(asks)
    asks.close()
    transfers = run.population.transfer_s(ids, float(bool(ask.send)), float(bool(ask.up)))
    if not any(s.any() for s in (run.population.mean_seconds_per_step(ids), *transfers)):
        text = f"alone ends '{run.label}', and its clock stands still; give rounds, or a delay"
        raise ScenarioError("stop.time_s", text)


def walks_of(study: Study, graphs: Graphs) -> list[Walk]:
    """Return the walks of a study's selections, as walked, each once."""
    selections = [study.participation.select, *(a.select for a in study.algorithms)]
    walks = (select.walk_on(graphs) for select in selections if select is not None)
    return list(dict.fromkeys(walk for walk in walks if walk is not None))
