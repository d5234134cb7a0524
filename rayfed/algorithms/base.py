"""Base class of algorithms: hyper-parameters, a client function and a server function.

The server function is a generator. It yields an `Ask`, gets the `Reply`, as often as the pseudo-
code of its paper does, and returns the new state and its diagnostics. It knows no clock, no files
and no Ray; the engine, or a test, answers it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from annotated_types import Ge, MinLen

from rayfed.channel.aggregators import Aggregator
from rayfed.channel.base import Stage
from rayfed.channel.privacy import Privacy
from rayfed.core.arrays import Array, Floats
from rayfed.core.columns import Column
from rayfed.core.control import ControlRule
from rayfed.core.needs import (
    FRESH,
    MEAN,
    MODEL,
    NOTHING,
    ONE_ASK,
    ROWS,
    SOLVER,
    Terms,
    refuse_flags,
    refuse_renamed,
    where,
)
from rayfed.core.plugins import SomeOf
from rayfed.measures.base import Measure
from rayfed.messages import Ask, Diagnostics, Reply, State, Wait
from rayfed.selection.base import Selection
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective
    from rayfed.topology import Graphs

Weights: TypeAlias = Literal["size", "uniform"]
Aim: TypeAlias = Literal["mean", "plain", "own"]
Coded: TypeAlias = Mapping[str, Literal["any", "contractive"]]
Stages: TypeAlias = tuple[Stage, ...] | Literal["study"] | None
Round: TypeAlias = Generator[Ask, Reply, tuple[State, Diagnostics]]
TimedRound: TypeAlias = Generator[Ask | Wait, Reply, tuple[State, Diagnostics]]
OLD_FLAGS: Mapping[str, str] = {
    "sees_vectors": "needs = Algorithm.needs | {VECTORS}",
    "personal": "gives = Algorithm.gives | {OWN_MODELS}",
    "has_global": "gives = Algorithm.gives - {MODEL}",
    "local_steps": "needs = Algorithm.needs - {SOLVER}",
    "layered": "needs = Algorithm.needs | {LAYERS}",
    "takes_partial": "needs = Algorithm.needs | {ALL_STEPS}",
    "takes_stale": "needs = Algorithm.needs - {FRESH}",
    "takes_estimates": "needs = Algorithm.needs - {MEAN}",
    "keeps_statistics": "gives = Algorithm.gives | {OWN_STATISTICS}",
    "needs_everyone": "needs = Algorithm.needs | {EVERYONE}",
    "own_steps": "gives = Algorithm.gives | {OWN_STEPS}",
    "exact_downloads": "needs = Algorithm.needs | {EXACT_DOWNLOADS}",
    "asks_once": "gives = Algorithm.gives - {ONE_ASK}",
}
"""Flags of earlier releases, and the declaration in place of each where it is not its default."""


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """Base of all algorithms: the settings that every one takes.

    Parameters
    ----------
    label : str, optional
        Name in tables and folders; the algorithm's name if None.
    weights : "size" or "uniform", optional
        Weights of the mean over participants. If None: size, but uniform where the selection
        itself already prefers large clients.
    evaluate_last : int
        Evaluate the mean of the last k iterates; training goes on from the last one.
    participation : mapping of str to object
        Keys of the study's `participation` that are others for this algorithm: those given here
        replace the study's one by one.
    local : Solver
        What a client does with its local steps.
    uplink, downlink : list of Stage, or "study"
        What vectors go through on their way, in place of the study's ``uplink`` and ``downlink``;
        nothing if None.
    aggregate : Aggregator, or "study"
        What takes the place of means of vectors, instead of the study's ``aggregate``; nothing if
        None.
    privacy : Privacy, or "study"
        Noise that makes means private, in place of the study's ``privacy``; none if None.
    control : list of ControlRule
        Rules that change settings between rounds, by the rows so far.
    grid : mapping of str to list
        Values for dotted keys of this algorithm, such as ``local.lr``; every combination of them
        is a setting that this algorithm alone runs.

    Attributes
    ----------
    needs : set of Term
        What settings of a study must not take away, from `rayfed.core.needs`. By default the exact
        mean of the replies of the round, and a local solver.
    gives : set of Term
        What settings may count on: a global model (``x``), models of the clients' own (`models`),
        one Ask in a round, running statistics that stay at the clients, own step counts. By
        default a global model and one Ask.
    diagnostics : tuple of Column
        Numbers that `round` returns; each is a column of `rounds`.
    theory : tuple of type
        Subclasses of `Measure` of which `measures` may hold one each.
    baseline : bool
        It is a baseline: reports compare with it and never rank it first.
    centralised : bool
        One machine holds all rows; there are no clients.
    asynchronous : bool
        It has no rounds; see `rayfed.algorithms.asynchronous.Asynchronous`.
    gossip : bool
        It has no server; see `rayfed.algorithms.gossip.Gossip` and ``MultiWalk``.
    aim : "mean", "plain" or "own"
        Whose minimum it heads for: that of a mean of the F_i, weighted as the mean over
        participants or plain; or of F, or of a function of its own. See `power`.
    coded : mapping of str to "any" or "contractive", optional
        The uploaded vectors that codecs and clips may change, and which codecs: those whose error
        is smaller than the vector alone, where the vector is a change of what client and server
        both keep. All other uploads travel as they are. If None: all weighted vectors of the first
        Ask that are as long as the model. A class with client state, or with a client function of
        its own for that state, must say it: the server may mirror it; see `Upload.mirrors`.
    """

    name: ClassVar[str]
    needs: ClassVar[Terms] = frozenset({MEAN, FRESH, SOLVER})
    gives: ClassVar[Terms] = frozenset({MODEL, ONE_ASK})
    diagnostics: ClassVar[tuple[Column, ...]] = ()
    theory: ClassVar[tuple[type[Measure], ...]] = ()
    baseline: ClassVar[bool] = False
    centralised: ClassVar[bool] = False
    asynchronous: ClassVar[bool] = False
    gossip: ClassVar[bool] = False
    aim: ClassVar[Aim] = "mean"
    coded: ClassVar[Coded | None] = None

    label: str | None = None
    weights: Literal["size", "uniform"] | None = None
    evaluate_last: Annotated[int, Ge(1)] = 1
    participation: Annotated[Mapping[str, Any], SomeOf("rayfed.engine.settings:Participation")] = (
        field(default_factory=dict)
    )
    local: Solver = field(default_factory=SGD)
    uplink: Stages = "study"
    downlink: Stages = "study"
    aggregate: Aggregator | Literal["study"] | None = "study"
    privacy: Privacy | Literal["study"] | None = "study"
    control: tuple[ControlRule, ...] = ()
    grid: Mapping[str, Annotated[tuple[Any, ...], MinLen(1)]] = field(default_factory=dict)

    def __init_subclass__(cls) -> None:
        refuse_flags(cls, OLD_FLAGS)
        cls.needs |= where({ROWS: cls.centralised})
        refuse_renamed(cls, {"beside": "evaluation_state"})

    def __post_init__(self) -> None:
        self.check_solver(self.local)

    def check_solver(self, solver: Solver) -> None:
        """Refuse a local solver, of all clients or of a group, that the method cannot use.

        Raises
        ------
        ScenarioError
            With the place ``local``.
        """
        return

    def warnings(self, reported: Mapping[str, Floats]) -> list[str]:
        """Return warnings for readers of the results.

        Parameters
        ----------
        reported : mapping of str to (T + 1,) array
            The diagnostics of all T rounds, by name; row 0 is before the first.
        """
        return []

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Algorithm:
        """Return the algorithm for clients that are known, before a run begins.

        Parameters
        ----------
        shards : Shards
            Their rows.
        population : Population
            Their speeds and availability.
        objective : Objective
            What is minimised: the problem, and what is averaged over what.

        Raises
        ------
        ScenarioError
            If it does not fit them; places are those of its own settings, ``newton``.
        """
        return self

    def weighed(
        self, weights: Weights, draws_by_size: bool, shards: Shards, seed: int
    ) -> Algorithm:
        """Return the algorithm for the weights of a run; most need not know them.

        Parameters
        ----------
        weights : "size" or "uniform"
            Weights of the mean over participants.
        draws_by_size : bool
            Whether the selection draws large clients more often.
        shards : Shards
            The clients' rows.
        seed : int
            Seed of the run.

        Raises
        ------
        ScenarioError
            If the method cannot have these weights; the place is ``weights``.
        """
        return self

    def power(self, weights: Weights, draws_by_size: bool) -> int | None:
        """Return the power of its size with which a client counts in the mean that is minimised.

        Parameters
        ----------
        weights : "size" or "uniform"
            Weights of the mean over participants.
        draws_by_size : bool
            Whether the selection draws large clients more often.

        Returns
        -------
        int or None
            The power of its size with which a client counts: 0 if all count alike, 1 by size, 2
            where both the draw and the mean weigh. None if the aim is the method's own.
        """
        if self.aim == "mean":
            return int(weights == "size") + int(draws_by_size)
        return 0 if self.aim == "plain" else None

    def on_graphs(self, graphs: Graphs, selection: Selection) -> Algorithm:
        """Return the algorithm for its graphs, if it needs them or a server that walks on them.

        Raises
        ------
        ScenarioError
            If it cannot walk on them, or not as the selection does; places are those of its own
            settings.
        """
        return self

    def init(self, x0: Array) -> State:
        """Return the server's first state; ``state["x"]`` (p,) is the model that is evaluated."""
        return {"x": x0}

    def client_state(self, x0: Array) -> State:
        """Return the first row of each array that every client keeps between rounds."""
        return {}

    def round(self, state: State) -> TimedRound:
        """Run one round: yield Asks, and seconds to wait; return the new state and diagnostics."""
        raise NotImplementedError

    @property
    def setting_needs(self) -> Terms:
        """Needs that follow from its settings, in addition to `needs`; none by default."""
        return NOTHING

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures that compare a run with the theory of the method; none by default.

        They follow from the settings alone. Before a run begins the plan calls `Measure.bound`.
        """
        return ()

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the personal models (K, p) of clients; only where `personal` is true."""
        raise NotImplementedError

    def evaluation_state(self, state: State) -> State:
        """Return the server state that `models_among` needs in addition to ``x``."""
        return {}

    def models_among(self, clients: Clients, x: Array, **inputs: Array) -> Array:
        """Return the personal models (K, p) where they depend on more than ``x``.

        Parameters
        ----------
        x : (p,) array
            The global model.
        **inputs
            What `evaluation_state` returns.
        """
        return self.models(clients, x)
