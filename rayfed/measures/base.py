"""The measure interface: columns of evaluated rows, their needs, and their computation."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np

from rayfed.clients import setup
from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import (
    FIXED_ROWS,
    NOTHING,
    OPTIMUM,
    ROUNDS,
    SERVER,
    Terms,
    refuse_renamed,
    where,
)
from rayfed.datasets.shards import Shards
from rayfed.messages import Reply, State
from rayfed.population import Population
from rayfed.population.availability.base import Availability
from rayfed.problems.layers import Layer
from rayfed.problems.objective import Objective
from rayfed.solvers.base import Solver

Use: TypeAlias = Literal["accuracy", "cohort", "optimum", "optima"]
"""What the engine provides for a measure.

"accuracy": `MeasureView.accuracy`. "cohort": it is called for the cohort of a round, before it
trains. "optimum": `MeasureView.optimum` where it is known, "optima": with the least loss of every
client.
"""


@dataclass(frozen=True)
class Optimum:
    """Known properties of the optimum of a convex objective.

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
class Predictions:
    """Targets and outputs of scored rows, sorted by client where one client has several.

    Parameters
    ----------
    client : (n,) array of int
        The client of each row, or the piece of the server's test rows.
    y : (n, m) array of float64
        Its targets, flat.
    z : (n, c) array of float64
        Outputs, flat: scores of classes (of each target, one after the other), or numbers.
    """

    client: Ints
    y: Floats
    z: Floats

    @classmethod
    def joined(cls, parts: Sequence[Predictions]) -> Predictions:
        """Return the rows of several, clients ascending."""
        if not parts:
            return cls(np.zeros(0, np.int64), np.zeros((0, 1)), np.zeros((0, 1)))
        client = np.concatenate([part.client for part in parts])
        order = np.argsort(client, kind="stable")
        y, z = (np.concatenate([getattr(part, name) for part in parts]) for name in "yz")
        return cls(client[order], y[order], z[order])


class Method(Protocol):
    """A measure's view of an algorithm."""

    @property
    def centralised(self) -> bool:
        """Whether one machine holds all rows."""

    @property
    def gives(self) -> Terms:
        """What it gives, `MODEL` where ``x`` is a model."""

    def round(self, state: State) -> Generator[Any, Any, Any]:
        """Yield the server's Asks in a round that starts from a state."""

    def evaluation_state(self, state: State) -> State:
        """Return the server state that own models depend on in addition to the global model."""


class Answer(Protocol):
    """Answers of clients."""

    @property
    def sums(self) -> Mapping[str, Array]:
        """Plain sums over the clients."""

    @property
    def each(self) -> Mapping[str, Array]:
        """Scalars of each client (K,)."""


