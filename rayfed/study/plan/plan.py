"""The plan of a study: data, checks, runs and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.base import Algorithm, Weights
from rayfed.channel.faulty import faulty
from rayfed.core.arrays import Ints
from rayfed.core.columns import names
from rayfed.core.errors import ScenarioError, under, unknown
from rayfed.core.needs import COHORT, GRAPHS, WALK
from rayfed.core.plugins import name_of
from rayfed.core.rng import Key
from rayfed.datasets.base import Source, UnseenClients
from rayfed.datasets.shards import label_counts, label_ranks
from rayfed.engine.columns import TAKEN
from rayfed.engine.run import ENDLESS, Channel, Ending, Federation, Measuring, Run, Training
from rayfed.engine.settings import Participation
from rayfed.measures.base import Measure
from rayfed.population import Population, Server
from rayfed.population.availability.base import Always
from rayfed.problems.base import Problem
from rayfed.problems.own_code.problem import OwnCode
from rayfed.runs.modules import source_digests
from rayfed.runs.resume import Identities
from rayfed.selection.base import Selection
from rayfed.selection.simple import All
from rayfed.solvers import Descent, block
from rayfed.study import Study, plain
from rayfed.study.forecast.channel import with_noise
from rayfed.study.forecast.checks import check_run
from rayfed.study.forecast.cost import Cost
from rayfed.study.forecast.declared import check_accuracy, check_declared, needs_of
from rayfed.study.forecast.placing import Choice, choose
from rayfed.study.plan.controller import controlled
from rayfed.study.plan.data import (
    Loader,
    SeedData,
    Wanted,
    drifting,
    evaluation_rows,
    with_wrong_labels,
)
from rayfed.study.plan.firstmodel import first_model
from rayfed.study.plan.notices import SCALE, check_integers, of_aim, of_module
from rayfed.study.plan.optimum import Optima
from rayfed.study.plan.own_code import (
    charged,
    check_columns,
    check_losses,
    check_solvers,
    data_of_code,
    with_code,
)
from rayfed.study.plan.shared import Shared, identity
from rayfed.study.scenario.names import check_runs, run_folder
from rayfed.study.scenario.parts import Executor
from rayfed.topology import Graphs
from rayfed.topology.walks.metropolis import Walk

EVALUATE_ALL = 10_000
"""Up to so many clients, ``evaluate.clients: auto`` means all."""


@dataclass(frozen=True)
class Plan:
    """The runs of a study and their shared data.

    Parameters
    ----------
    study : Study
        The scenario.
    runs : tuple of Run
        One for each setting, algorithm and seed.
    tables : dict of str to Rows
        What the shards of the runs travel without.
    choice : Choice, optional
        Where clients live, and why, once ``executor: auto`` has chosen.
    """

    study: Study
    runs: tuple[Run, ...]
    tables: dict[str, Any] = field(repr=False)
    choice: Choice | None = field(default=None, kw_only=True)

    @property
    def executor(self) -> Executor:
        """The executor of its clients: the chosen one, or that of the scenario."""
        return self.study.executor if self.choice is None else self.choice.executor

    def placed(self, cpus: int) -> Plan:
        """Return a plan with another executor than "auto", which measures a round."""
        if self.executor.name != "auto":
            return self
        return replace(self, choice=choose(self.executor, self.runs, self.tables, cpus))

    @property
    def clients(self) -> int:
        """Number N of clients, the largest of all settings."""
        return max(run.federation.clients.count for run in self.runs)

    def graphs(self) -> Graphs:
        """Return the graphs under the first seed.

        Raises
        ------
        ScenarioError
            If the scenario has no topology.
        """
        if self.study.topology is None:
            text = "is missing; give a graph of clients, for example topology: ring"
            raise ScenarioError("topology", text)
        names = self.runs[0].federation.clients.names
        return Graphs(self.study.topology.named(names), self.clients, self.study.seeds[0])

    def cost(self, cpus: int, nodes: Sequence[int] = ()) -> Cost:
        """Return the cost of the placement on a number of CPUs, those of several nodes if given."""
        return Cost.of(self.executor, self.runs, self.tables, cpus, nodes)

    def check_used(self) -> None:
        """Refuse a topology that nothing uses, and a server's bandwidth without a server.

        Raises
        ------
        ScenarioError
            With the part to leave out.
        """
        topology, runs = self.study.topology, self.runs
        if topology is not None and not any(run.federation.graphs for run in runs):
            remedy = "walk on it (participation.select: walk) or choose a gossip method"
            text = f"found '{topology.name}', but nothing uses it; leave it out, {remedy}"
            raise ScenarioError("topology", text)
        if self.study.server.limited and all(run.training.algorithm.gossip for run in runs):
            text = "limits its bandwidth, but no algorithm has a server; leave it out"
            raise ScenarioError("server", text)


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
    planner = Planner()
    return Plan(study, planner.runs(settings), planner.loader.tables)


class Planner:
    """Makes runs of settings, which share loaded and computed values."""

    def __init__(self) -> None:
        self.loader = Loader()
        self.optima = Optima(self.loader.tables)
        self.measures = Shared()
        self.files: dict[str, dict[str, Any] | None] = {}  # what is known of modules and others

    def runs(self, settings: Sequence[tuple[str, Study]]) -> tuple[Run, ...]:
        """Return a run for each setting, algorithm and seed; see `make`."""
        runs = []
        for name, setting in settings:
            scenario = setting.to_dict()  # once: of 200 seeds it would take half of the time
            for seed in setting.seeds:
                runs += _Seed(self, name, setting, scenario, seed).runs()
        check_runs((run.label, run.setting, run.seed, run.folder) for run in runs)
        return self._identified(runs)

    def _identified(self, runs: Sequence[Run]) -> tuple[Run, ...]:
        """Return runs with records of their decisive settings."""
        first = {(run.label, run.setting): run for run in runs}  # seeds share the modules
        identities = Identities(self.files, source_digests(first.values()))
        made = []
        for run in runs:
            record = dict(run.record)
            rows = record.pop("rows")
            identity = identities.of(record["scenario"], run.label, run.setting, run.seed, rows)
            made.append(replace(run, record={**record, "identity": identity}))
        return tuple(made)


class _Seed:
    """Makes the runs of one setting and seed; they share data, population and first model."""

    def __init__(
        self, planner: Planner, setting: str, study: Study, scenario: dict[str, Any], seed: int
    ) -> None:
        self.planner, self.setting, self.study = planner, setting, study
        self.scenario, self.seed, self.tables = scenario, seed, planner.loader.tables
        self.problem: Problem = study.problem
        self.dtype = np.dtype(study.dtype or ("float64" if self.problem.convex else "float32"))
        check_solvers(study, self.problem)
        check_declared(study, self.problem)
        self.data, self.rows = self._load()
        self.problem = self._bound_problem()
        check_declared(study, self.problem, self.data.shards.classes, self.data.shards.target)
        self.data = replace(self.data, problem=self.problem)
        self.count = self.data.shards.clients
        self.clients = self._population()
        self.faults = faulty(study.clients.faults, self.clients)
        if study.drift is not None:
            self.data = drifting(self.data, study.drift, self.clients)
        study.check_cohort(self.count)
        study.check_selection(self.count)
        self.graphs: Graphs | None = None
        if study.topology is not None:
            self.graphs = Graphs(study.topology.named(self.clients.names), self.count, seed)
            self.graphs.check()  # refused here, not in a run
        first = first_model(self.problem, self.data.shards, self.data.start, self._init_key)
        self.x0 = first.astype(self.dtype)
        held = self.data.full(self.tables)
        known = self.data.notices
        if getattr(self.problem, "integers", False):
            check_integers(self.problem, self.x0, held)
            known = tuple(line for line in known if not line.endswith(SCALE))  # ids have no scale
        self.notices = (*known, *of_module(self.problem, self.x0, held))
        self.evaluated = self._evaluated(self.count)
        self.data, self.subsample, self.evaluated_on = evaluation_rows(
            self.data, self.evaluated, study.evaluate.rows, seed
        )

    def _load(self) -> tuple[SeedData, dict[str, Any] | None]:
        """Return the data of the seed, and their digest."""
        if isinstance(self.problem, OwnCode):
            known = self.planner.loader.known
            return data_of_code(self.study, self.problem, self.dtype, known), None
        wanted, loader = self._wanted(), self.planner.loader
        data = loader.load(wanted, self.seed)
        if wanted.validation and not data.validated:
            text = f"found {wanted.validation:g}, but no client has rows enough to hold one out"
            raise ScenarioError("problem.validation", f"{text}; give a larger fraction")
        return data, loader.digest(wanted, self.seed)

    def _wanted(self) -> Wanted:
        """Return the data settings of the scenario."""
        data = self.study.data
        if data is None:
            raise ScenarioError("problem.dataset", "is missing; name a data set or a file")
        given = data.test
        test, unseen = (
            (given.rows, given.clients) if isinstance(given, UnseenClients) else (given, None)
        )
        return Wanted(
            self.problem, replace(data, target=None, test=None, validation=None),
            data.target, test, data.validation or 0.0, self.study.partition,
            self.study.clients.count, self.dtype, Source.here(), unseen,
        )  # fmt: skip

    def runs(self) -> list[Run]:
        """Return a run for each algorithm, with the optimum that they share."""
        runs = [self._run_of(index) for index in range(len(self.study.algorithms))]
        place = self.study.evaluate.needs_optimum(self.study.stop)
        of_clients = any(run.measuring.uses("optima") for run in runs)
        wanted = any(run.measuring.uses("optimum") for run in runs)
        if self.study.drift is not None or not (place or of_clients or wanted):
            return runs
        best = self.planner.optima.of(runs[0], place, of_clients=of_clients)
        return [replace(run, measuring=replace(run.measuring, optimum=best)) for run in runs]

    def _run_of(self, index: int) -> Run:
        """Return the run of the algorithm that is number `index` in the scenario file."""
        try:
            return self._run(index, self.study.algorithms[index])
        except ScenarioError as error:
            raise self.study.blamed(index, error) from error

    def _run(self, index: int, algorithm: Algorithm) -> Run:
        study, label = self.study, self.study.labels[index]
        record, measures = self._record(index, algorithm), self._measures(algorithm)
        select = study.participation_of(index).select
        uniform = select.size_weighted or algorithm.asynchronous
        weights = algorithm.weights or ("uniform" if uniform else "size")
        groups = () if algorithm.centralised else study.group_solvers(index)
        if isinstance(self.problem, OwnCode):  # before it is bound, which a copy would undo
            algorithm = with_code(algorithm, self.problem)
            groups = tuple(charged(solver, self.problem) for solver in groups)
        algorithm = self._bound(algorithm, select, weights)
        participation = self._participation(index, algorithm)
        if isinstance(algorithm, Asynchronous):
            algorithm = replace(algorithm, concurrency=self._concurrency(algorithm, participation))
        solvers = (algorithm.local, *groups)
        run = Run(
            label=label,
            setting=self.setting,
            seed=self.seed,
            folder=run_folder(label, self.setting, self.seed),
            training=Training(self.problem, algorithm, weights, solvers, self.x0),
            federation=self._federation(algorithm, participation.select),
            participation=participation,
            measuring=self._measuring(measures),
            ending=Ending(study.rounds or ENDLESS, study.stop),
            block=self._block(algorithm),
            checkpoint_s=study.checkpoint.every_s,
            wall_scale=study.clock.scale if study.clock.name == "wall" else None,
            channel=self._channel(index),
            record=record,
        )
        check_columns(run)
        check_losses(run)
        run = replace(run, ending=replace(run.ending, higher=_higher(run)))
        if study.stop.accuracy is not None:
            check_accuracy(run.training.problem, "stop.accuracy")
        check_run(run)
        run = with_noise(run)
        run = replace(run, record={**run.record, "aim": of_aim(run)})
        return controlled(study, run)

    def _channel(self, index: int) -> Channel:
        """Return the channel of the run."""
        return Channel(faults=self.faults, **self.study.channel_of(index))

    def _federation(self, algorithm: Algorithm, selection: Selection) -> Federation:
        """Return the clients as a run of an algorithm sees them."""
        population = self.clients
        if algorithm.centralised:  # one machine with an ordinary client's speed, always there
            population = Population(1, self.seed, self.clients.delay, availability=Always())
        views = self.data.of(algorithm, self.tables)
        if not algorithm.centralised:
            wrong = with_wrong_labels(views.training, self.faults, self.tables)
            views = replace(views, training=wrong)
        graphs = self.graphs if GRAPHS in selection.needs | algorithm.needs else None
        server = Server() if algorithm.centralised else self.study.server
        return Federation(population, self.clients, views, graphs, server)

    def _participation(self, index: int, algorithm: Algorithm) -> Participation:
        """Return the participation of the run.

        Raises
        ------
        ScenarioError
            If the selection cannot be on the topology.
        """
        if algorithm.centralised:
            return Participation(select=All())
        part = self.study.participation_of(index)
        with under("participation.select"):
            selection: Selection = part.select.named(self.clients.names)
            if self.graphs is not None and GRAPHS in selection.needs:
                selection.check_graphs(self.graphs)
        everyone = COHORT in selection.removes or isinstance(selection, All)
        cohort = None if everyone else part.cohort
        return replace(part, select=selection, cohort=cohort)

    def _concurrency(self, algorithm: Asynchronous, participation: Participation) -> int:
        """Return the number of busy clients: all if all are selected, else the cohort."""
        if isinstance(participation.select, All):
            return self.count
        return min(algorithm.concurrency or participation.cohort or self.count, self.count)

    def _measuring(self, measures: Mapping[str, Measure]) -> Measuring:
        """Return the evaluation settings, before the optimum is known."""
        evaluate, unseen = self.study.evaluate, self.data.unseen
        others = 0 if unseen is None else unseen.clients - self.count
        return Measuring(
            self.evaluated,
            self.data.scored,
            evaluate.every,
            evaluate.every_s,
            measures=measures,
            validation=self.data.validated,
            subsample=self.subsample,
            left_out=evaluate.left_out,
            unseen=self.count + self._evaluated(others),
        )

    def _population(self) -> Population:
        clients = self.study.clients.population(self.seed, self.count, self.data.client_names)
        if not clients.needs:
            return clients
        sizes = self.data.shards.sizes(np.arange(self.count))
        if clients.needs == {"sizes"}:
            return replace(clients, sizes=sizes)
        place = "clients.availability." + ("by" if "ranks" in clients.needs else "p.by")
        with under(place):
            counts = label_counts(self.data.full(self.tables))
        return replace(clients, ranks=label_ranks(counts), sizes=sizes, holds=counts > 0)

    def _measures(self, algorithm: Algorithm) -> dict[str, Measure]:
        """Return the measures of a run by name, those of its algorithm last.

        Raises
        ------
        ScenarioError
            If two have a column of one name.
        """
        own = {f"{algorithm.name} {type(m).__name__}": m for m in algorithm.measures}
        asked = {name_of(m): (place, m) for place, m in self.study.evaluate.asked.items()}
        asked |= {name: ("algorithm", m) for name, m in own.items()}
        measures: dict[str, Measure] = {}
        taken = {*names(algorithm.diagnostics), *TAKEN}
        for name, (place, measure) in asked.items():
            for column in names(measure.columns_of(self.clients.availability)):
                if column in taken:
                    raise ScenarioError(place, f"the column '{column}' is taken; rename it")
                taken.add(column)
            with under(place):
                measures[name] = self._bound_measure(measure)
        return measures

    def _bound_measure(self, measure: Measure) -> Measure:
        """Return a measure that has met the clients; some read all rows for it, so it is shared."""
        if type(measure).bound is Measure.bound:
            return measure
        data, clients, objective = self.data, self.clients, self.data.objective
        key = identity((measure, data.shards, data.tables["clients"], objective, clients))
        table = data.full(self.tables)
        return self.planner.measures.get(key, lambda: measure.bound(table, clients, objective))

    def _bound(self, algorithm: Algorithm, selection: Selection, weights: Weights) -> Algorithm:
        """Return an algorithm that has met clients and problem."""
        table = self.data.full(self.tables)
        with under("algorithm"):
            bound = algorithm.bound(table, self.clients, self.data.objective)
            bound = bound.weighed(weights, selection.size_weighted, table, self.seed)
            if {WALK, GRAPHS} & needs_of(bound) and self.graphs is not None:
                bound = bound.on_graphs(self.graphs, selection)
            return bound

    def _block(self, algorithm: Algorithm) -> int:
        if isinstance(self.problem, OwnCode):
            return 1
        batch = algorithm.local.batch if isinstance(algorithm.local, Descent) else "full"
        widths = self.data.shards.widths(self.evaluated)
        rows = int(widths.max()) if batch == "full" else min(int(batch), int(widths.max()))
        shards = self.data.shards
        return block(self.problem, shards.features, shards.classes, rows, self.dtype.itemsize)

    def _bound_problem(self) -> Problem:
        """Return the problem that has met its rows."""
        shards = self.data.shards
        target = [] if shards.target is None else [shards.target]
        bound = self.data.problem.bound(shards.shape, shards.classes, self._init_key, *target)
        return bound.on_device(self.study.executor.device)

    @property
    def _init_key(self) -> Key:
        return Key(self.seed, "init")

    def _evaluated(self, count: int) -> Ints:
        """Return the evaluated ones of some clients: all, or a fixed keyed sample, ascending."""
        asked = self.study.evaluate.clients
        named = {"all": count, "auto": EVALUATE_ALL}
        most = named[asked] if isinstance(asked, str) else asked
        if most >= count:
            return np.arange(count)
        return np.sort(Key(self.seed, "evaluate").permutation(count)(np.arange(most)))

    def _record(self, index: int, algorithm: Algorithm) -> dict[str, Any]:
        study = self.study
        stages = {key: plain(held) or None for key, held in study.channel_of(index).items()}
        files = {"files": self.data.files} if self.data.files > 1 else {}
        target = self.data.shards.target
        several = {} if target is None else {"target": asdict(target)}
        return {
            "study": {"name": study.name, "description": study.description},
            "settings": plain(algorithm) | stages,
            "scenario": self.scenario,
            "clients": self.count,
            "scored": self.data.scored,
            "evaluated_on": self.evaluated_on,
            "dtype": str(self.dtype),
            "data": {
                "shape": list(self.data.shards.shape),
                "features": self.data.shards.features,
                "classes": self.data.shards.classes,
                **files,
                **several,
            },
            "classes": [str(label) for label in self.data.labels],
            "data_note": self.data.note,
            "beware": list(self.notices),
            "rows": self.rows,
        }


def walks_of(study: Study, graphs: Graphs) -> list[Walk]:
    """Return the walks of a study's selections, as walked, each once."""
    parts = [study.participation_of(index) for index in range(len(study.algorithms))]
    walks = (part.select.walk_on(graphs) for part in parts)
    return list(dict.fromkeys(walk for walk in walks if walk is not None))


def _higher(run: Run) -> frozenset[str]:
    """Return the metrics of `Stop` of which higher values are better.

    Raises
    ------
    ScenarioError
        If a metric is no column of which one direction is better.
    """
    columns = (column for group in run.measured.values() for column in group)
    better = {column.name: column.better for column in columns if column.better}
    for name in run.ending.stop.metrics:
        if name not in better:
            raise ScenarioError(f"stop.metrics.{name}", unknown("metric", name, better))
    return frozenset(name for name in run.ending.stop.metrics if better[name] == "higher")
