"""How a driver calls the hosts of its clients: client actors, or combiners of a node's actors."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import ray
from ray.exceptions import ActorUnschedulableError, RayActorError

from rayfed.clients.host import UnknownRun
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.scratch import ScratchError
from rayfed.clients.setup import Setup
from rayfed.clients.store import PIECE, StateRows
from rayfed.clients.task import NotKept
from rayfed.core.arrays import Array
from rayfed.core.tree import EVERY, Class
from rayfed.executors.ahead import Ahead, Send, needed, numbers
from rayfed.executors.base import Gathered, HostLost, gather, merged, share
from rayfed.executors.layout import Layout, Part
from rayfed.executors.profile import Profile
from rayfed.executors.ray_host import BY_VALUE, PROTOCOL

_LOST = (RayActorError, ActorUnschedulableError)  # the latter once its node is known to be gone
_RESTART_S = 600.0  # the rounds of other runs, for which an answer may wait, included
_LOOK_S = 1.0  # between looks at a pool that was offered, while hosts start


@dataclass(frozen=True)
class Pool:
    """Hosts of clients.

    Parameters
    ----------
    hosts : sequence of actor handles
        Of `HostActor`, or of `Combiner`, which answers as one.
    sizes : sequence of int
        How many client actors each stands for.
    works_ahead : bool
        Whether there are more processors than client actors, so that these may compute ahead.
    """

    hosts: Sequence[Any]
    sizes: Sequence[int]
    works_ahead: bool = False


@dataclass
class _Run:
    """What is known of a run: who has its clients, whether they keep state, work ahead."""

    layout: Layout
    stateless: bool
    ahead: Ahead = field(default_factory=Ahead)


class RayExecutor:
    """The executor that a driver uses: calls the hosts of a pool.

    Parameters
    ----------
    pool : Pool
    clients : int
        Number N of clients.
    tables : mapping of str to object reference
        The tables of the study in the object store, by name.
    tell : callable
        Is given every line that client halves printed.
    """

    def __init__(
        self,
        pool: Pool,
        clients: int,
        tables: Mapping[str, Any],
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.clients, self.tables, self.tell = clients, dict(tables), tell
        self.offered: Pool | None = None
        self.runs: dict[str, _Run] = {}
        self.profiled: Profile | None = None
        self._use(pool)

    def _use(self, pool: Pool) -> None:
        self.pool, self.works_ahead = pool, pool.works_ahead

    def offer(self, pool: Pool) -> None:
        """Use other hosts for runs that are opened from now on; called from any thread."""
        self.offered = pool

    @property
    def moves(self) -> bool:
        """Whether other hosts were offered; see `Moves`."""
        return self.offered is not None

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run on every host, or begin it again; waits for hosts that are starting."""
        stored = [ray.put(setup), *(self.tables[name] for name in setup.views.tables)]
        self.wait_for_all()
        self.begin(key, EVERY, stored, stateless=not setup.initial)
        for rows in pieces:
            self.restore(key, rows)

    def begin(
        self, key: str, within: Sequence[Class], stored: Sequence[Any], *, stateless: bool
    ) -> None:
        """Begin a run with the clients of some residue classes; see `HostActor.open`."""
        run = self.runs[key] = _Run(
            Layout.even(self.clients, self.pool.sizes, within), stateless=stateless
        )
        _get(
            [
                host.open.remote(key, owned, list(stored))
                for host, owned in zip(self.pool.hosts, run.layout.owned, strict=True)
            ]
        )

    def restore(self, key: str, rows: StateRows) -> None:
        """Take the state of some clients from a checkpoint."""
        hosts = self.run(key).layout.hosts(rows["ids"])
        _get(
            [
                self.pool.hosts[h].restore.remote(key, share(rows, hosts == h))
                for h in np.unique(hosts).tolist()
            ]
        )

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask on the hosts of the clients."""
        return gather(request, self._answers(key, request, send))

    def _answers(
        self, key: str, request: Request, send: Mapping[str, Array]
    ) -> list[tuple[Array | None, Partial | Failure]]:
        """Return what each host answered, with the indices of its clients."""
        timed = self.profiled is not None
        parts, answers, earlier = self.ask(key, request, send, timed=timed)
        if any(isinstance(answer, NotKept) for answer in answers):
            assert request.serials is not None
            anew = replace(request, serials=np.zeros_like(request.serials))
            parts, answers, _ = self.ask(key, anew, send, timed=timed)
        if self.profiled is not None:
            taken = [s for a in answers if isinstance(a, Partial) for s in a.seconds]
            self.profiled.computed(taken)
        for line in (*earlier, *(line for answer in answers for line in answer.printed)):
            self.tell(line)
        return [(part.index, answer) for part, answer in zip(parts, answers, strict=True)]

    def ask(
        self,
        key: str,
        request: Request,
        send: Mapping[str, Array],
        *,
        timed: bool = False,
        stored: Sequence[Any] = (),
    ) -> tuple[list[Part], list[Any], list[str]]:
        """Send a request to the hosts of its clients, and let these begin what was prepared.

        Parameters
        ----------
        timed : bool
            Whether hosts say how long they computed.
        stored : sequence of object references
            One, of `send`, if it is in the object store already.

        Returns
        -------
        parts : list of Part
        answers : list of Partial, Failure or NotKept
            Of each part.
        printed : list of str
            What client halves printed that had been prepared earlier.
        """
        run = self.run(key)
        ahead = run.ahead
        parts = self._split(run, request)
        sent = [(part.host, *needed(part.request, send, ahead.known)) for part in parts]
        in_store = {id(send): stored[0]} if stored else {}
        refs = self._call("timed" if timed else "exchange", key, sent, in_store)
        begun, ahead.begun = ahead.begun, []
        self.begin_prepared(key)
        answers, earlier = _get(refs), _get(begun)  # what began earlier is done by now
        ahead.known -= numbers(request)
        return parts, answers, [line for answer in earlier for line in answer.printed]

    def prepare(self, key: str, request: Request, send: Mapping[str, Array]) -> None:
        """Let hosts work ahead after the next `exchange`; see `WorksAhead`."""
        self.run(key).ahead.prepared.append((request, send))

    def begin_prepared(self, key: str) -> None:
        """Let hosts begin what was prepared, without waiting for them."""
        run = self.run(key)
        prepared, run.ahead.prepared = run.ahead.prepared, []
        for request, send in prepared:
            parts = [(part.host, part.request, send) for part in self._split(run, request)]
            run.ahead.begun += self._call("work_ahead", key, parts, {})
            run.ahead.known |= numbers(request)

    def _split(self, run: _Run, request: Request) -> list[Part]:
        movable = run.stateless and request.serials is None
        return run.layout.split(request, movable=movable)

    def _call(
        self,
        method: Literal["exchange", "timed", "work_ahead"],
        key: str,
        parts: Sequence[tuple[int, Request, Send]],
        in_store: dict[int, Any],
    ) -> list[Any]:
        """Send requests to hosts with what their clients download; return object references.

        Parameters
        ----------
        method : str
            Of the host.
        parts : sequence of (host, request, send)
        in_store : dict of int to object reference
            What is in the object store already, by its id in this process.
        """
        large = sum(v.nbytes for _, _, send in parts for v in send.values()) > BY_VALUE
        refs = []
        for host, part, send in parts:
            beside: tuple[Any, ...] = ()
            if large and send:
                if id(send) not in in_store:
                    in_store[id(send)] = ray.put(send)
                beside = ([in_store[id(send)]],)
            packed = pickle.dumps((key, part, None if beside else send), PROTOCOL)
            refs.append(getattr(self.pool.hosts[host], method).remote(packed, *beside))
        return refs

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield the client state that changed since the last snapshot, in pieces."""
        for rows, _ in self.pieces(key, PIECE):
            yield rows

    def pieces(self, key: str, most: int) -> Iterator[tuple[StateRows, bool]]:
        """Yield client state that changed, piece by piece, and whether there is more.

        All hosts are asked at once for what makes `most` bytes together, then one after the other.
        """
        hosts = self.pool.hosts
        first = _get([host.snapshot.remote(key, most // len(hosts), 0) for host in hosts])
        waiting = [host for host, (_, more) in zip(hosts, first, strict=True) if more]
        rows = merged([rows for rows, _ in first])
        del first
        yield rows, bool(waiting)
        while waiting:
            ((rows, more),) = _get([waiting[0].snapshot.remote(key, PIECE, 1)])
            if not more:
                waiting.pop(0)
            yield rows, bool(waiting)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.runs.pop(key, None)
        for host in self.pool.hosts:
            host.close.remote(key)

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        self.profiled = profile
        profile.watch(self, "exchange", "adding up")
        profile.watch(self, "_answers", "sending")

    def run(self, key: str) -> _Run:
        """Return what is known of a run.

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
        end, why = time.monotonic() + _RESTART_S, "no answer"
        while time.monotonic() < end:
            if self.offered is not None:
                offered, self.offered = self.offered, None
                self._use(offered)
            waiting = [host.ready.remote() for host in self.pool.hosts]
            try:
                while waiting and self.offered is None and time.monotonic() < end:
                    done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_LOOK_S)
                    ray.get(done)
            except _LOST as error:
                why = first_line(error)
                time.sleep(0.2)
                continue
            if not waiting:
                return
        raise ConnectionError(f"client actors did not come back in {_RESTART_S:g} s: {why}")


def _get(refs: Sequence[Any]) -> list[Any]:
    """Get the results of calls to hosts.

    Raises
    ------
    HostLost
        If a host died, or has come back empty.
    ScratchError
        If client state fits neither the memory nor the disk of a host.
    """
    try:
        answers: list[Any] = ray.get(list(refs))
    except _LOST as error:
        raise HostLost(f"a client actor was lost ({first_line(error)})") from error
    results = [pickle.loads(item) if isinstance(item, bytes) else item for item in answers]
    for result in results:
        if isinstance(result, UnknownRun):
            raise HostLost("a client actor was started anew and must be restored")
        if isinstance(result, (HostLost, ScratchError)):
            raise result
    return results


def first_line(error: Exception) -> str:
    """Return the first line of an error."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason")
