"""What an algorithm is: hyper-parameters, a client half and a server half.

The server half is a generator. It yields an `Ask`, gets the `Reply`, as often as the pseudo-code
of its paper does, and returns the new state and its diagnostics. It knows no clock, no files and
no Ray; the engine, or a test, answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from rayfed.selection.base import Selection
from rayfed.solvers import SGD, Solver

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective

Array: TypeAlias = npt.NDArray[Any]
Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
State: TypeAlias = Mapping[str, Array]
Diagnostics: TypeAlias = Mapping[str, float]
ByClient: TypeAlias = Callable[[Ints, Ints], Floats]
"""From ids (K,), ascending, and training rows n_i (K,) of clients to a number for each (K,)."""


@dataclass(frozen=True)
class Ask:
    """One question to some clients.

    Parameters
    ----------
    work : str
        The client half: name of a method ``work(clients, **send) -> Upload`` of whoever asks.
    send : mapping of str to array
        What every asked client downloads; its size is charged.
    up : mapping of str to int
        What every client uploads: the names in its `Upload` and the count of numbers of each.
        It is declared because the clock must know who is late before anything is computed;
        the client host refuses an upload that differs.
    cost : "local", float, (K,) array of float or callable
        Computing in steps: the client's own local steps, or a number of step-equivalents, for
        all or for each of `clients`, which ascend then. Where it differs from client to client
        of the cohort, which only the engine knows: a function of their ids and rows. It is asked
        before anything is computed, so it cannot depend on the clients' numbers.
    each_step : float
        With "local" cost: gradient evaluations of a local step, in those of plain SGD.
    passes : float or callable
        Gradients on all rows beside `cost`, each as dear as the local steps that go through the
        rows once: for all, or a function of ids and rows as `cost`.
    clients : (K,) array of int or "visited", optional
        Who is asked; the cohort (after its first Ask: those of it who answered) if None; the one
        that a walking server is at if "visited", which only methods that `need_walk` may say.
    plain : tuple of str
        Names in `up` whose vectors are averaged with weight 1 for every client that answered,
        however large it is and however often it was drawn: what they add up to stays the sum of
        what the clients keep.
    vectors : bool
        Whether the server gets the vectors of each client too, in `Reply.each`; only methods that
        declare `Algorithm.sees_vectors` may.
    """

    work: str
    send: Mapping[str, Array]
    up: Mapping[str, int]
    cost: float | Floats | ByClient | Literal["local"] = "local"
    each_step: float = 1.0
    passes: float | ByClient = 0.0
    clients: Ints | Literal["visited"] | None = None
    plain: tuple[str, ...] = ()
    vectors: bool = False


@dataclass(frozen=True)
class Upload:
    """What K clients send back, and what they keep.

    Parameters
    ----------
    values : mapping of str to array
        ``(K, ...)`` arrays travel as weighted sums over clients; ``(K,)`` arrays are scalars
        that the server sees per client.
    state : mapping of str to (K, ...) array
        New rows of the clients' own state, kept beside the client and never sent.
    loss : (K,) array, optional
        Mean training loss over the local steps; recorded in the events, not charged.
    group : (K,) array of int, optional
        A label >= 0 of each client: vectors are added up for each label too. It travels as a
        scalar, declared as ``"group": 1``.
    """

    values: Mapping[str, Array]
    state: Mapping[str, Array] = field(default_factory=dict)
    loss: Array | None = None
    group: Ints | None = None


@dataclass(frozen=True)
class Groups:
    """What the server learns from clients that said which group they belong to.

    Parameters
    ----------
    labels : (G,) array of int
        The groups that somebody belongs to, ascending.
    counts : (G,) array of int
        Clients of each that answered.
    weights : (G,) array of float
        Sum of the raw weights of each.
    mean : mapping of str to (G, ...) array
        Means of the uploaded vectors, group by group, weighted as those of everybody are.
    """

    labels: Ints
    counts: Ints
    weights: Floats
    mean: Mapping[str, Array]

    @classmethod
    def nobody(cls) -> Groups:
        """Return no groups at all."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, none.astype(np.float64), {})


