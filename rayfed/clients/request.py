"""Requests to hosts and partial sums from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.flat import Flat, all_flat, all_restored, flat, restored
from rayfed.core.rng import Draw
from rayfed.core.tree import Branch
from rayfed.core.values import changed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Owner: TypeAlias = str
"""Whose method a client function is.

"algorithm", "selection", "optimum", "measure ..." with its name, or "evaluation"; "server" and
"unseen" are the evaluation too, on the server's own test rows, and on those of unseen clients.
"""

GROUP = "group"
"""Name of the scalar that holds the group of a client."""
STATISTICS = "running-statistics"
"""Name of the upload of running statistics that are averaged apart from the update."""


def group_name(name: str, label: int) -> str:
    """Return the name of a vector's sum over one group; no vector of an Upload is called so."""
    return f"{name}@{label}"


@dataclass(frozen=True)
class Request:
    """One Ask as a host gets it: only its own clients, without the broadcast arrays.

    Parameters
    ----------
    owner : Owner
        Whose client function it is.
    function : str
        Name of the client function, a method of the owner.
    up : mapping of str to int
        Names and counts of the numbers that every client uploads.
    ids : (K,) array of int
        Distinct clients.
    weights : (K,) array of float
        Raw weights of their vectors.
    steps, groups : (K,) array of int
        Local steps, and the client group whose solver takes them.
    round, ask : int
        The round, which schedules go by, and the number of the Ask in it.
    vectors : bool
        Whether the server gets the vectors of each client too.
    sleep_s : (K,) array of float, optional
        Wall-clock seconds to sleep, where the clock is a wall clock.
    classes : list of (residue, modulus), optional
        Residue classes that the clients belong to; the host's own if None.
    plain : tuple of str
        Vectors that are added up without weights.
    draw : int or (K,) array of int, optional
        Coordinate of keyed draws in place of the round; the round if None.
    rows : (K,) array of int, optional
        The row of every broadcast array that each client gets; if None all get whole arrays.
    data_round : int, optional
        The round whose rows the clients see, where rows change over rounds; `round` if None.
    sums : bool
        Whether vectors are added up; if not, only what each client sends is returned.
    shares : (K,) array of float, optional
        Weights of the clients in F, which add up to 1 over all clients, where what clients send is
        also added up by these.
    first : (K,) array of bool, optional
        Who sends its first vectors as they are.
    labels : (K,) array of int, optional
        A group of each client, where vectors are also added up by group.
    squares : bool
        Whether vectors and their squares are also added up in float64, as ``name^1`` and
        ``name^2``.
    keeps : bool
        Whether uploads are messages to other nodes, which stay at the hosts of their senders.
    mixing : csr_array (K, N), optional
        The weights at which clients get the sums of messages that hosts keep, of the same K
        clients and of others; columns are ids. Sums are formed at the hosts of the receivers.
    """

    owner: Owner
    function: str
    up: Mapping[str, int]
    ids: Ints
    weights: Array
    steps: Ints
    groups: Ints
    round: int
    ask: int
    vectors: bool = False
    sleep_s: Array | None = None
    classes: list[tuple[int, int]] | None = None
    plain: tuple[str, ...] = ()
    draw: Draw | None = None
    rows: Ints | None = None
    data_round: int | None = None
    sums: bool = True
    shares: Floats | None = None
    first: Bools | None = None
    labels: Ints | None = None
    squares: bool = False
    keeps: bool = False
    mixing: csr_array[Any] | None = None

    @property
    def senders(self) -> Ints:
        """Ids of the senders in the sums of `mixing`, ascending."""
        return np.unique([] if self.mixing is None else self.mixing.indices).astype(np.int64)

    def part(self, index: Ints, classes: list[tuple[int, int]] | None = None) -> Request:
        """Return the request for some of its clients, all those of some classes."""
        columns = ((name, getattr(self, name)) for name in _BY_CLIENT)
        own: dict[str, Any] = {
            name: rows[index] for name, rows in columns if isinstance(rows, np.ndarray)
        }
        if self.mixing is not None:
            own["mixing"] = self.mixing[index]
        return changed(self, classes=classes, **own)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a compact pickle: every exchange sends one to each host."""
        values = list(vars(self).values())
        for place in _ARRAYS:
            values[place] = flat(values[place])
        return _request, tuple(values)


_BY_CLIENT = (
    "ids", "weights", "steps", "groups", "sleep_s", "draw", "rows", "shares", "first", "labels",
)  # fmt: skip
_NAMES = tuple(field.name for field in fields(Request))
_ARRAYS = tuple(map(_NAMES.index, _BY_CLIENT))


def _request(*values: Any) -> Request:
    """Return a request that was pickled."""
    known = list(values)
    for place in _ARRAYS:
        known[place] = restored(known[place])
    request = Request.__new__(Request)
    vars(request).update(zip(_NAMES, known, strict=True))
    return request


def uncharged(
    owner: Owner, function: str, up: Mapping[str, int], ids: Ints, data_round: int = 0
) -> Request:
    """Return a request that costs no simulated time: no local steps, every solver the first.

    `data_round` is the round whose rows the clients see; 0 for those before the first.
    """
    none = np.zeros(len(ids), dtype=np.int64)
    return Request(
        owner, function, up, ids, np.ones(len(ids)), none, none, 0, 0, data_round=data_round
    )


@dataclass(frozen=True)
class Partial:
    """Partial result of one host: sums over its classes, and scalars in the order of the ids.

    `printed` are the lines that the user's client functions printed in another process; `seconds`
    are how long each process computed them, none if not requested.
    """

    branches: list[Branch]
    each: Mapping[str, Array]
    printed: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return a compact pickle: every exchange brings one from each host."""
        branches = [(residue, modulus, all_flat(sums)) for residue, modulus, sums in self.branches]
        return _partial, (branches, all_flat(self.each), self.printed, self.seconds)


def _partial(
    branches: list[tuple[int, int, Flat]],
    each: Flat,
    printed: tuple[str, ...],
    seconds: tuple[float, ...],
) -> Partial:
    """Return a partial that was pickled."""
    sums: list[Branch] = [
        (residue, modulus, all_restored(packed)) for residue, modulus, packed in branches
    ]
    return Partial(sums, all_restored(each), printed, seconds)


@dataclass(frozen=True)
class Failure:
    """A client function that raised: which client, the original traceback, and its sentence.

    `printed` is as in `Partial`.
    """

    client: int
    trace: str
    reason: str
    printed: tuple[str, ...] = ()
