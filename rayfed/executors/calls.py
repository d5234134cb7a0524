"""Calls of hosts: requests by wire within a node, everything else by Ray.

A driver that hosts clients calls its own host directly, once the others have their requests.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import ray
from ray.exceptions import ActorUnschedulableError, ObjectLostError, RayActorError

from rayfed.clients.host import UnknownRun
from rayfed.clients.near import SharedMessages
from rayfed.clients.request import Request
from rayfed.clients.store import ScratchError
from rayfed.core.arrays import Array, Ints
from rayfed.core.flat import NamedArrays
from rayfed.executors.base import HostLost
from rayfed.executors.ray_host import (
    BY_VALUE,
    Method,
    Opened,
    RayHost,
    guests,
    or_refusal,
    this_node,
)
from rayfed.executors.wire import PROTOCOL, Address, Lost, Wire, answers

LOST = (RayActorError, ActorUnschedulableError, ObjectLostError)
"""Errors of Ray about actors that died or lost their node, with what they have sent."""
Send: TypeAlias = Mapping[str, Array]
"""Downloads of clients."""
Message: TypeAlias = tuple[int, Request, Send]
"""A host, the request for its clients, and their downloads."""

_VALUES = (dict, SharedMessages)
"""Messages of nodes that are no references."""

_BY_WIRE = 2**22  # bytes of arrays up to which a wire is faster than the object store


class Calls:
    """Calls of some hosts.

    Parameters
    ----------
    actors : sequence of actor handles
        Of hosts in other processes, numbered from 0.
    own : RayHost, optional
        The host in this process, which comes after them.
    """

    def __init__(self, actors: Sequence[Any], own: RayHost | None = None) -> None:
        self.actors, self.own = list(actors), own
        self.wires: list[Wire | None] = [None] * len(self.actors)
        self.shares, self.tried = True, False  # memory with hosts of this node

    @property
    def hosts(self) -> range:
        """The numbers of all hosts."""
        return range(len(self.actors) + (self.own is not None))

    def is_own(self, host: int) -> bool:
        """Return whether a host is the one in this process."""
        return host == len(self.actors)

    def call(self, host: int, method: str, *given: Any) -> Any:
        """Call a method of a host, and return an argument for `get`."""
        if self.is_own(host):
            return partial(getattr(self.own, method), *given)
        return getattr(self.actors[host], method).remote(*given)

    def connect(self) -> None:
        """Connect with the hosts of this node that it is not connected with."""
        missing = [h for h, wire in enumerate(self.wires) if wire is None]
        here = this_node()
        addresses = self.get([self.call(h, "listen", here) for h in missing])
        for h, address in zip(missing, addresses, strict=True):
            self.wires[h] = _connected(address)

    def exchange(
        self, method: Method, key: Opened, messages: Sequence[Message], in_store: dict[int, Any]
    ) -> list[Any]:
        """Send requests to hosts with the downloads of their clients, and return the answers.

        Parameters
        ----------
        method : str
            Of the host.
        key : Opened
        messages : sequence of (host, request, send)
            One to a host.
        in_store : dict of int to object reference
            Downloads that are in the object store already, by their id in this process.

        Raises
        ------
        HostLost, ScratchError
            As for `get`.
        """
        wires = [self._wire(host, send) for host, _, send in messages]
        by_ray = (
            _bytes(send)
            for (host, _, send), wire in zip(messages, wires, strict=True)
            if wire is None and not self.is_own(host)
        )
        large = sum(by_ray) > BY_VALUE
        calls: list[Any] = []
        with self._checked():
            for (host, request, send), wire in zip(messages, wires, strict=True):
                if wire is not None:
                    wire.send(method, key, request, NamedArrays(send))
                    calls.append(wire)
                    continue
                if self.is_own(host):
                    calls.append(self.call(host, "answer", method, key, request, send))
                    continue
                reference: tuple[Any, ...] = ()
                if large and send:
                    if id(send) not in in_store:
                        in_store[id(send)] = ray.put(send)
                    reference = ([in_store[id(send)]],)
                packed = pickle.dumps((key, request, None if reference else send), PROTOCOL)
                calls.append(self.call(host, "message", method, packed, *reference))
        return self.get(calls)

    def outgoing(self, host: int, key: Opened, ids: Ints) -> Any:
        """Return a reference to messages of nodes at a host; see `Host.outgoing`."""
        with self._checked():
            if self.own is not None and self.is_own(host):
                return ray.put(self.own.outgoing(key, ids))
            return self.call(host, "outgoing", key, ids)

    def near(self, host: int) -> bool:
        """Return whether a host is in this process, or on this node and reached by wire."""
        return self.is_own(host) or (host in self.hosts and self.wires[host] is not None)

    def shared(self, key: Opened, hosts: Sequence[int]) -> dict[int, SharedMessages]:
        """Return where hosts that are `near` have their messages, those that can share them.

        Raises
        ------
        HostLost
            As for `get`.
        """
        if not self.shares:
            return {}
        calls: list[Any] = []
        with self._checked():
            for host in hosts:
                wire = None if self.is_own(host) else self.wires[host]
                if wire is not None:
                    wire.send("shared", key)
                calls.append(self.call(host, "shared", key) if wire is None else wire)
        answers = zip(hosts, self.get(calls), strict=True)
        found = {host: sent for host, sent in answers if sent is not None}
        if found and not self.tried:
            try:
                for sent in found.values():
                    sent.rows()
            except OSError:  # the system keeps processes apart
                self.shares = False
                return {}
            self.tried = True
        return found

    def mix(
        self, method: Method, key: Opened, messages: Sequence[tuple[int, Request, Sequence[Any]]]
    ) -> list[Any]:
        """Send requests that mix messages of nodes, and return the answers.

        No host mixes until all have sent theirs, since sums take the memory of messages, and a
        combiner does several things at once.

        Parameters
        ----------
        messages : sequence of (host, request, pieces)
            One to a host; the pieces are what `outgoing` and `shared` returned for it.

        Raises
        ------
        HostLost, ScratchError
            As for `get`.
        """
        references = [
            piece for *_, pieces in messages for piece in pieces if not isinstance(piece, _VALUES)
        ]
        calls: list[Any] = []
        with self._checked():
            if references:
                ray.wait(references, num_returns=len(references), fetch_local=False)
            for host, request, pieces in messages:
                if self.is_own(host):
                    calls.append(partial(self._mix_here, method, key, request, pieces))
                    continue
                wire = self.wires[host]
                if wire is not None and all(isinstance(p, SharedMessages) for p in pieces):
                    wire.send(method, key, request, list(pieces))
                    calls.append(wire)
                    continue
                packed = pickle.dumps((key, request, {}), PROTOCOL)
                calls.append(self.call(host, "message", method, packed, (), *pieces))
        return self.get(calls)

    def _mix_here(
        self, method: Method, key: Opened, request: Request, pieces: Sequence[Any]
    ) -> Any:
        assert self.own is not None
        own = self.own
        found = [piece if isinstance(piece, _VALUES) else ray.get(piece) for piece in pieces]
        return or_refusal(lambda: own.answer(method, key, request, guests(found)))

    def _wire(self, host: int, send: Send) -> Wire | None:
        """Return the wire that a request goes by; None for a large one, and for the own host."""
        return None if self.is_own(host) or _bytes(send) > _BY_WIRE else self.wires[host]

    def get(self, calls: Sequence[Any]) -> list[Any]:
        """Get the results of calls: answers on wires, references of Ray's, or calls in here.

        Raises
        ------
        HostLost
            If a host died, or has come back empty.
        ScratchError
            If client state fits neither the memory nor the disk of a host.
        """
        refs = [call for call in calls if not isinstance(call, (Wire, partial))]
        with self._checked():
            here = {id(call): call() for call in calls if isinstance(call, partial)}
            by_wire = answers(call for call in calls if isinstance(call, Wire))
            by_ray = iter(ray.get(refs) if refs else [])
            results = [
                by_wire[call]
                if isinstance(call, Wire)
                else here[id(call)]
                if isinstance(call, partial)
                else _unpacked(next(by_ray))
                for call in calls
            ]
            for result in results:
                if isinstance(result, UnknownRun):
                    raise HostLost("a client actor was started anew and must be restored")
                if isinstance(result, (HostLost, ScratchError)):
                    raise result
        return results

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Hang up after any error, since answers may be left on wires; report lost hosts."""
        try:
            yield
        except BaseException as error:
            self.hang_up()
            if isinstance(error, (Lost, *LOST)):
                raise HostLost(f"a client actor was lost ({reason_of(error)})") from error
            raise

    def hang_up(self) -> None:
        """Let hosts drop requests that they have not begun."""
        for host, wire in enumerate(self.wires):
            if wire is not None:
                wire.close()
            self.wires[host] = None


def _connected(address: Address | None) -> Wire | None:
    """Return a wire to an address; None without an address, or if no actor listens there."""
    try:
        return None if address is None else Wire(address)
    except OSError:
        return None


def _unpacked(answer: Any) -> Any:
    """Return an answer that came by Ray; small ones are pickled."""
    return pickle.loads(answer) if isinstance(answer, bytes) else answer


def _bytes(send: Mapping[str, Array]) -> int:
    return sum(values.nbytes for values in send.values())


def reason_of(error: Exception) -> str:
    r"""Return the reason of an error of Ray's in one line: the last of a traceback, or the first.

    Examples
    --------
    >>> reason_of(OSError("The actor died because of an error:\nray::A\nNameError: no x"))
    'NameError: no x'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith(("Traceback", "ray::")) or "ray::" in line for line in lines):
        return lines[-1]
    return lines[0] if lines else "no reason"
