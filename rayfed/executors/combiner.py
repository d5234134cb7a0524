"""The combiner of a node: to a driver it is one host with the clients of all actors of the node."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import ray

from rayfed.clients.host import UnknownRun
from rayfed.clients.request import Request
from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array, Ints
from rayfed.core.sources import NO_SOURCES, Sources
from rayfed.core.threads import own_process
from rayfed.core.tree import Class
from rayfed.executors.base import combined
from rayfed.executors.orphan import end_with_parent
from rayfed.executors.ray_host import (
    Actor,
    Answer,
    Answered,
    Method,
    Opened,
    Refusal,
    or_refusal,
)
from rayfed.executors.ray_pool import Pool, RayExecutor

AT_ONCE = 16
"""Calls that a combiner takes at once: a run must not wait for the actors that another uses."""


@dataclass
class _Run:
    """A run at a node as it was opened: the executor of its actors, for one call at a time."""

    key: Opened
    executor: RayExecutor
    lock: threading.Lock = field(default_factory=threading.Lock)
    snapshot: Iterator[tuple[StateRows, bool]] = iter(())


class Combiner(Actor):
    """Passes requests on to the client actors of its node, and joins the branches of their sums.

    It has the methods of a `HostActor`; runs do not wait for one another here. A model comes to the
    node once, and one vector goes back where the residue classes of the node allow it. Tables pass
    through it as object references.

    Parameters
    ----------
    actors : bytes
        Pickled handles of each `HostActor` on this node.
    clients : int
        Number N of clients of the study.
    sources : Sources
        Of the user's modules.
    """

    def __init__(self, actors: bytes, clients: int, sources: Sources = NO_SOURCES) -> None:
        own_process()
        end_with_parent()
        sources.install()
        self._combine(pickle.loads(actors), clients)

    def _combine(self, actors: Sequence[Any], clients: int) -> None:
        self.pool, self.clients = Pool(actors, [1] * len(actors)), clients
        self.lock = nullcontext()
        self.runs: dict[str, _Run] = {}

    def ready(self) -> int:
        """Return the process id, once all actors have started."""
        RayExecutor(self.pool, self.clients, {}).wait_for_all()
        return os.getpid()

    def open(self, key: Opened, owned: Sequence[Class], stored: Sequence[Any]) -> Refusal | None:
        """Begin a run; see `HostActor.open`."""

        def begin() -> None:
            run = _Run(key, RayExecutor(self.pool, self.clients, {}))
            stateless = not ray.get(stored[0]).initial
            run.executor.begin(key, owned, stored, stateless=stateless)
            self.runs[key.run] = run

        return or_refusal(begin)

    def change(self, key: Opened, stored: Sequence[Any]) -> Refusal | None:
        """Continue a run with another setup; see `HostActor.change`."""
        return self._with(key, lambda run: run.executor.pass_on(key.run, stored))

    def restore(self, key: Opened, rows: StateRows) -> Refusal | None:
        """Take the state of some clients of this node, from a checkpoint."""
        return self._with(key, lambda run: run.executor.restore(key.run, rows))

    def answer(
        self, method: Method, key: Opened, request: Request, send: Mapping[str, Array],
        stored: Sequence[Any] = (),
    ) -> Answer:  # fmt: skip
        """Answer a message as one host would; `stored` is as for `Actor.message`."""

        def answer(run: _Run) -> Answer:
            timed = method == "timed"
            parts = run.executor.ask(key.run, request, send, timed=timed, stored=stored)
            asked, all_classes = request.classes, run.executor.run(key.run).layout.within
            return combined(request, parts, all_classes if asked is None else asked)

        return self._with(key, answer)

    def outgoing(self, key: Opened, ids: Ints) -> StateRows | Refusal:
        """Return messages of nodes that live on this node, once for all hosts of another one."""
        return self._with(key, lambda run: run.executor.outgoing(key.run, ids))

    def snapshot(self, key: Opened, most: int, fewest: int) -> tuple[StateRows, bool] | Refusal:
        """Return client state that changed; see `Host.snapshot`.

        A snapshot begins with the call for no client at least.
        """

        def piece(run: _Run) -> tuple[StateRows, bool]:
            if fewest == 0:
                run.snapshot = run.executor.pieces(key.run, most)
            rows, more = next(run.snapshot)
            if not more:
                run.snapshot = iter(())  # else the last rows are kept until the next checkpoint
            return rows, more

        return self._with(key, piece)

    def close(self, key: Opened) -> None:
        """Forget a run, unless it was opened anew since."""
        run = self.runs.get(key.run)
        if run is not None and run.key == key:
            del self.runs[key.run]
            with run.lock:
                run.executor.close(key.run)

    def _with(self, key: Opened, call: Callable[[_Run], Answered]) -> Answered | Refusal:
        """Do something with a run while nothing else is done with it."""
        run = self.runs.get(key.run)
        if run is None or run.key != key:
            return UnknownRun(key.run)
        with run.lock:
            return or_refusal(lambda: call(run))
