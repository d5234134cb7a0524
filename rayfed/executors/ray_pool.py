"""The pool of client actors: who owns which client, and how a driver calls them."""

from __future__ import annotations

import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, RayActorError

from rayfed.clients.host import UnknownRun
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.scratch import ScratchError
from rayfed.clients.setup import Setup
from rayfed.clients.store import PIECE, StateRows
from rayfed.clients.task import NotKept
from rayfed.core.arrays import Array, Ints
from rayfed.core.tree import balanced
from rayfed.executors.ahead import Ahead, needed, numbers
from rayfed.executors.base import Gathered, HostLost, gather, merged, share
from rayfed.executors.profile import Profile
from rayfed.executors.ray_host import BY_VALUE, Method, this_node
from rayfed.executors.wire import PROTOCOL, Address, Lost, Reply, Wire, wait

Part: TypeAlias = tuple[int, Request, Mapping[str, Array]]
"""An actor, the request for its clients, and what they download."""

_RESTART_S = 600.0  # the rounds of other runs, for which an answer may wait, included
_BY_WIRE = 2**22  # bytes of arrays up to which a wire is faster than the object store
_UNEQUAL = 1.1  # load of the busiest actor over the mean, above which clients are dealt anew


@dataclass(frozen=True)
class Layout:
    """Which actor owns which client.

    Parameters
    ----------
    owned : list of lists of (residue, modulus)
        The classes of each actor.
    """

    owned: list[list[tuple[int, int]]]

    def owner(self) -> tuple[int, Ints]:
        """Return the finest modulus and the actor of each residue under it."""
        fine = max(modulus for classes in self.owned for _, modulus in classes)
        table = np.zeros(fine, dtype=np.int64)
        for actor, classes in enumerate(self.owned):
            for residue, modulus in classes:
                table[residue::modulus] = actor
        return fine, table


