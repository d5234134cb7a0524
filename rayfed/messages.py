"""What passes between server halves and client halves: Asks, uploads and replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints

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
        that a walking server is at if "visited", which only methods that `needs_walk` may say.
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

    @property
    def local(self) -> bool:
        """Whether it asks for the clients' own local steps."""
        return isinstance(self.cost, str)

    @property
    def visited(self) -> bool:
        """Whether it asks the client that a walking server is at."""
        return isinstance(self.clients, str)


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
    """What the server learns from clients that uploaded their group.

    Parameters
    ----------
    labels : (G,) array of int
        The groups with at least one client, ascending.
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
        """Return an empty value: no client has a group."""
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
        The means by group, if the clients uploaded their group.
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
    """What an `Examiner` is given in an evaluation; nothing of it takes simulated time.

    Parameters
    ----------
    ask : callable
        ``ask(work, send, up)`` runs the examiner's method ``work(clients, **send) -> Upload`` and
        returns, for each name in `up`, the plain sum over all evaluated clients. `up` declares
        how many numbers each client uploads, as in an `Ask`.
    least : float, optional
        F*, if it is known and `Examiner.needs_optimum`; then all clients are evaluated.
    population : int
        Number N of clients.
    round : int
        The round after which this evaluation takes place; 0 before the first.
    """

    ask: Callable[[str, Mapping[str, Array], Mapping[str, int]], Mapping[str, Array]]
    least: float | None
    population: int
    round: int


@dataclass(frozen=True)
class Wait:
    """Yielded by a selection to let virtual seconds pass; no reply is sent."""

    seconds: float