@dataclass(frozen=True)
class Reply:
    """What the server learns from an Ask.

    Parameters
    ----------
    ids : (K,) array of int
        The distinct clients whose replies are used, ascending.
    weights : (K,) array of float
        Raw weights: n_i or 1, times how often the client was drawn.
    mean : mapping of str to array
        Weighted means ``sum_i w_i v_i / sum_i w_i`` of everything uploaded; plain means of
        what the Ask calls `plain`.
    each : mapping of str to (K,) array
        The per-client scalars, in the order of `ids`; with `Ask.vectors` also the vectors
        ``(K, ...)``.
    steps : (K,) array of int
        Local steps that each client ran.
    population : int
        Number N of clients, of whom K answered; tests of algorithms that need it give it.
    groups : Groups
        The means by group, where the clients said which group they belong to.
    round : int
        The round, from 1: the local learning rate may change with it.
    """

    ids: Ints
    weights: Floats
    mean: Mapping[str, Array]
    each: Mapping[str, Array]
    steps: Ints
    population: int = 0
    groups: Groups = field(default_factory=Groups.nobody)
    round: int = 1


@dataclass(frozen=True)
class Probe:
    """What `Algorithm.examine` may ask clients in an evaluation; nothing of it is charged.

    Parameters
    ----------
    ask : callable
        From a client half, what goes down and the count of numbers that come up to the plain sums
        over all evaluated clients, by name.
    least : float, optional
        F*, if it is known and the method `needs_least`; then all clients are evaluated.
    population : int
        Number N of clients.
    """

    ask: Callable[[str, Mapping[str, Array], Mapping[str, int]], Mapping[str, Array]]
    least: float | None
    population: int


Round: TypeAlias = Generator[Ask, Reply, tuple[State, Diagnostics]]


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
    select : Selection, optional
        Who takes part, where that is not as ``participation.select`` says for all algorithms.
    local : Solver
        What a client does with its local steps.

    Attributes
    ----------
    diagnostics : tuple of str
        Numbers that `round` returns, columns of every row.
    sees_vectors : bool
        The server is given single vectors, which breaks the promise that it sees only sums.
    baseline : bool
        It is compared with, and never wins.
    pooled : bool
        All rows are in one place.
    personal : bool
        Clients have models of their own, `models`, which evaluations score beside ``x``.
    has_global : bool
        ``x`` is a model; if not, the personal models are scored in its place.
    local_steps : bool
        Clients take steps of `local`.
    needs_least : bool
        `examine` wants to know F*.
    """

    name: ClassVar[str]
    diagnostics: ClassVar[tuple[str, ...]] = ()
    sees_vectors: ClassVar[bool] = False
    baseline: ClassVar[bool] = False
    pooled: ClassVar[bool] = False
    personal: ClassVar[bool] = False
    has_global: ClassVar[bool] = True
    local_steps: ClassVar[bool] = True
    needs_least: ClassVar[bool] = False

    label: str | None = None
    weights: Literal["size", "uniform"] | None = None
    evaluate_last: Annotated[int, Ge(1)] = 1
    select: Selection | None = None
    local: Solver = field(default_factory=SGD)

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

    def warnings(self, told: Mapping[str, Floats]) -> list[str]:
        """Return what readers should beware of, from its diagnostics of all rounds (T + 1,)."""
        return []

    def fitted(self, shards: Shards, population: Population, objective: Objective) -> Algorithm:
        """Return the algorithm for clients that are known, before a run begins.

        Parameters
        ----------
        shards : Shards
            Their rows.
        population : Population
            How they behave: how fast each is, when it is there.
        objective : Objective
            What is minimised: the problem, and what is averaged over what.

        Raises
        ------
        ScenarioError
            If it does not fit them; places are those of its own settings, ``newton``.
        """
        return self

    def init(self, x0: Array) -> State:
        """Return the server's first state; ``state["x"]`` (p,) is the model that is evaluated."""
        return {"x": x0}

    def client_state(self, x0: Array) -> State:
        """Return the first row of each array that every client keeps between rounds."""
        return {}

    def round(self, state: State) -> Round:
        """Run one round: yield Asks, return the new state and the diagnostics."""
        raise NotImplementedError

    @property
    def needs_walk(self) -> bool:
        """Whether the server must be at one client after another."""
        return False

    @property
    def examined(self) -> tuple[str, ...]:
        """The columns of evaluated rows that `examine` returns."""
        return ()

    def examine(self, state: State, probe: Probe) -> Mapping[str, float]:
        """Return what a proof of the method is about, where that is asked for."""
        return {}

    def models(self, clients: Clients, x: Array) -> Array:
        """Return the personal models (K, p) of clients; only where `personal` is true."""
        raise NotImplementedError