class RayExecutor:
    """The executor that a driver uses: calls the client actors of the pool.

    Requests go to actors of its own node by wire, to others by Ray, as does all else.

    Parameters
    ----------
    actors : list of actor handles
        The pool.
    layout : Layout
        Who owns which client.
    tables : mapping of str to object reference
        The tables of the study in the object store, by name.
    tell : callable
        Is given every line that client halves printed.
    works_ahead : bool
        Whether there are more processors than actors, so that these may compute ahead.
    """

    def __init__(
        self,
        actors: Sequence[Any],
        layout: Layout,
        tables: Mapping[str, Any],
        tell: Callable[[str], None] = lambda line: None,
        works_ahead: bool = False,
    ) -> None:
        self.actors, self.tables, self.tell = list(actors), dict(tables), tell
        self.wires: list[Wire | None] = [None] * len(self.actors)
        self.fine, self.owner = layout.owner()
        self.stateless: set[str] = set()
        self.works_ahead = works_ahead
        self.ahead: defaultdict[str, Ahead] = defaultdict(Ahead)
        self.profiled: Profile | None = None

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run on every actor, or begin it again; waits for actors that are starting."""
        self.stateless |= set() if setup.initial else {key}
        self.ahead[key] = Ahead()
        shared = ray.put(setup)
        tables = [self.tables[name] for name in setup.views.tables]
        self._wait_for_all()
        self._connect()
        self._get([actor.open.remote(key, shared, *tables) for actor in self.actors])
        for rows in pieces:
            owner = self.owner[rows["ids"] % self.fine]
            self._get(
                [
                    self.actors[a].restore.remote(key, share(rows, owner == a))
                    for a in np.unique(owner).tolist()
                ]
            )

    def _connect(self) -> None:
        """Connect with the actors of this node that it is not connected with."""
        missing = [a for a, wire in enumerate(self.wires) if wire is None or wire.lost]
        here = this_node()
        addresses = self._get([self.actors[a].listen.remote(here) for a in missing])
        for a, address in zip(missing, addresses, strict=True):
            self.wires[a] = _connected(address)

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask on the actors that own the clients."""
        return gather(request, self._answers(key, request, send))

    def _answers(
        self, key: str, request: Request, send: Mapping[str, Array]
    ) -> list[tuple[Array | None, Partial | Failure]]:
        """Return what each actor answered, with the indices of its clients."""
        ahead = self.ahead[key]
        parts = self._split(key, request)
        whole = [(a, part, send) for a, _, part in parts]
        wanted = [(a, *needed(part, send, ahead.known)) for a, part, send in whole]
        begun = ahead.begun
        if len({isinstance(call, Reply) for call in begun} | set(map(self._by_wire, wanted))) > 1:
            self._get(begun)  # only what goes the same way arrives in order
        calls = self._call("exchange", key, wanted)
        self._begin(key, ahead)
        answers, earlier = self._get(calls), self._get(begun)  # what began earlier is done by now
        if any(isinstance(answer, NotKept) for answer in answers):
            anew = [(a, *needed(part, send, ())) for a, part, send in whole]
            answers = self._get(self._call("exchange", key, anew))
        ahead.known -= numbers(request)
        if self.profiled is not None:
            self.profiled.computed([a.seconds for a in answers if isinstance(a, Partial)])
        for line in (line for answer in (*earlier, *answers) for line in answer.printed):
            self.tell(line)
        indices = [index for _, index, _ in parts]
        return list(zip(indices, answers, strict=True))

    def prepare(self, key: str, request: Request, send: Mapping[str, Array]) -> None:
        """Let actors work ahead after the next `exchange`; see `WorksAhead`."""
        self.ahead[key].prepared.append((request, send))

    def _begin(self, key: str, ahead: Ahead) -> None:
        """Let actors begin what was prepared."""
        ahead.begun = []
        for request, send in ahead.prepared:
            parts = [(a, part, send) for a, _, part in self._split(key, request)]
            ahead.begun += self._call("work_ahead", key, parts)
            ahead.known |= numbers(request)
        ahead.prepared = []

    def _call(self, method: Method, key: str, parts: Sequence[Part]) -> list[Any]:
        """Send requests to actors with what their clients download; return what `_get` takes."""
        if method == "exchange" and self.profiled is not None:
            method = "timed"
        by_ray = [part for part in parts if not self._by_wire(part)]
        large = sum(_bytes(send) for _, _, send in by_ray) > BY_VALUE
        stored = {id(send): ray.put(send) for _, _, send in by_ray} if large else {}
        calls = []
        for part in parts:
            a, request, send = part
            wire = self.wires[a]
            if wire is not None and self._by_wire(part):
                calls.append(wire.send(method, key, request, send))
                continue
            packed = pickle.dumps((key, request, None if large else send), PROTOCOL)
            shared = [stored[id(send)]] if large else []
            calls.append(getattr(self.actors[a], method).remote(packed, *shared))
        for wire in {call.wire for call in calls if isinstance(call, Reply)}:
            wire.move(receive=False)  # all at once: an actor that begins may take the processor
        return calls

    def _by_wire(self, part: Part) -> bool:
        """Return whether a request goes by wire."""
        a, _, send = part
        return self.wires[a] is not None and _bytes(send) <= _BY_WIRE

    def _split(self, key: str, request: Request) -> list[tuple[int, Ints, Request]]:
        """Return the parts of a request: an actor, the indices of its clients, and its request.

        A client that keeps a state is asked where its state is, and so is one whose upload is
        computed ahead. If the actors would be loaded
        unequally, clients without a state are shared out evenly.
        """
        ids, hosts = request.ids, len(self.actors)
        owner, classes = self.owner[ids % self.fine], None
        loads = np.bincount(owner, minlength=hosts)
        free = key in self.stateless and request.serials is None
        if free and hosts * loads.max() > _UNEQUAL * len(ids) > hosts:
            classes = balanced(ids, hosts)
            fine, table = Layout(classes).owner()
            owner = table[ids % fine]
            loads = np.bincount(owner, minlength=hosts)
        parts = []
        for a in np.flatnonzero(loads).tolist():
            index = np.flatnonzero(owner == a)
            of_actor = None if classes is None else classes[a]
            parts.append((a, index, request.part(index, of_actor)))
        return parts

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield the client state that changed since the last snapshot, in pieces.

        All actors are asked at once for what makes one piece together, then one after the other.
        """
        fair = PIECE // len(self.actors)
        first = self._get([actor.snapshot.remote(key, fair, 0) for actor in self.actors])
        yield merged([rows for rows, _ in first])
        waiting = [actor for actor, (_, more) in zip(self.actors, first, strict=True) if more]
        del first
        for actor in waiting:
            more = True
            while more:
                ((rows, more),) = self._get([actor.snapshot.remote(key, PIECE, 1)])
                yield rows

    def close(self, key: str) -> None:
        """Forget a run."""
        self.ahead.pop(key, None)
        for actor in self.actors:
            actor.close.remote(key)
        if not self.ahead:
            self._hang_up()

    def _hang_up(self) -> None:
        """Let actors drop what they have not begun with: a run may be opened anew."""
        for wire in self.wires:
            if wire is not None:
                wire.close()

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        self.profiled = profile
        profile.watch(self, "exchange", "adding up")
        profile.watch(self, "_answers", "sending")

    def _get(self, calls: Sequence[Any]) -> list[Any]:
        """Get the results of calls to actors, replies on wires or references of Ray's.

        Raises
        ------
        HostLost
            If an actor died, or has come back empty.
        ScratchError
            If client state fits neither the memory nor the disk of an actor.
        """
        replies = [call for call in calls if isinstance(call, Reply)]
        refs = [call for call in calls if not isinstance(call, Reply)]
        try:
            wait(replies)
            answers = iter(ray.get(refs) if refs else [])
            results = [
                _result(call if isinstance(call, Reply) else next(answers)) for call in calls
            ]
        except (Lost, RayActorError) as error:
            self._hang_up()
            raise HostLost(f"a client actor was lost ({first_line(error)})") from error
        for result in results:
            if isinstance(result, UnknownRun):
                self._hang_up()
                raise HostLost("a client actor was started anew and must be restored")
            if isinstance(result, ScratchError):
                raise result
        return results

    def _wait_for_all(self) -> None:
        """Wait until every actor answers; Ray may be starting some of them anew.

        Raises
        ------
        ConnectionError
            If one does not come back; a resume may find it.
        """
        end = time.monotonic() + _RESTART_S
        while True:
            try:
                ready = [actor.ready.remote() for actor in self.actors]
                ray.get(ready, timeout=max(0.0, end - time.monotonic()))
                return
            except (RayActorError, GetTimeoutError) as error:
                if time.monotonic() > end:
                    text = (
                        f"client actors did not come back in {_RESTART_S:g} s: {first_line(error)}"
                    )
                    raise ConnectionError(text) from error
                time.sleep(0.2)


def _connected(address: Address | None) -> Wire | None:
    """Return a wire to an address; None if there is none, or nobody is there."""
    try:
        return None if address is None else Wire(address)
    except OSError:
        return None


def _result(answer: Any) -> Any:
    """Return what an actor answered, of a reply or of what Ray brought."""
    if isinstance(answer, Reply):
        return answer.value()
    return pickle.loads(answer) if isinstance(answer, bytes) else answer


def _bytes(send: Mapping[str, Array]) -> int:
    return sum(values.nbytes for values in send.values())


def first_line(error: Exception) -> str:
    """Return the first line of an error."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason")