class MeasureView(Protocol):
    """A measure's view of a run. Asking takes no simulated time.

    Attributes
    ----------
    model : (p,) array
        The model that is measured; of a cohort, the one that its round starts from.
    first : (p,) array
        The model that the run began with.
    server : mapping of str to array
        The server's state.
    round : int
        The last round that was run; 0 before the first.
    clients : (K,) array of int
        The evaluated clients, ascending.
    accuracy : (K,) array of float
        Their accuracies under the model, NaN without rows; for measures that need them.
    honest : (K,) array of bool
        Which evaluated clients have no fault.
    cohort : (C,) array of int
        Whom the round asks, for measures of cohorts.
    optimum : Optimum or None
        None where it is not known.
    algorithm : Method
    solvers : tuple of Solver
        The local solver of each client group.
    layers : sequence of Layer
        The layers of the model.
    population : Population
        All clients.
    data : rayfed.clients.setup.DataView
        Their rows (`shards`), and what F is (`objective`), in the round of the row; of a cohort, in
        the round that asks it.
    seed : int
        Of the run.
    size : int or None
        Clients to a round; all if None.
    """

    model: Array
    server: State
    round: int
    first: Array
    clients: Ints
    accuracy: Floats
    honest: Bools
    cohort: Ints
    optimum: Optimum | None
    algorithm: Method
    solvers: tuple[Solver, ...]
    layers: Sequence[Layer]
    population: Population
    data: setup.DataView
    seed: int
    size: int | None

    def ask(
        self,
        function: str,
        send: Mapping[str, Array],
        up: Mapping[str, int],
        *,
        solving: bool = False,
    ) -> Answer:
        """Run ``function(clients, **send) -> Upload`` of the measure at the evaluated clients.

        They have the rows of `data`.

        Parameters
        ----------
        up : mapping of str to int
            How many numbers each client uploads, as in an `Ask`.
        solving : bool
            Whether it runs the local solver of each client's group; otherwise the first one.
        """

    def mean(
        self,
        function: str,
        send: Mapping[str, Array],
        up: Mapping[str, int],
        ids: Ints | None = None,
        steps: Ints | None = None,
    ) -> Reply:
        """Run a method at clients (K,) and return means by the weights of F.

        Parameters
        ----------
        ids : (K,) array of int, optional
            The evaluated clients if None.
        steps : (K,) array of int, optional
            Local steps of each, which its solver takes in the coming round, with the rows and the
            weights of that; none if None.
        """

    def predictions(self) -> Predictions:
        """Return targets and outputs of the rows that accuracy is measured on.

        Of the clients' own models where there is no global one. `evaluate.rows` limits them.

        Raises
        ------
        ScenarioError
            If they are too large for the memory.
        """

    def losses(self, x: Array, ids: Ints) -> Floats:
        """Return F_i(x) (K,) of clients at a model (p,)."""

    def own_losses(self) -> Floats:
        """Return F_i (K,) of the evaluated clients at the models that they use."""

    def weights(self, ids: Ints) -> Floats:
        """Return the raw weights (K,) of clients in F."""

    def steps(self, ids: Ints) -> Ints:
        """Return the local steps (K,) of clients in the coming round."""

    def shares(self, losses: Floats, draws: int) -> Floats | None:
        """Return the expected share of each client (N,) in the cohort; None if it is not known."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Base of measures: values that fill columns of evaluated rows.

    The engine calls `measure` at every evaluation, or, for measures of cohorts, in every round
    whose row is evaluated. Measures may ask the evaluated clients for anything, also for what no
    real server could know. What clients compute for it are methods of the measure (`functions`).
    They see the clients' state, and may not change it.

    An algorithm may have measures of its own, which compare a run with its theory
    (`rayfed.algorithms.base.Algorithm.measures`); they have no `name`.

    Attributes
    ----------
    columns : tuple of Column
        Columns of rows that `measure` fills, float64. If there are none, it is not called.
    needs : set of Term
        What others must leave to it, from `rayfed.core.needs`: `FIXED_ROWS` if it compares rounds,
        `OPTIMUM` if the optimum has to be known, `GRADIENTS`.
    uses : set of Use
        What the engine provides for it.
    saved : set of str
        Arrays of its state that ``model.npz`` has at the end, as ``measure.<name>.<array>``.
    """

    columns: ClassVar[tuple[Column, ...]] = ()
    needs: ClassVar[Terms] = NOTHING
    uses: ClassVar[Set[Use]] = frozenset()
    saved: ClassVar[Set[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        refuse_renamed(cls, {"kept": "saved"})
        if words := [word for word in cls.needs if isinstance(word, str)]:
            text = f"declares needs = {words}, words that are replaced; write terms such as"
            remedy = "FIXED_ROWS or OPTIMUM (from rayfed.core.needs), and the rest under `uses`"
            raise ScenarioError(cls.__qualname__, f"{text} {remedy}")
        cls.needs |= where(
            {
                ROUNDS: "cohort" in cls.uses,
                SERVER: "cohort" in cls.uses,
                FIXED_ROWS: OPTIMUM in cls.needs,
            }
        )
        cls.uses = cls.uses | ({"optimum"} if OPTIMUM in cls.needs else set())

    def columns_of(
        self, availability: Availability, layers: Sequence[Layer] = ()
    ) -> tuple[Column, ...]:
        """Return which `columns` the rows of a run have.

        Parameters
        ----------
        availability : Availability
            Of the clients.
        layers : sequence of Layer
            Of the model; empty before the data are loaded.
        """
        return self.columns

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the measure for clients that are known, before a run begins.

        The arguments are those of `rayfed.algorithms.base.Algorithm.bound`.
        """
        return self

    def functions(self, algorithm: Any) -> Any:
        """Return the frozen value that holds client functions; the measure itself by default."""
        return self

    def init(self) -> State:
        """Return the state before the first row, as named arrays.

        What `measure` returns in its place is part of the checkpoint.
        """
        return {}

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the columns of a row, NaN where left out, and the next state.

        Parameters
        ----------
        known : mapping of str to array
            What the last call left, or `init`.
        """
        raise NotImplementedError

    def warnings(self) -> list[str]:
        """Return warnings for readers of the results."""
        return []
