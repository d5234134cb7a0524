"""The pool of hosts of a driver: client actors, or combiners of a node's actors."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ray

from rayfed.clients.host import UnknownRun
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import PIECE, StateRows
from rayfed.core.arrays import Array, Ints
from rayfed.core.tree import EVERY, Class
from rayfed.executors.base import Gathered, gather, merged, share
from rayfed.executors.calls import LOST, Calls, reason_of
from rayfed.executors.layout import OUTSIDE, HostRequest, Layout, needed
from rayfed.executors.profile import Profile
from rayfed.executors.ray_host import Method, Opened, RayHost

_RESTART_S = 600.0  # the rounds of other runs, for which an answer may wait, included
_LOOK_S = 1.0  # between looks at a pool that was offered, while hosts start


@dataclass(frozen=True)
class Pool:
    """Hosts of clients.

    Parameters
    ----------
    actors : sequence of actor handles
        Of `HostActor`, or of `Combiner`, which answers as one.
    sizes : sequence of int
        Number of client actors of each.
    version : int
        Later pools of a study have larger ones.
    """

    actors: Sequence[Any]
    sizes: Sequence[int]
    version: int = 0


@dataclass
class _Run:
    """A run that was opened.

    Parameters
    ----------
    key : Opened
        For its hosts.
    layout : Layout
        Its clients' hosts.
    stateless : bool
        Whether they keep no state.
    """

    key: Opened
    layout: Layout
    stateless: bool


class RayExecutor:
    """The executor that a driver uses: calls the hosts of a pool.

    Requests go to actors of its own node by wire, to others by Ray, as does all else.

    Parameters
    ----------
    pool : Pool
    clients : int
        Number N of clients.
    tables : mapping of str to object reference
        The tables of the study in the object store, by name.
    log : callable
        Is given every line that client functions printed.
    own : RayHost, optional
        A host in this process, which takes part as a client actor does.
    """

    def __init__(
        self,
        pool: Pool,
        clients: int,
        tables: Mapping[str, Any],
        log: Callable[[str], None] = lambda line: None,
        own: RayHost | None = None,
    ) -> None:
        self.clients, self.tables, self.log, self.own = clients, dict(tables), log, own
        self.offered: Pool | None = None
        self.runs: dict[str, _Run] = {}
        self.profiled: Profile | None = None
        self._use(pool)

    def _use(self, pool: Pool) -> None:
        self.pool = pool
        self.calls = Calls(pool.actors, self.own)
        self.sizes = [*pool.sizes, *([] if self.own is None else [1])]

    def offer(self, pool: Pool) -> None:
        """Use other hosts for runs that are opened from now on; called from any thread."""
        self.offered = pool

    @property
    def moves(self) -> bool:
        """Whether other hosts were offered; see `Executor`."""
        return self.offered is not None

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run on every host, or begin it again; waits for hosts that are starting."""
        self.wait_for_all()
        opened = Opened(key, secrets.token_hex(8))
        self.begin(opened, EVERY, self._stored(setup), stateless=not setup.initial)
        for rows in pieces:
            self.restore(key, rows)

    def begin(
        self, key: Opened, within: Sequence[Class], stored: Sequence[Any], *, stateless: bool
    ) -> None:
        """Begin a run with the clients of some residue classes; see `HostActor.open`."""
        layout = Layout.even(self.clients, self.sizes, within)
        run = self.runs[key.run] = _Run(key, layout, stateless=stateless)
        self.calls.connect()
        self.calls.get(
            [
                self.calls.call(host, "open", key, owned, list(stored))
                for host, owned in enumerate(run.layout.owned)
            ]
        )

    def change(self, key: str, setup: Setup) -> None:
        """Continue a run with another setup; clients keep their rows and their state."""
        self.pass_on(key, self._stored(setup))

    def pass_on(self, key: str, stored: Sequence[Any]) -> None:
        """Pass another setup of a run on to every host; see `HostActor.change`."""
        at = self.run(key).key
        self.calls.get([self.calls.call(h, "change", at, list(stored)) for h in self.calls.hosts])

    def _stored(self, setup: Setup) -> list[Any]:
        """Put a setup into the object store and return it with the tables of its views there."""
        return [ray.put(setup), *(self.tables[name] for name in setup.views.tables)]

    def restore(self, key: str, rows: StateRows) -> None:
        """Take the state of some clients from a checkpoint."""
        run = self.run(key)
        hosts = run.layout.hosts(rows["ids"])
        self.calls.get(
            [
                self.calls.call(h, "restore", run.key, share(rows, hosts == h))
                for h in np.unique(hosts).tolist()
            ]
        )

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client functions of an Ask on the hosts of the clients."""
        return gather(request, self._answers(key, request, send))

    def _answers(
        self, key: str, request: Request, send: Mapping[str, Array]
    ) -> list[tuple[Array | None, Partial | Failure]]:
        """Return the answer of each host, with the indices of its clients."""
        parts = self.ask(key, request, send, timed=self.profiled is not None)
        answers = [answer for _, answer in parts]
        if self.profiled is not None:
            taken = [s for a in answers if isinstance(a, Partial) for s in a.seconds]
            self.profiled.computed(taken)
        for answer in answers:
            for line in answer.printed:
                self.log(line)
        return parts

    def ask(
        self,
        key: str,
        request: Request,
        send: Mapping[str, Array],
        *,
        timed: bool = False,
        stored: Sequence[Any] = (),
    ) -> list[tuple[Array | None, Partial | Failure]]:
        """Send a request to the hosts of its clients, and return the answers.

        Parameters
        ----------
        timed : bool
            Whether hosts report their computing times.
        stored : sequence of object references
            One, of `send`, if it is in the object store already.

        Returns
        -------
        list of (index, Partial or Failure)
            The indices of each host's clients, and its answer.
        """
        run = self.run(key)
        parts = run.layout.split(request, movable=run.stateless)
        method: Method = "timed" if timed else "exchange"
        if request.mixing is None:
            messages = [
                (part.host, part.request, send)  # its rows of the stacks are not copied twice
                if self.calls.is_own(part.host)
                else (part.host, *needed(part.request, send))
                for part in parts
            ]
            in_store = {id(send): stored[0]} if stored else {}
            answers = self.calls.exchange(method, run.key, messages, in_store)
        else:
            pieces = self._pieces(run.key, run.layout, parts, send)
            mixing = [(p.host, p.request, rows) for p, rows in zip(parts, pieces, strict=True)]
            answers = self.calls.mix(method, run.key, mixing)
        return [(part.index, answer) for part, answer in zip(parts, answers, strict=True)]

    def _pieces(
        self, key: Opened, layout: Layout, parts: Sequence[HostRequest], send: Mapping[str, Array]
    ) -> list[list[Any]]:
        """Return the messages that each host needs from each other one, by reference.

        Hosts of this node read one another's memory where they can. `send` are messages from
        beyond all hosts here, of which each gets what it needs.
        """
        pieces: list[list[Any]] = [[] for _ in parts]
        wanted = [part.request.senders for part in parts]
        hosts = [layout.hosts(ids) for ids in wanted]
        needed = [
            (host, part.host, of_host, found)
            # the own host comes last: it copies while others do
            for host in (*self.calls.hosts, OUTSIDE)
            for part, ids, at, found in zip(parts, wanted, hosts, pieces, strict=True)
            if host != part.host and len(of_host := ids[at == host])
        ]
        near = self.calls.near
        sharing = dict.fromkeys(host for host, to, *_ in needed if near(host) and near(to))
        shared = self.calls.shared(key, list(sharing))
        for host, to, ids, found in needed:
            if host == OUTSIDE:
                found.append(share(send, send["ids"].searchsorted(ids)))
            elif host in shared and near(to):
                found.append(replace(shared[host], wanted=ids))
            else:
                found.append(self.calls.outgoing(host, key, ids))
        return pieces

    def outgoing(self, key: str, ids: Ints) -> StateRows:
        """Return messages of nodes that live here, ids ascending; see `Host.outgoing`."""
        run = self.run(key)
        hosts = run.layout.hosts(ids)
        calls = [self.calls.call(h, "outgoing", run.key, ids[hosts == h]) for h in np.unique(hosts)]
        return merged(self.calls.get(calls))

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield the client state that changed since the last snapshot, in pieces."""
        for rows, _ in self.pieces(key, PIECE):
            yield rows

    def pieces(self, key: str, most: int) -> Iterator[tuple[StateRows, bool]]:
        """Yield client state that changed, piece by piece, and whether there is more.

        All hosts are asked at once for what makes `most` bytes together, then one after the other.
        """
        call, hosts, at = self.calls.call, self.calls.hosts, self.run(key).key
        each = most // len(hosts)
        first = self.calls.get([call(host, "snapshot", at, each, 0) for host in hosts])
        waiting = [host for host, (_, more) in zip(hosts, first, strict=True) if more]
        rows = merged([rows for rows, _ in first])
        del first
        yield rows, bool(waiting)
        while waiting:
            ((rows, more),) = self.calls.get([call(waiting[0], "snapshot", at, PIECE, 1)])
            if not more:
                waiting.pop(0)
            yield rows, bool(waiting)

    def close(self, key: str) -> None:
        """Forget a run."""
        run = self.runs.pop(key, None)
        if run is not None:
            for actor in self.pool.actors:
                actor.close.remote(run.key)
            if self.own is not None:
                self.own.close(run.key)
        if not self.runs:
            self.calls.hang_up()

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        self.profiled = profile
        profile.watch(self, "exchange", "adding up")
        profile.watch(self, "_answers", "sending")

    def run(self, key: str) -> _Run:
        """Return a run.

        Raises
        ------
        UnknownRun
            If it was not opened here.
        """
        if key not in self.runs:
            raise UnknownRun(key)
        return self.runs[key]

    def wait_for_all(self) -> None:
        """Wait until every host answers, of the pool that was offered last.

        Ray may be starting some of them anew.

        Raises
        ------
        ConnectionError
            If one does not come back; a resume may find it.
        """
        end, why = time.monotonic() + _RESTART_S, "no node has any"
        while time.monotonic() < end:
            if self.offered is not None:
                offered, self.offered = self.offered, None
                self.calls.hang_up()
                self._use(offered)
            if not self.sizes:
                time.sleep(0.2)
                continue
            waiting = [actor.ready.remote() for actor in self.pool.actors]
            try:
                while waiting and self.offered is None and time.monotonic() < end:
                    done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_LOOK_S)
                    ray.get(done)
                why = "no answer"
            except LOST as error:
                why = reason_of(error)
                time.sleep(0.2)
                continue
            if not waiting:
                return
        raise ConnectionError(f"client actors did not come back in {_RESTART_S:g} s: {why}")
