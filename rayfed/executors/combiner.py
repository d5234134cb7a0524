"""The combiner of a node: to a driver it is one host with the clients of all actors of the node."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import ray

from rayfed.clients.host import NotKept, UnknownRun
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.scratch import ScratchError
from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array
from rayfed.core.threads import keep_one_thread
from rayfed.core.tree import Class
from rayfed.executors.base import HostLost, combined
from rayfed.executors.orphan import end_with_parent
from rayfed.executors.ray_host import Method, listening, small_packed, unpacked
from rayfed.executors.ray_pool import Pool, RayExecutor
from rayfed.executors.wire import Address

AT_ONCE = 16
"""Calls that a combiner takes at once: a run must not wait for the actors that another uses."""
Answered = TypeVar("Answered")
Refusal: TypeAlias = UnknownRun | ScratchError | NotKept | HostLost


@dataclass
class _Run:
    """A run at a node: who calls its actors for it, one thing at a time."""

    executor: RayExecutor
    alone: threading.Lock = field(default_factory=threading.Lock)
    snapshot: Iterator[tuple[StateRows, bool]] = iter(())


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
        keep_one_thread()
        end_with_parent()
        self._combine(pickle.loads(actors), clients)

    def _combine(self, actors: Sequence[Any], clients: int) -> None:
        self.pool, self.clients = Pool(actors, [1] * len(actors)), clients
        self.runs: dict[str, _Run] = {}

    def ready(self) -> int:
        """Return the process id, once all actors have started."""
        RayExecutor(self.pool, self.clients, {}).wait_for_all()
        return os.getpid()

    def listen(self, node: str) -> Address | None:
        """Wait for a driver to connect, which may then send messages without Ray."""
        return listening(node, self.answer, threading.Lock())

    def open(self, key: str, owned: Sequence[Class], stored: Sequence[Any]) -> Refusal | None:
        """Begin a run; see `HostActor.open`. Waits for what is asked of it before."""
        self.close(key)

        def begin() -> None:
            run = _Run(RayExecutor(self.pool, self.clients, {}))
            stateless = not ray.get(stored[0]).initial
            run.executor.begin(key, owned, stored, stateless=stateless)
            self.runs[key] = run

        return _or_refusal(begin)

    def restore(self, key: str, rows: StateRows) -> Refusal | None:
        """Take the state of some clients of this node, from a checkpoint."""
        return self._with(key, lambda run: run.executor.restore(key, rows))

    def exchange(self, packed: bytes, stored: Sequence[Any] = ()) -> Any:
        """Answer an Ask for the clients of this node; see `HostActor.exchange`."""
        return small_packed(self.answer("exchange", *unpacked(packed, stored), stored))

    def timed(self, packed: bytes, stored: Sequence[Any] = ()) -> Any:
        """Answer an Ask as `exchange` does, and say how long each actor took."""
        return small_packed(self.answer("timed", *unpacked(packed, stored), stored))

    def work_ahead(self, packed: bytes, stored: Sequence[Any] = ()) -> Any:
        """Let actors run client functions ahead of the Ask that wants them; do not wait."""
        return self.answer("work_ahead", *unpacked(packed, stored), stored)

    def answer(
        self,
        method: Method,
        key: str,
        request: Request,
        send: Mapping[str, Array],
        stored: Sequence[Any] = (),
    ) -> Partial | Failure | Refusal:
        """Answer a message; `stored` holds a reference of `send`, if it is in the object store."""

        def answer(run: _Run) -> Partial | Failure | NotKept:
            if method == "work_ahead":
                run.executor.prepare(key, request, send)
                run.executor.begin_prepared(key)
                return Partial([], {})
            timed = method == "timed"
            return _asked(run.executor, key, request, send, timed=timed, stored=stored)

        return self._with(key, answer)

    def snapshot(self, key: str, most: int, fewest: int) -> tuple[StateRows, bool] | Refusal:
        """Return client state that changed; see `Host.snapshot`.

        A snapshot begins with the call for no client at least.
        """

        def piece(run: _Run) -> tuple[StateRows, bool]:
            if fewest == 0:
                run.snapshot = run.executor.pieces(key, most)
            return next(run.snapshot)

        return self._with(key, piece)

    def close(self, key: str) -> None:
        """Forget a run."""
        run = self.runs.pop(key, None)
        if run is not None:
            with run.alone:
                run.executor.close(key)

    def _with(self, key: str, call: Callable[[_Run], Answered]) -> Answered | Refusal:
        """Do something with a run while nothing else is done with it."""
        run = self.runs.get(key)
        if run is None:
            return UnknownRun(key)
        with run.alone:
            return _or_refusal(lambda: call(run))


def _asked(
    executor: RayExecutor,
    key: str,
    request: Request,
    send: Mapping[str, Array],
    *,
    timed: bool,
    stored: Sequence[Any],
) -> Partial | Failure | NotKept:
    """Return what the actors of a node answer, as one host would."""
    parts, answers, earlier = executor.ask(key, request, send, timed=timed, stored=stored)
    if any(isinstance(answer, NotKept) for answer in answers):
        return NotKept()  # the driver has the models of what was to be computed ahead
    within = executor.run(key).layout.within if request.classes is None else request.classes
    indexed = [(part.index, answer) for part, answer in zip(parts, answers, strict=True)]
    return combined(request, indexed, within, earlier)


def _or_refusal(call: Callable[[], Answered]) -> Answered | Refusal:
    """Return an error that the driver acts on as a value: Ray would wrap it."""
    try:
        return call()
    except (UnknownRun, ScratchError, NotKept, HostLost) as error:
        return error
