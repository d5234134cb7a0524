"""The client actor. A file of its own: what it imports decides what each actor costs."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import ray
from threadpoolctl import threadpool_limits

from rayfed.clients.host import Host, UnknownRun, state_bytes
from rayfed.clients.prints import Kept
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.scratch import ScratchError
from rayfed.clients.store import StateRows
from rayfed.clients.task import NotKept
from rayfed.core.arrays import Array
from rayfed.core.tree import Class
from rayfed.executors.orphan import end_with_parent

Answered = TypeVar("Answered")
Refusal: TypeAlias = UnknownRun | ScratchError | NotKept
"""Errors that are sent back as values: Ray would wrap them."""
Answer: TypeAlias = Partial | Failure | Refusal

BY_VALUE = 2**20
"""Bytes up to which arrays travel within a call: the object store costs two milliseconds more."""
PROTOCOL = 5

_SMALL = 2**16  # bytes up to which a pickle of our own saves a third of a millisecond


class HostActor:
    """A client actor: a `Host` in a process of its own, with one BLAS thread.

    Parameters
    ----------
    memory_gb : float, optional
        Memory that client state may take on its node; see `state_bytes`.
    neighbours : int
        Client actors on a node, itself included, which share that memory.
    """

    def __init__(self, memory_gb: float | None = None, neighbours: int = 1) -> None:
        threadpool_limits(1)
        end_with_parent()
        self.host = Host(state_bytes(memory_gb) // neighbours)

    def ready(self) -> int:
        """Return the process id."""
        return os.getpid()

    def open(self, key: str, owned: Sequence[Class], stored: Sequence[Any]) -> None:
        """Begin a run; what it needs comes from the object store, shared without copies.

        Parameters
        ----------
        key : str
            Of the run.
        owned : sequence of (residue, modulus)
            Residue classes of the ids of the clients that live here.
        stored : sequence of object references
            The setup, and the tables that its views travel without, in the order of their names
            there.
        """
        setup, *tables = ray.get(list(stored))
        named = dict(zip(setup.views.tables, tables, strict=True))
        self.host.open(key, setup.with_tables(named), owned)

    def restore(self, key: str, rows: StateRows) -> Refusal | None:
        """Take the state of some clients that live here, from a checkpoint."""
        return _or_refusal(lambda: self.host.restore(key, rows))

    def exchange(self, packed: bytes, stored: Sequence[Any] = ()) -> Answer | bytes:
        """Answer an Ask for the clients that live here, pickled where the answer is small.

        Parameters
        ----------
        packed : bytes
            Pickled (key, request, send); see `unpacked`.
        stored : sequence of object references
            One, of large broadcast arrays, where these are in the object store.
        """
        return small_packed(self._answer(packed, stored))

    def timed(self, packed: bytes, stored: Sequence[Any] = ()) -> Answer | bytes:
        """Answer an Ask as `exchange` does, and say how long that took."""
        begun = time.perf_counter()
        answer = self._answer(packed, stored)
        if isinstance(answer, Partial):
            answer = replace(answer, seconds=(time.perf_counter() - begun,))
        return small_packed(answer)

    def _answer(self, packed: bytes, stored: Sequence[Any]) -> Answer:
        key, request, send = unpacked(packed, stored)
        return _or_refusal(lambda: self.host.exchange(key, request, send, Kept()))

    def work_ahead(self, packed: bytes, stored: Sequence[Any] = ()) -> Answer:
        """Run client halves ahead of the Ask that wants their uploads; see `exchange`."""
        key, request, send = unpacked(packed, stored)
        return _or_refusal(lambda: self.host.work_ahead(key, request, send, Kept()))

    def snapshot(self, key: str, most: int, fewest: int) -> tuple[StateRows, bool] | Refusal:
        """Return client state that changed since it was last returned; see `Host.snapshot`."""
        return _or_refusal(lambda: self.host.snapshot(key, most, fewest))

    def close(self, key: str) -> None:
        """Forget a run."""
        self.host.close(key)


def unpacked(packed: bytes, stored: Sequence[Any]) -> tuple[str, Request, Mapping[str, Array]]:
    """Return the key of a run, a request, and what its clients download.

    Parameters
    ----------
    packed : bytes
        Pickled (key, request, send).
    stored : sequence of object references
        One, which takes the place of `send`, or none.
    """
    key, request, send = pickle.loads(packed)
    return key, request, ray.get(stored[0]) if stored else send


def _or_refusal(call: Callable[[], Answered]) -> Answered | Refusal:
    try:
        return call()
    except (UnknownRun, ScratchError, NotKept) as error:
        return error


def small_packed(answer: Answer) -> Answer | bytes:
    """Return an answer, pickled if it is small."""
    return answer if _bytes(answer) > _SMALL else pickle.dumps(answer, PROTOCOL)


def _bytes(answer: Answer) -> int:
    """Return the bytes of the arrays in an answer."""
    if not isinstance(answer, Partial):
        return 0
    sums = [rows for _, _, branch in answer.branches for rows in branch.values()]
    return sum(rows.nbytes for rows in (*sums, *answer.each.values()))
