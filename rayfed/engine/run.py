"""One run: plain values that can be sent to any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.base import Algorithm, Coded, TimedRound
from rayfed.channel.aggregators import Aggregator
from rayfed.channel.base import Codec, Stage
from rayfed.channel.downlink import Downlink
from rayfed.channel.faulty import Faulty
from rayfed.channel.layout import Layout
from rayfed.channel.privacy import Privacy
from rayfed.channel.private_mean import PrivateMean
from rayfed.channel.stages import Clip, SecureSum
from rayfed.channel.uplink import SumMembers, Uplink, coded_vectors
from rayfed.clients.setup import DataViews, Setup
from rayfed.core.arrays import Array, Ints
from rayfed.core.columns import Column, names
from rayfed.core.control import ControlRule
from rayfed.core.needs import AVERAGED, EXACT_UPLOADS, GLOBAL_STEPS, OWN_MODELS
from rayfed.core.rng import Key
from rayfed.engine.columns import DRAWS, EVENTS, VERSIONS, WAITS
from rayfed.engine.running_statistics import arrived, averaged
from rayfed.engine.running_statistics import asked as with_statistics
from rayfed.engine.settings import Participation, Stop
from rayfed.engine.stopping import Pace
from rayfed.measures import Optimum, Use
from rayfed.measures.base import Measure
from rayfed.measures.evaluation import (
    MANY,
    Evaluation,
    Scored,
    Thinning,
    personalises_unseen,
    reported,
)
from rayfed.messages import Ask, Diagnostics, Reply, State, Wait
from rayfed.population import Population, Server
from rayfed.problems.base import Problem
from rayfed.problems.layers import Layer
from rayfed.solvers.base import Solver
from rayfed.solvers.own_train import OwnTrain
from rayfed.solvers.sampling import Subsample

if TYPE_CHECKING:
    from rayfed.topology import Graphs

ENDLESS = 2**31
"""Rounds of a run that only a rule under ``stop`` ends."""


@dataclass(frozen=True)
class Training:
    """Training settings of a run: algorithm, problem, data and initial model.

    Parameters
    ----------
    problem : Problem
    algorithm : Algorithm
    weights : "size" or "uniform"
        Raw weights of the mean over participants: what each client counts for, or 1.
    solvers : tuple of Solver
        Local solver of each client group.
    x0 : (p,) array
        Initial model, in the run's dtype.
    """

    problem: Problem
    algorithm: Algorithm
    weights: Literal["size", "uniform"]
    solvers: tuple[Solver, ...]
    x0: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the model's numbers."""
        return self.x0.dtype


@dataclass(frozen=True)
class Federation:
    """The clients, and their data.

    Parameters
    ----------
    population : Population
        Whom the engine asks: the clients, or the one machine of a centralised baseline.
    clients : Population
        The clients of evaluations and ``clients.parquet``.
    views : DataViews
        Their rows.
    graphs : Graphs, optional
        The links between clients, where the selection needs them.
    server : Server
        The connection that the transfers of all clients share.
    """

    population: Population
    clients: Population
    views: DataViews
    graphs: Graphs | None = None
    server: Server = Server()


@dataclass(frozen=True)
class Measuring:
    """Evaluation settings of a run: columns, evaluated clients and cadence.

    Parameters
    ----------
    evaluated : (K,) array of int
        Whom evaluations ask.
    scored : "held-out", "server" or "training"
        Which rows accuracy is measured on.
    every : int
        Rounds from one evaluation to the next.
    every_s : float, optional
        Virtual seconds from one evaluation to the next, in place of `every`.
    optimum : Optimum, optional
        F* and x*, where something asked for them.
    measures : mapping of str to Measure
        What else rows say, by the name under which its state is kept.
    validation : bool
        Whether rows are held out to choose settings by, which evaluated rows then tell of.
    subsample : Subsample, optional
        Which rows losses and accuracies are of; all if None.
    left_out : bool
        Whether rows tell what memories have left out of uploads.
    unseen : (U,) array of int
        Evaluated clients that never train.
    """

    evaluated: Ints
    scored: Scored
    every: int = 1
    every_s: float | None = None
    optimum: Optimum | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    validation: bool = False
    subsample: Subsample | None = None
    left_out: bool = False
    unseen: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def uses(self, use: Use) -> bool:
        """Whether a measure uses something that the engine provides."""
        return any(use in measure.uses for measure in self.measures.values())

    @property
    def exact(self) -> bool:
        """Whether losses are those of all training rows."""
        return self.subsample is None or self.subsample.takes_all("train")


