"""Messages between the server and the client functions of methods: Asks, uploads and replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints

State: TypeAlias = Mapping[str, Array]
Diagnostics: TypeAlias = Mapping[str, float]
ByClient: TypeAlias = Callable[[Ints, Ints], Floats]
"""Maps ids (K,), ascending, and numbers of training rows n_i (K,) to a number per client (K,)."""


@dataclass(frozen=True)
class Ask:
    """A request from the server function to some clients.

    Parameters
    ----------
    function : str
        The client function: name of a method ``function(clients, **send) -> Upload`` of the sender.
    send : mapping of str to array
        Arrays that every client downloads; their size is charged.
    up : mapping of str to int
        What every client uploads: the names in its `Upload` and the number of elements of each.
        It is declared in advance because the clock determines late clients before anything is
        computed; the client host refuses an upload that differs.
    cost : "local", float, (K,) array of float or callable
        Computing cost in steps: the clients' configured local steps ("local"), or a number of
        step-equivalents, for all or for each of `clients`, which must ascend. If costs differ
        within the cohort, which only the engine knows, a function of ids and rows. It is
        evaluated before anything is computed, so it cannot depend on the clients' results.
    each_step : float
        With "local" cost: gradient evaluations per local step, relative to plain SGD.
    passes : float or callable
        Full gradients in addition to `cost`, each as expensive as one epoch of local steps: a
        number for all, or a function of ids and rows as for `cost`.
    clients : (K,) array of int or "visited", optional
        Clients that are asked. If None, the cohort (after the first Ask: its clients that
        answered); if "visited", the client that a walking server is at, which only methods with
        `rayfed.core.needs.WALK` may use.
    plain : tuple of str
        Names in `up` whose vectors are averaged with weight 1 for every client that answered,
        regardless of its size and of how often it was drawn, so that their sum equals the sum of
        what the clients store.
    vectors : bool
        Whether the server also receives the vectors of each client, in `Reply.each`; only
        methods that need `VECTORS` (`Algorithm.needs`) may use it.
    overlap : bool
        Whether clients need what they are sent only at the end of their computing. Those whose last
        reply was used then compute from the end of that task on, while their upload and the next
        download travel. Only the first Ask of a round, to its cohort.
    bits : mapping of str to int
        What vectors of `up` take on their way, where the method itself codes them.
    edge_of : callable, optional
        Edge server (K,) of clients with these ids (K,), where the cohort has several. Arrays of
        `send` then have a row for each edge server, of which a client downloads its own, and the
        reply has means by edge server (`Reply.groups`). An edge server waits for its own clients
        alone, and begins the next such Ask of the round at once, with its whole cohort.
    share : callable, optional
        Share (K,) of the model that clients with these ids (K,) train, if not all of it. A step and
        each transfer take this share of what they take for the model. Uploads are as long as the
        model, with zeros in all other coordinates, and go through no codec.
    """

    function: str
    send: Mapping[str, Array]
    up: Mapping[str, int]
    cost: float | Floats | ByClient | Literal["local"] = "local"
    each_step: float = 1.0
    passes: float | ByClient = 0.0
    clients: Ints | Literal["visited"] | None = None
    plain: tuple[str, ...] = ()
    vectors: bool = False
    overlap: bool = False
    bits: Mapping[str, int] = field(default_factory=dict)
    edge_of: Callable[[Ints], Ints] | None = None
    share: Callable[[Ints], Floats] | None = None

    @property
    def bytes_down(self) -> int:
        """Bytes that each client downloads."""
        sent = (values if self.edge_of is None else values[0] for values in self.send.values())
        return sum(int(np.asarray(values).nbytes) for values in sent)

    def bytes_up(self, itemsize: int) -> int:
        """Return the bytes that each client uploads, in numbers of so many bytes."""
        plain = {name: n for name, n in self.up.items() if name not in self.bits}
        coded = -(-sum(self.bits.values()) // 8)
        return coded + sum(itemsize * n if n > 1 else 8 * n for n in plain.values())

    def shares(self, ids: Ints) -> float | Floats:
        """Return the share of the model that clients train, for all or for each (K,)."""
        return 1.0 if self.share is None else self.share(ids)

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
    """Uploads of K clients, and their next state.

    Parameters
    ----------
    values : mapping of str to array
        ``(K, ...)`` arrays are sent as weighted sums over clients; ``(K,)`` arrays are scalars
        that the server receives per client.
    state : mapping of str to (K, ...) array
        New rows of the client state, which stays at the client and is never sent.
    loss : (K,) array, optional
        Mean training loss over the local steps; recorded in the events, not charged.
    group : (K,) array of int, optional
        A label >= 0 of each client: vectors are also summed for each label. It is sent as a
        scalar, declared as ``"group": 1``.
    mirrors : mapping of str to (str, (K, 1) array or float)
        State that the server mirrors in a sum of uploads: its name, the vector that carries the
        change, and the change of the state per unit of that vector. Where codecs or clips change
        the vector, the state changes alike, so that server and clients stay equal.
    squares : mapping of str to str
        Scalars that are the squared norm of a vector of `values`, and that vector. They are those
        of the vector that the server decodes.
    """

    values: Mapping[str, Array]
    state: Mapping[str, Array] = field(default_factory=dict)
    loss: Array | None = None
    group: Ints | None = None
    mirrors: Mapping[str, tuple[str, Array | float]] = field(default_factory=dict)
    squares: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Groups:
    """Sums by group, from clients that uploaded their group, or by edge server.

    Parameters
    ----------
    labels : (G,) array of int
        The groups with at least one client, ascending.
    counts : (G,) array of int
        Number of clients of each group that answered.
    weights : (G,) array of float
        Sum of the raw weights of each group.
    mean : mapping of str to (G, ...) array
        Means of the uploaded vectors by group, weighted as in `Reply.mean`.
    """

    labels: Ints
    counts: Ints
    weights: Floats
    mean: Mapping[str, Array]

    @classmethod
    @cache
    def empty(cls) -> Groups:
        """Return an empty value, without groups."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, none.astype(np.float64), {})


