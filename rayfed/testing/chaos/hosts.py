"""Executors for cases: clients on several hosts, hosts that are lost, and a record of traffic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rayfed.clients.host import Host
from rayfed.clients.request import Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array
from rayfed.core.classes import balanced, classes
from rayfed.executors.base import Executor, Gathered, HostLost, gather, share
from rayfed.executors.profile import Profile


@dataclass(frozen=True)
class Traffic:
    """What one Ask sent to each client, in bytes, and the counts of numbers that came back."""

    down: int
    up: Mapping[str, int]


@dataclass
class Watched:
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

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask."""
        if request.owner in ("algorithm", "selection"):
            down = sum(np.asarray(value).nbytes for value in send.values())
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


class SeveralHosts:
    """Hosts in this process that share the clients as client actors do; state is in scratch files.

    Parameters
    ----------
    tables : mapping of str to Rows
        The tables of the study, by name.
    clients : int
        Number N of clients.
    hosts : int
        Number of hosts, at most N.
    """

    def __init__(self, tables: Mapping[str, Any], clients: int, hosts: int) -> None:
        self.tables = tables
        self.owned = classes(clients, hosts)
        self.hosts = [Host(memory=0) for _ in self.owned]
        self.stateless: set[str] = set()

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run on every host, or begin it again from the client state of a checkpoint."""
        self.stateless |= set() if setup.initial else {key}
        for host, owned in zip(self.hosts, self.owned, strict=True):
            host.open(key, setup.with_tables(self.tables), owned)
        for rows in pieces:
            for host, owned in zip(self.hosts, self.owned, strict=True):
                host.restore(key, share(rows, _members(rows["ids"], owned)))

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask; clients without a state may be asked anywhere."""
        owned = self.owned
        if key in self.stateless:
            owned = balanced(request.ids, len(self.hosts))
        parts = []
        for host, of_host in zip(self.hosts, owned, strict=True):
            index = _members(request.ids, of_host)
            if len(index):
                parts.append((index, host.exchange(key, request.part(index, of_host), send)))
        return gather(request, parts)

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield client state that changed since the last snapshot, client by client."""
        for host in self.hosts:
            more = True
            while more:
                rows, more = host.snapshot(key, most=1)
                yield rows

    def close(self, key: str) -> None:
        """Forget a run."""
        for host in self.hosts:
            host.close(key)

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        profile.watch(self, "exchange", "computing", whole=True)


class LosingHosts:
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

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask, or raise `HostLost`."""
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


def _members(ids: Array, owned: list[tuple[int, int]]) -> Array:
    """Return the indices of the ids that belong to residue classes."""
    member = np.zeros(len(ids), dtype=np.bool_)
    for residue, modulus in owned:
        member |= ids % modulus == residue
    return np.flatnonzero(member)