@dataclass(frozen=True)
class Ending:
    """When a run ends.

    Parameters
    ----------
    rounds : int
        After so many rounds at the latest.
    stop : Stop
        Rules that end it before.
    pace : Pace, optional
        What it must keep up with, in a sweep that prunes.
    higher : frozenset of str
        Metrics of `stop` of which higher values are better.
    """

    rounds: int
    stop: Stop = field(default_factory=Stop)
    pace: Pace | None = None
    higher: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Channel:
    """Channel settings of a run: stages, faults, rules and privacy.

    Parameters
    ----------
    uplink, downlink : tuple of Stage
        At the client, and at the server, in this order; nothing if empty.
    aggregate : Aggregator, optional
        What takes the place of means of vectors.
    faults : tuple of Faulty
        Clients that send something else than they should.
    privacy : Privacy, optional
        With its noise; epsilon has been solved for.
    since : int
        Round after which `aggregate` replaced another rule; its state begins anew there.
    """

    uplink: tuple[Stage, ...] = ()
    downlink: tuple[Stage, ...] = ()
    aggregate: Aggregator | None = None
    faults: tuple[Faulty, ...] = ()
    privacy: Privacy | None = None
    since: int = 0


class Control(Protocol):
    """Declared controller of a run, with a state that counts rows."""

    @property
    def rules(self) -> tuple[ControlRule, ...]:
        """Rules with plug-ins as values of their settings."""

    def counted(self, row: Mapping[str, Any], state: State) -> State:
        """Return the state after a row; it is empty before the first."""

    def changed(
        self, run: Run, after: int, state: State
    ) -> tuple[Run, Sequence[Mapping[str, Any]]]:
        """Return the run after a round, and the entries of ``changes`` in ``run.json``."""


