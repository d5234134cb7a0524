"""The combiner of a node: to a driver it is one host with the clients of all actors of the node."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import ray
from threadpoolctl import threadpool_limits

from rayfed.clients.host import UnknownRun
from rayfed.clients.request import Failure, Partial
from rayfed.clients.scratch import ScratchError
from rayfed.clients.store import StateRows
from rayfed.clients.task import NotKept
from rayfed.core.tree import Class
from rayfed.executors.base import HostLost, combined
from rayfed.executors.orphan import end_with_parent
from rayfed.executors.ray_host import small_packed, unpacked
from rayfed.executors.ray_pool import Pool, RayExecutor

AT_ONCE = 16
"""Calls that a combiner takes at once: a run must not wait for the actors that another uses."""
Refusal: TypeAlias = UnknownRun | ScratchError | NotKept | HostLost


class Combiner:
    """Passes requests on to the client actors of its node, and joins the branches of their sums.

    It has the methods of a `HostActor`. A model comes to the node once, and one vector goes back
    where the residue classes of the node allow it. Tables pass through it as object references.

    Parameters
    ----------
    actors : bytes
        Pickled handles of each `HostActor` on this node.
    clients : int
        Number N of clients of the study.
    """

    def __init__(self, actors: bytes, clients: int) -> None:
        threadpool_limits(1)
        end_with_parent()
        handles = pickle.loads(actors)
        self.executor = RayExecutor(Pool(handles, [1] * len(handles)), clients, {})
        self.snapshots: dict[str, Iterator[tuple[StateRows, bool]]] = {}

    def ready(self) -> int:
        """Return the process id, once all actors have started."""
        self.executor.wait_for_all()
        return os.getpid()

    def open(self, key: str, owned: Sequence[Class], stored: Sequence[Any]) -> Any:
        """Begin a run; see `HostActor.open`."""

        def begin() -> None:
            stateless = not ray.get(stored[0]).initial
            self.executor.begin(key, owned, stored, stateless=stateless)

        return _or_refusal(begin)

    def restore(self, key: str, rows: StateRows) -> Any:
        """Take the state of some clients of this node, from a checkpoint."""
        return _or_refusal(lambda: self.executor.restore(key, rows))

    def exchange(self, packed: bytes, stored: Sequence[Any] = ()) -> Any:
        """Answer an Ask for the clients of this node; see `HostActor.exchange`."""
        return small_packed(_or_refusal(lambda: self._answer(packed, stored, timed=False)))

    def timed(self, packed: bytes, stored: Sequence[Any] = ()) -> Any:
        """Answer an Ask as `exchange` does, and say how long each actor took."""
        return small_packed(_or_refusal(lambda: self._answer(packed, stored, timed=True)))

    def _answer(
        self, packed: bytes, stored: Sequence[Any], *, timed: bool
    ) -> Partial | Failure | NotKept:
        key, request, send = unpacked(packed, stored)
        parts, answers, earlier = self.executor.ask(key, request, send, timed=timed, stored=stored)
        if any(isinstance(answer, NotKept) for answer in answers):
            return NotKept()  # the driver has what was to be computed ahead, this combiner has not
        within = self.executor.run(key).layout.within
        within = within if request.classes is None else request.classes
        indexed = [(part.index, answer) for part, answer in zip(parts, answers, strict=True)]
        return combined(request, indexed, within, earlier)

    def work_ahead(self, packed: bytes, stored: Sequence[Any] = ()) -> Any:
        """Let actors run client halves ahead of the Ask that wants them; does not wait for them."""

        def begin() -> Partial:
            key, request, send = unpacked(packed, stored)
            self.executor.prepare(key, request, send)
            self.executor.begin_prepared(key)
            return Partial([], {})

        return _or_refusal(begin)

    def snapshot(self, key: str, most: int, fewest: int) -> Any:
        """Return client state that changed; see `Host.snapshot`.

        A snapshot begins with the call for no client at least.
        """

        def piece() -> tuple[StateRows, bool]:
            self.executor.run(key)
            if fewest == 0:
                self.snapshots[key] = self.executor.pieces(key, most)
            return next(self.snapshots[key])

        return _or_refusal(piece)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.snapshots.pop(key, None)
        self.executor.close(key)


def _or_refusal(call: Callable[[], Any]) -> Any:
    """Return an error that the driver acts on as a value: Ray would wrap it."""
    try:
        return call()
    except (UnknownRun, ScratchError, NotKept, HostLost) as error:
        return error
