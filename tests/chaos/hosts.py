"""Executors for cases: clients on several nodes, which change, and a record of traffic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rayfed.clients.request import Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array
from rayfed.executors.base import Executor, Gathered, HostLost
from rayfed.executors.profile import Profile
from rayfed.executors.ray_pool import RayExecutor
from tests.fakes.cluster import Node, pool, stored


@dataclass(frozen=True)
class Traffic:
    """What one Ask sent to each client, in bytes, and the counts of numbers that came back."""

    down: int
    up: Mapping[str, int]


@dataclass
class Watched(Executor):
    """Passes everything on to another executor and notes what every Ask of a run sends.

    Parameters
    ----------
    executor : Executor
    traffic : dict
        By run, round and number of the Ask.
    """

    executor: Executor
    traffic: dict[tuple[str, int, int], Traffic] = field(default_factory=dict)

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run."""
        self.executor.open(key, setup, pieces)

    def change(self, key: str, setup: Setup) -> None:
        """Continue a run with another setup."""
        self.executor.change(key, setup)

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client functions of an Ask."""
        if request.owner in ("algorithm", "selection"):
            down = sum(np.asarray(value).nbytes for value in send.values())
            if request.rows is not None:  # a stack of versions, of which each client gets one
                down //= len(next(iter(send.values())))
            self.traffic[key, request.round, request.ask] = Traffic(down, request.up)
        return self.executor.exchange(key, request, send)

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield client state that changed since the last snapshot."""
        return self.executor.snapshot(key)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.executor.close(key)

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        self.executor.profile(profile)


def divided(actors: int, clients: int) -> list[Node]:
    """Return up to three nodes with some actors in all; client state is in scratch files."""
    nodes = min(actors, 1 + actors % 3)
    sizes = [actors // nodes + (k < actors % nodes) for k in range(nodes)]
    return [Node(size, clients, memory=0) for size in sizes]


class ChangingCluster(RayExecutor):
    """Actors on nodes that come and go; some actors and combiners are started anew.

    Drivers are told of a node that has gone when its hosts do not answer, and of one that has come
    by `moves`, as on Ray. Everything is called at once, in this process; see `no_ray`.

    Parameters
    ----------
    tables : mapping of str to Rows
        The tables of the study, by name.
    clients : int
        Number N of clients.
    changes : mapping of int to (float, float)
        By the number of an exchange, from 1, what changes before it: two shares in [0, 1) that
        decide what, and where.
    """

    def __init__(
        self, tables: Mapping[str, Any], clients: int, changes: Mapping[int, tuple[float, float]]
    ) -> None:
        self.nodes = divided(min(3, clients), clients)
        super().__init__(pool(self.nodes), clients, stored(tables))
        self.changes, self.count = changes, 0

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client functions of an Ask, after what changes before it."""
        self.count += 1
        if self.count in self.changes:
            self._change(*self.changes[self.count])
        return super().exchange(key, request, send)

    def _change(self, what: float, where: float) -> None:
        node = self.nodes[int(where * len(self.nodes))]
        room = self.clients - sum(len(each.actors) for each in self.nodes)
        if what < 0.4 and room:
            self.nodes.append(Node(min(room, 1 + int(3 * where)), self.clients, memory=0))
        elif what < 0.8 and len(self.nodes) > 1:
            node.go()
            self.nodes.remove(node)
        else:
            node.restart(int(what * 7) % (len(node.actors) + 1))
            return
        self.offer(pool(self.nodes))


class LosingHosts(Executor):
    """Passes everything on to another executor; its host is lost at some exchanges.

    Parameters
    ----------
    executor : Executor
    lost_at : int
        Number of the exchange, from 1, before which the host is lost, with all it holds.
    """

    def __init__(self, executor: Executor, lost_at: int) -> None:
        self.executor, self.lost_at = executor, lost_at
        self.count = 0

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run."""
        self.executor.open(key, setup, pieces)

    def change(self, key: str, setup: Setup) -> None:
        """Continue a run with another setup."""
        self.executor.change(key, setup)

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client functions of an Ask, or raise `HostLost`."""
        self.count += 1
        if self.count == self.lost_at:
            self.executor.close(key)
            raise HostLost("a host was lost by chance")
        return self.executor.exchange(key, request, send)

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield client state that changed since the last snapshot."""
        return self.executor.snapshot(key)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.executor.close(key)

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        self.executor.profile(profile)