@dataclass(frozen=True)
class Run:
    """One algorithm, one seed, one setting.

    Parameters
    ----------
    label, setting : str
        Name in tables; the setting of a grid, empty without one.
    seed : int
    folder : str
        Name of its folder, and its key at the hosts.
    block : int
        Clients to a stack.
    checkpoint_s : float
        Wall-clock seconds from one checkpoint to the next.
    wall_scale : float, optional
        Wall-clock seconds that actors sleep in place of a virtual second; they do not if None.
    profiled : bool
        Whether the wall-clock time of its steps is measured; no result depends on it.
    channel : Channel
    record : mapping
        What ``run.json`` holds about the scenario.
    later : tuple of (int, Run)
        Rounds after which settings changed, ascending, and the run with them.
    control : Control, optional
        Declared controller.
    changes : int
        Settings that have changed so far.
    """

    label: str
    setting: str
    seed: int
    folder: str
    training: Training
    federation: Federation
    participation: Participation
    measuring: Measuring
    ending: Ending
    block: int
    checkpoint_s: float
    wall_scale: float | None = None
    profiled: bool = False
    channel: Channel = Channel()
    record: Mapping[str, Any] = field(default_factory=dict)
    later: tuple[tuple[int, Run], ...] = ()
    control: Control | None = None
    changes: int = 0

    @property
    def reported(self) -> tuple[str, ...]:
        """Per-client columns of evaluations, among `RECORDED`."""
        measuring = self.measuring
        accuracies = measuring.uses("accuracy")
        return reported(self.training.algorithm, len(measuring.evaluated), accuracies)

    @property
    def measured(self) -> Mapping[str, tuple[Column, ...]]:
        """The columns of each measure."""
        availability, measures = (
            self.federation.clients.availability,
            self.measuring.measures.items(),
        )
        found = {name: measure.columns_of(availability, self.layers) for name, measure in measures}
        return {**found, **self.own_columns}

    @property
    def own_columns(self) -> Mapping[str, tuple[Column, ...]]:
        """The columns of own training code: metrics of evaluations, and of local steps."""
        evaluated = self.training.problem.further.items()
        solvers = [each for each in self.training.solvers if isinstance(each, OwnTrain)]
        metrics = {name: better for each in solvers for name, better in each.columns.items()}
        about = "Metric of own code, a mean over the examples that accuracy is measured on."
        local = (
            "Metric of local steps of own code: a weighted mean over the replies that are used; of "
            "a client, that of its last reply that was used."
        )
        found = {
            "problem.metrics": [Column(name, better=b, about=about) for name, b in evaluated],
            "algorithm.local.metrics": [
                Column(name, better=b, about=local) for name, b in metrics.items()
            ],
        }
        return {place: tuple(columns) for place, columns in found.items() if columns}

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers of the model."""
        shards = self.federation.views.evaluation.shards
        return self.training.problem.layers(shards.features, shards.classes)

    @property
    def overlaps(self) -> bool:
        """Whether tasks may end in a later row than the one in which they began."""
        return self.training.algorithm.asynchronous or self.participation.late == "stale"

    @property
    def by_message(self) -> bool:
        """Whether nodes send each other messages, and faulty nodes are right about themselves."""
        return self.training.algorithm.gossip and OWN_MODELS in self.training.algorithm.gives

    @property
    def by_step(self) -> bool:
        """Whether nodes without a server compute, send and mix in steps."""
        return self.by_message and not self.training.algorithm.asynchronous

    @property
    def metered(self) -> bool:
        """Whether the energy of clients is recorded."""
        return self.federation.clients.metered and not self.training.algorithm.centralised

    @property
    def emits(self) -> bool:
        """Whether a carbon intensity is known, too."""
        return self.metered and any(each.emits for each in self.federation.clients.energies)

    @property
    def batteries(self) -> bool:
        """Whether some clients have a battery."""
        return self.metered and any(each.battery for each in self.federation.clients.energies)

    @property
    def misses(self) -> bool:
        """Whether nodes without a server may miss messages that come too late."""
        return self.training.algorithm.gossip and self.participation.patience_s is not None

    @property
    def repeats(self) -> bool:
        """Whether a client may be drawn more than once for a round."""
        return self.participation.select.repeats and not self.training.algorithm.asynchronous

    @property
    def event_columns(self) -> tuple[Column, ...]:
        """The columns of its events."""
        further = ((self.overlaps, VERSIONS), (self.repeats, DRAWS), (self.by_step, WAITS))
        return (*EVENTS, *(column for has, group in further if has for column in group))

    @property
    def evaluation(self) -> Evaluation:
        """Evaluation request to clients at an evaluated row."""
        measuring, classes = self.measuring, self.federation.views.evaluation.shards.classes
        return Evaluation(
            self.training.algorithm, measuring.scored, self.reported, classes > MANY,
            measuring.validation, measuring.subsample, tuple(self.training.problem.further),
            names(self.own_columns.get("algorithm.local.metrics", ())),
            personalises_unseen(self.training.algorithm, self.training.x0),
        )  # fmt: skip

    @property
    def thinning(self) -> Thinning | None:
        """Which evaluations of the clients' own models are kept.

        None where clients have no models of their own, or too many clients are evaluated.
        """
        if "personal_loss" not in self.reported:
            return None
        return Thinning(self.measuring.every, len(self.measuring.evaluated))

    @cached_property
    def apart(self) -> int:
        """Number of running statistics averaged apart from the update; 0 if with it."""
        algorithm, problem = self.training.algorithm, self.training.problem
        mode = getattr(problem, "normalisation", "frozen")
        if mode != "average" or GLOBAL_STEPS not in algorithm.gives or self.averages:
            return 0
        return sum(layer.size for layer in self.layers if layer.kind == "statistics")

    @property
    def averages(self) -> bool:
        """Whether the next model is the mean of the clients' models, exactly."""
        algorithm = self.training.algorithm
        within = AVERAGED in algorithm.gives and getattr(algorithm, "server_lr", 1.0) <= 1
        changed = any(EXACT_UPLOADS in stage.removes for stage in self.travels.uplink)
        return within and not changed and self.participation.late != "stale"

    def round(self, state: State) -> TimedRound:
        """Return the Asks of a round of the algorithm, with running statistics if apart."""
        rounds = self.training.algorithm.round(state)
        return averaged(rounds, self.apart) if self.apart else rounds

    def ask(self, state: State) -> Ask:
        """Return the Ask of an asynchronous algorithm, with running statistics if apart."""
        assert isinstance(self.training.algorithm, Asynchronous)
        ask = self.training.algorithm.ask(state)
        return with_statistics(ask, self.apart) if self.apart else ask

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Return the state after an update of an asynchronous algorithm, and its diagnostics."""
        algorithm = self.training.algorithm
        assert isinstance(algorithm, Asynchronous)
        returned = algorithm.arrival(state, reply)
        if not self.apart:
            return returned
        after, diagnostics = returned
        return arrived(algorithm, after, reply), diagnostics

    def first_ask(self) -> Ask | None:
        """Return the first Ask of the algorithm.

        Returns
        -------
        Ask or None
            None if it asks nothing or raises: the run reports that with its round and its trace.
        """
        try:
            asks = self.round(self.training.algorithm.init(self.training.x0))
            ask = next((each for each in asks if not isinstance(each, Wait)), None)
            asks.close()
        except Exception:
            return None
        return ask if isinstance(ask, Ask) else None

    @property
    def travels(self) -> Channel:
        """Channel of the run's vectors; None for a centralised baseline."""
        return Channel() if self.training.algorithm.centralised else self.channel

    @property
    def faults(self) -> tuple[Faulty, ...]:
        """The clients that send something else than they should."""
        return self.travels.faults

    @property
    def layout(self) -> Layout:
        """The layers of the model as pieces of vectors."""
        return Layout.of(self.layers, self.apart)

    def uplink(self) -> Uplink | None:
        """Return the uplink; None without stages."""
        stages, privacy = self.travels.uplink, self.travels.privacy
        ask = self.first_ask() if stages else None
        if ask is None:
            return None
        coded, key = self.coded(ask), Key(self.seed, "uplink")
        members = self._sum_members if self.secure else None
        noise = 0.0 if privacy is None or privacy.at == "server" else privacy.noise or 0.0
        return Uplink(
            stages, self.layout, tuple(coded), coded_vectors(ask, coded), self.training.dtype,
            key, members, self.left_out, noise, privacy is not None,
        )  # fmt: skip

    def coded(self, ask: Ask) -> Coded:
        """Return the uploads of the algorithm that codecs and clips may change.

        Parameters
        ----------
        ask : Ask
            Its first Ask.
        """
        declared = self.training.algorithm.coded
        if declared is not None:
            return declared
        size = self.training.x0.size
        return {name: "any" for name, n in ask.up.items() if n == size and name not in ask.plain}

    @property
    def left_out(self) -> bool:
        """Whether rows report the error that memories of uploads hold."""
        codecs = [stage for stage in self.travels.uplink if isinstance(stage, Codec)]
        return self.measuring.left_out and any(codec.memory is not None for codec in codecs)

    @property
    def secure(self) -> bool:
        """Whether the server sees nothing but sums modulo a number."""
        return any(isinstance(stage, SecureSum) for stage in self.channel.uplink)

    @property
    def asked(self) -> int:
        """Number of clients asked at once, or of replies per update."""
        count, rule = self.federation.population.count, self.participation
        if isinstance(self.training.algorithm, Asynchronous):
            return min(self.training.algorithm.takes, count)
        return rule.asked(count)

    @property
    def _sum_members(self) -> SumMembers:
        """Clients of a secure sum."""
        count, asked = self.federation.population.count, self.asked
        mixer = None if self.channel.aggregate is None else self.channel.aggregate.before
        if mixer is not None:
            asked = mixer.together(asked)
        total = self.federation.views.training.shards.totals[1]
        weight = total / count if self.training.weights == "size" else 1.0
        asked = min(asked, count)
        return SumMembers(
            asked, count if self.participation.select.may_be_empty else asked, weight, count
        )

    def downlink(self) -> Downlink | None:
        """Return the downlink; None without stages."""
        if not self.travels.downlink:
            return None
        (codec,) = self.travels.downlink
        assert isinstance(codec, Codec)  # others have been refused
        return Downlink(codec, self.layout, Key(self.seed, "downlink"))

    @property
    def initial(self) -> Mapping[str, Array]:
        """The first row of each array of client state."""
        uplink, own = self.uplink(), self.training.algorithm.client_state(self.training.x0)
        for solver in self.training.solvers:
            if isinstance(solver, OwnTrain):
                metrics = dict.fromkeys(solver.columns, np.array(np.nan))
                own = {**own, **solver.initial(self.training.dtype), **metrics}
        rows = own if uplink is None else {**own, **uplink.initial}
        if self.faults and (ask := self.first_ask()) is not None:
            up = ask.up if uplink is None else {**ask.up, **uplink.extra}
            for faulty in self.faults:
                rows = {**rows, **faulty.initial(up, self.training.dtype)}
        return rows

    @property
    def round_s(self) -> float | None:
        """Seconds that every round lasts; None for rounds that end with their replies.

        In private runs with coins the length would depend on who was drawn, and with it who is
        available in later rounds.
        """
        privacy, population = self.travels.privacy, self.federation.population
        if privacy is None or not privacy.sampled or not population.comes_and_goes():
            return None
        return self.participation.deadline_s

    @property
    def private(self) -> PrivateMean | None:
        """Private mean of the run; None without privacy."""
        privacy, clients = self.travels.privacy, self.federation.clients.count
        if privacy is None:
            return None
        clip = next(stage for stage in self.travels.uplink if isinstance(stage, Clip))
        uplink = self.uplink()
        assert uplink is not None  # what asks nothing at first has been refused
        cohort = min(self.participation.cohort or clients, clients)
        return PrivateMean(
            privacy, clip, cohort, clients, (uplink.lengthening, uplink.rounding), uplink.largest,
            Key(self.seed, "privacy"), self.training.dtype,
        )  # fmt: skip

    def setup(self) -> Setup:
        """Return the setup of a host."""
        algorithm, evaluation = self.training.algorithm, self.evaluation
        return Setup(
            owners={
                "algorithm": algorithm,
                "mixing": algorithm,  # what mixes does not travel
                "selection": self.participation.select,
                "evaluation": evaluation,
                "server": evaluation,
                "unseen": evaluation,
                **{
                    f"measure {name}": measure.functions(algorithm)
                    for name, measure in self.measuring.measures.items()
                },
            },
            views=self.federation.views,
            problem=self.training.problem,
            solvers=self.training.solvers,
            initial=self.initial,
            seed=self.seed,
            p=self.training.x0.size,
            block=self.block,
            uplink=self.uplink(),
            faults=() if self.by_message else self.faults,
        )
