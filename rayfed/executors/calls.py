"""How hosts are called: by wire within a node, by Ray elsewhere and for all that is rare."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import ray
from ray.exceptions import ActorUnschedulableError, RayActorError

from rayfed.clients.host import UnknownRun
from rayfed.clients.request import Request
from rayfed.clients.scratch import ScratchError
from rayfed.core.arrays import Array
from rayfed.core.flat import Named
from rayfed.executors.ahead import Send
from rayfed.executors.base import HostLost
from rayfed.executors.ray_host import BY_VALUE, Method, this_node
from rayfed.executors.wire import PROTOCOL, Address, Lost, Reply, Wire, wait

LOST = (RayActorError, ActorUnschedulableError)
"""What Ray says of actors that have died, and of those whose node is known to be gone."""
Message: TypeAlias = tuple[int, Request, Send]
"""A host, the request for its clients, and what they download."""

_BY_WIRE = 2**22  # bytes of arrays up to which a wire is faster than the object store


class Calls:
    """Calls of some hosts.

    Parameters
    ----------
    hosts : sequence of actor handles
    """

    def __init__(self, hosts: Sequence[Any]) -> None:
        self.hosts = list(hosts)
        self.wires: list[Wire | None] = [None] * len(self.hosts)

    def connect(self) -> None:
        """Connect with the hosts of this node that it is not connected with."""
        missing = [h for h, wire in enumerate(self.wires) if wire is None or wire.lost]
        here = this_node()
        addresses = self.get([self.hosts[h].listen.remote(here) for h in missing])
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
        by_wire = [self.by_wire(message) for message in messages]
        by_ray = (
            _bytes(send) for wire, (_, _, send) in zip(by_wire, messages, strict=True) if not wire
        )
        large = sum(by_ray) > BY_VALUE
        calls = []
        for (host, request, send), goes_by_wire in zip(messages, by_wire, strict=True):
            wire = self.wires[host]
            if wire is not None and goes_by_wire:
                calls.append(wire.send(method, key, request, Named(send)))
                continue
            beside: tuple[Any, ...] = ()
            if large and send:
                if id(send) not in in_store:
                    in_store[id(send)] = ray.put(send)
                beside = ([in_store[id(send)]],)
            packed = pickle.dumps((key, request, None if beside else send), PROTOCOL)
            calls.append(getattr(self.hosts[host], method).remote(packed, *beside))
        for wire in {call.wire for call in calls if isinstance(call, Reply)}:
            wire.move(receive=False)  # all at once: an actor that begins may take the processor
        return calls

    def by_wire(self, message: Message) -> bool:
        """Return whether a request goes by wire."""
        host, _, send = message
        return self.wires[host] is not None and _bytes(send) <= _BY_WIRE

    def in_order(self, begun: Sequence[Any], messages: Sequence[Message]) -> bool:
        """Return whether requests arrive after those that were sent before: all go one way."""
        if not begun:
            return True
        ways = {isinstance(call, Reply) for call in begun} | set(map(self.by_wire, messages))
        return len(ways) == 1

    def get(self, calls: Sequence[Any]) -> list[Any]:
        """Get the results of calls, replies on wires or references of Ray's.

        Raises
        ------
        HostLost
            If a host died, or has come back empty.
        ScratchError
            If client state fits neither the memory nor the disk of a host.
        """
        if not calls:
            return []
        replies = [call for call in calls if isinstance(call, Reply)]
        refs = [call for call in calls if not isinstance(call, Reply)]
        try:
            wait(replies)
            answers = iter(ray.get(refs) if refs else [])
            results = [
                _result(call if isinstance(call, Reply) else next(answers)) for call in calls
            ]
        except (Lost, *LOST) as error:
            self.hang_up()
            raise HostLost(f"a client actor was lost ({first_line(error)})") from error
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


def _result(answer: Any) -> Any:
    """Return what a host answered, of a reply or of what Ray brought."""
    if isinstance(answer, Reply):
        return answer.value()
    return pickle.loads(answer) if isinstance(answer, bytes) else answer


def _bytes(send: Mapping[str, Array]) -> int:
    return sum(values.nbytes for values in send.values())


def first_line(error: Exception) -> str:
    """Return the first line of an error."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason")
