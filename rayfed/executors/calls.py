"""Calls of hosts: by wire within a node, by Ray elsewhere and for all that is rare.

A driver that hosts clients itself calls that host directly, once the others are at work.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import ray
from ray.exceptions import ActorUnschedulableError, RayActorError

from rayfed.clients.host import UnknownRun
from rayfed.clients.request import Request
from rayfed.clients.store import ScratchError
from rayfed.core.arrays import Array
from rayfed.core.flat import NamedArrays
from rayfed.executors.base import HostLost
from rayfed.executors.ray_host import BY_VALUE, Method, RayHost, this_node
from rayfed.executors.wire import PROTOCOL, Address, Lost, Pending, Wire, send_all, wait

LOST = (RayActorError, ActorUnschedulableError)
"""What Ray says of actors that have died, and of those whose node is known to be gone."""
Send: TypeAlias = Mapping[str, Array]
"""What clients download."""
Message: TypeAlias = tuple[int, Request, Send]
"""A host, the request for its clients, and what they download."""

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

    @property
    def hosts(self) -> range:
        """The numbers of all hosts."""
        return range(len(self.actors) + (self.own is not None))

    def is_own(self, host: int) -> bool:
        """Return whether a host is the one in this process."""
        return host == len(self.actors)

    def call(self, host: int, method: str, *given: Any) -> Any:
        """Call a method of a host; return what `get` takes."""
        if self.is_own(host):
            return partial(getattr(self.own, method), *given)
        return getattr(self.actors[host], method).remote(*given)

    def connect(self) -> None:
        """Connect with the hosts of this node that it is not connected with."""
        missing = [h for h, wire in enumerate(self.wires) if wire is None or wire.lost]
        here = this_node()
        addresses = self.get([self.call(h, "listen", here) for h in missing])
        for h, address in zip(missing, addresses, strict=True):
            self.wires[h] = _connected(address)

    def send(
        self, method: Method, key: str, messages: Sequence[Message], in_store: dict[int, Any]
    ) -> list[Any]:
        """Send requests to hosts with what their clients download; return what `get` takes.

        Parameters
        ----------
        method : str
            Of the host.
        key : str
            Of the run.
        messages : sequence of (host, request, send)
        in_store : dict of int to object reference
            What is in the object store already, by its id in this process.
        """
        ways = [self.way(message) for message in messages]
        by_ray = (_bytes(m[2]) for m, way in zip(messages, ways, strict=True) if way == "ray")
        large = sum(by_ray) > BY_VALUE
        calls: list[Any] = []
        for (host, request, send), way in zip(messages, ways, strict=True):
            if way == "here":
                calls.append(self.call(host, "answer", method, key, request, send))
                continue
            wire = self.wires[host]
            if wire is not None and way == "wire":
                calls.append(wire.send(method, key, request, NamedArrays(send)))
                continue
            beside: tuple[Any, ...] = ()
            if large and send:
                if id(send) not in in_store:
                    in_store[id(send)] = ray.put(send)
                beside = ([in_store[id(send)]],)
            packed = pickle.dumps((key, request, None if beside else send), PROTOCOL)
            calls.append(self.call(host, "message", method, packed, *beside))
        for wire in {call.wire for call in calls if isinstance(call, Pending)}:
            wire.move(receive=False)  # all at once: an actor that begins may take the processor
        return calls

    def way(self, message: Message) -> Literal["here", "wire", "ray"]:
        """Return how a request goes to its host."""
        host, _, send = message
        if self.is_own(host):
            return "here"
        by_wire = self.wires[host] is not None and _bytes(send) <= _BY_WIRE
        return "wire" if by_wire else "ray"

    def in_order(self, begun: Sequence[Any], messages: Sequence[Message]) -> bool:
        """Return whether requests arrive after those that were sent before: all go one way."""
        if not begun:
            return True
        before = {"wire" if isinstance(call, Pending) else "ray" for call in begun}
        return len(before | (set(map(self.way, messages)) - {"here"})) == 1

    def get(self, calls: Sequence[Any]) -> list[Any]:
        """Get the results of calls: replies on wires, references of Ray's, or calls in here.

        Raises
        ------
        HostLost
            If a host died, or has come back empty.
        ScratchError
            If client state fits neither the memory nor the disk of a host.
        """
        if not calls:
            return []
        replies = [call for call in calls if isinstance(call, Pending)]
        here = [call for call in calls if isinstance(call, partial)]
        refs = [call for call in calls if not isinstance(call, (Pending, partial))]
        try:
            if here:
                send_all([wire for wire in self.wires if wire is not None])
            made = iter([call() for call in here])
            wait(replies)
            come = iter(ray.get(refs) if refs else [])
            results = [
                call.value()
                if isinstance(call, Pending)
                else next(made)
                if isinstance(call, partial)
                else _unpacked(next(come))
                for call in calls
            ]
        except (Lost, *LOST) as error:
            self.hang_up()
            raise HostLost(f"a client actor was lost ({reason_of(error)})") from error
        for result in results:
            if isinstance(result, (UnknownRun, HostLost)):
                self.hang_up()
            if isinstance(result, UnknownRun):
                raise HostLost("a client actor was started anew and must be restored")
            if isinstance(result, (HostLost, ScratchError)):
                raise result
        return results

    def hang_up(self) -> None:
        """Let hosts drop what they have not begun with: a run may be opened anew."""
        for wire in self.wires:
            if wire is not None:
                wire.close()


def _connected(address: Address | None) -> Wire | None:
    """Return a wire to an address; None if there is none, or nobody is there."""
    try:
        return None if address is None else Wire(address)
    except OSError:
        return None


def _unpacked(answer: Any) -> Any:
    """Return what Ray brought; small answers are pickled."""
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