@dataclass(frozen=True)
class Reply:
    """The answer to an Ask.

    Parameters
    ----------
    ids : (K,) array of int
        The clients whose replies are used, ascending. Where late replies are used (`staleness`)
        these come first, and a client may have several.
    weights : (K,) array of float
        Raw weights: n_i or 1, times how often the client was drawn.
    mean : mapping of str to array
        Weighted means ``sum_i w_i v_i / sum_i w_i`` of all uploads; unweighted means for the
        names in `Ask.plain`.
    each : mapping of str to (K,) array
        The per-client scalars, in the order of `ids`; with `Ask.vectors` also the vectors
        ``(K, ...)``.
    steps : (K,) array of int
        Local steps that each client ran.
    population : int
        Number N of clients, of which K answered.
    groups : Groups
        The means by group, if the clients uploaded their group, or by edge server.
    round : int
        The round, from 1, which the local learning rate may depend on.
    staleness : (K,) array of int
        Updates of the model between the start of each client's task and its arrival; only
        asynchronous algorithms get it. There `ids` are in the order in which sums were formed, and
        may repeat. Where late replies are used, it holds rounds, and is empty if none is late.
    seconds : (K,) array of float
        Virtual seconds from the Ask to each reply, for selections that learn from them.
    sent : mapping of str to array
        What the clients downloaded, if all got the same; only asynchronous algorithms get it.
    mean_weight : float
        Mean over all N clients of n_i, or 1 with uniform weights; it changes where rows arrive.
    """

    ids: Ints
    weights: Floats
    mean: Mapping[str, Array]
    each: Mapping[str, Array]
    steps: Ints
    population: int = 0
    groups: Groups = field(default_factory=Groups.empty)
    round: int = 1
    staleness: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seconds: Floats = field(default_factory=lambda: np.empty(0))
    sent: State = field(default_factory=dict)
    mean_weight: float = 1.0


@dataclass(frozen=True)
class Wait:
    """Yielded by a selection or a method to advance the virtual clock; no reply is sent."""

    seconds: float
