"""The client actor. Few imports, since every actor pays for them."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import ray

from rayfed.clients.host import Host, UnknownRun, state_bytes
from rayfed.clients.near import SharedMessages
from rayfed.clients.prints import Captured
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import ScratchError, StateRows
from rayfed.core.arrays import Array, Ints
from rayfed.core.sources import NO_SOURCES, Sources
from rayfed.core.threads import own_process
from rayfed.core.tree import Class
from rayfed.executors.base import HostLost, merged
from rayfed.executors.orphan import end_with_parent
from rayfed.executors.wire import PROTOCOL, Address, listen

Answered = TypeVar("Answered")
Refusal: TypeAlias = UnknownRun | ScratchError | HostLost
"""Errors that are sent back as values: Ray would wrap them."""
Answer: TypeAlias = Partial | Failure | Refusal
Piece: TypeAlias = StateRows | SharedMessages | Refusal
"""Messages of one host for another, or why there are none."""
Method: TypeAlias = Literal["exchange", "timed"]
"""What drivers ask for in messages, by Ray or by wire."""

BY_VALUE = 2**20
"""Bytes up to which arrays travel within a call: the object store costs two milliseconds more."""

_SMALL = 2**16  # bytes up to which a pickle of our own saves a third of a millisecond


class Opened(NamedTuple):
    """A run as it was opened: requests of an earlier opening, which may come late, are refused.

    Parameters
    ----------
    run : str
        Key of the run.
    token : str
        Drawn for each opening.
    """

    run: str
    token: str


class Actor:
    """Receiver of the messages of drivers: a client actor, or the combiner of some.

    Attributes
    ----------
    lock : context manager
        Held while a message is answered.
    """

    lock: AbstractContextManager[Any]

    def answer(
        self, method: Method, key: Opened, request: Request, send: Mapping[str, Array],
        stored: Sequence[Any] = (),
    ) -> Answer:  # fmt: skip
        """Answer a message."""
        raise NotImplementedError

    def listen(self, node: str) -> Address | None:
        """Wait for a driver to connect, which may then send messages without Ray.

        Parameters
        ----------
        node : str
            Ray's name of the driver's node.

        Returns
        -------
        (path, key) or None
            Where it can connect; None if it cannot, from another node or on a system without Unix
            sockets.
        """
        if node != this_node():
            return None
        try:
            return listen(self._by_wire, self.lock)
        except (OSError, AttributeError):
            return None

    def _by_wire(self, method: Method | Literal["shared"], key: Opened, *given: Any) -> Any:
        """Answer a message that came by wire; one to mix has the messages of other hosts."""
        if method == "shared":
            return self.shared(key)
        request, send = given
        return or_refusal(
            lambda: self.answer(
                method, key, request, send if request.mixing is None else guests(send)
            )
        )

    def shared(self, key: Opened) -> SharedMessages | Refusal | None:
        """Return where other processes of this node find messages of nodes; None if nowhere."""
        return None

    def message(
        self, method: Method, packed: bytes, stored: Sequence[Any] = (),
        *pieces: Piece,
    ) -> Answer | bytes:  # fmt: skip
        """Answer a message that came by Ray, pickled where the answer is small.

        Parameters
        ----------
        method : str
            "exchange" answers an Ask for the clients that live here; "timed" also returns how long
            that took.
        packed : bytes
            Pickled (key of the run, request, what its clients download).
        stored : sequence of object references
            One, of what they download, where that is in the object store; it is not packed then.
        pieces : mapping of str to array or SharedMessages
            Messages of nodes at other hosts, for a request that mixes them; see `Host.outgoing`.
        """
        key, request, send = pickle.loads(packed)
        send = ray.get(stored[0]) if stored else send
        with self.lock:
            answer: Answer = or_refusal(
                lambda: self.answer(method, key, request, guests(pieces) or send, stored)
            )
        return answer if _bytes(answer) > _SMALL else pickle.dumps(answer, PROTOCOL)


class RayHost:
    """A `Host`, in a client actor or in a driver, that gets its runs from the object store.

    It does one thing at a time, whoever asks for it.

    Parameters
    ----------
    memory_gb : float, optional
        Memory that client state may take on its node; see `state_bytes`.
    neighbours : int
        Into how many parts that memory is divided, of which this host gets one.
    """

    def __init__(self, memory_gb: float | None = None, neighbours: int = 1) -> None:
        self._hold(Host(state_bytes(memory_gb) // neighbours))

    def _hold(self, host: Host) -> None:
        self.host, self.tokens = host, dict[str, str]()
        self.lock: AbstractContextManager[Any] = threading.Lock()

    def open(self, key: Opened, owned: Sequence[Class], stored: Sequence[Any]) -> None:
        """Begin a run; its setup and tables are shared from the object store without copies.

        Parameters
        ----------
        key : Opened
        owned : sequence of (residue, modulus)
            Residue classes of the ids of the clients that live here.
        stored : sequence of object references
            The setup, and the tables that its views travel without, in the order of their names
            there.
        """
        setup = _setup(stored)
        with self.lock:
            self.host.open(key.run, setup, owned)
            self.tokens[key.run] = key.token

    def change(self, key: Opened, stored: Sequence[Any]) -> Refusal | None:
        """Continue a run with another setup; `stored` is as for `open`."""
        setup = _setup(stored)
        with self.lock:
            return or_refusal(lambda: self.host.change(self._run(key), setup))

    def restore(self, key: Opened, rows: StateRows) -> Refusal | None:
        """Take the state of some clients that live here, from a checkpoint."""
        with self.lock:
            return or_refusal(lambda: self.host.restore(self._run(key), rows))

    def answer(
        self, method: Method, key: Opened, request: Request, send: Mapping[str, Array],
        stored: Sequence[Any] = (),
    ) -> Answer:  # fmt: skip
        """Answer a message, while nothing else is done here; `stored` is as for `Actor.message`."""
        begun = time.perf_counter()
        answer: Answer = or_refusal(
            lambda: self.host.exchange(self._run(key), request, send, Captured())
        )
        if method == "timed" and isinstance(answer, Partial):
            answer = replace(answer, seconds=(time.perf_counter() - begun,))
        return answer

    def outgoing(self, key: Opened, ids: Ints) -> StateRows | Refusal:
        """Return the messages of some nodes that live here; see `Host.outgoing`."""
        with self.lock:
            return or_refusal(lambda: self.host.outgoing(self._run(key), ids))

    def shared(self, key: Opened) -> SharedMessages | Refusal | None:
        """Return where other processes of this node find messages; None if nowhere."""
        try:
            return or_refusal(lambda: self.host.shared(self._run(key)))
        except OSError:
            return None

    def snapshot(self, key: Opened, most: int, fewest: int) -> tuple[StateRows, bool] | Refusal:
        """Return client state that changed since it was last returned; see `Host.snapshot`."""
        with self.lock:
            return or_refusal(lambda: self.host.snapshot(self._run(key), most, fewest))

    def close(self, key: Opened) -> None:
        """Forget a run, unless it was opened anew since."""
        with self.lock:
            if self.tokens.get(key.run) == key.token:
                del self.tokens[key.run]
                self.host.close(key.run)

    def _run(self, key: Opened) -> str:
        if self.tokens.get(key.run) != key.token:
            raise UnknownRun(key.run)
        return key.run


class HostActor(RayHost, Actor):
    """A client actor: a host in a process of its own, with one BLAS thread.

    Ray's calls come in one thread, the messages of each driver of this node in another.
    """

    def __init__(
        self, memory_gb: float | None = None, neighbours: int = 1, sources: Sources = NO_SOURCES
    ) -> None:
        own_process()
        end_with_parent()
        sources.install()
        super().__init__(memory_gb, neighbours)

    def ready(self) -> int:
        """Return the process id."""
        return os.getpid()


def this_node() -> str:
    """Return Ray's name of the node where this process runs; empty without Ray."""
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def or_refusal(call: Callable[[], Answered]) -> Answered | Refusal:
    """Return an error that the driver acts on as a value."""
    try:
        return call()
    except (UnknownRun, ScratchError, HostLost) as error:
        return error


def _setup(stored: Sequence[Any]) -> Setup:
    """Return a setup from the object store with its tables."""
    setup, *tables = ray.get(list(stored))
    found: Setup = setup.with_tables(dict(zip(setup.views.tables, tables, strict=True)))
    return found


def guests(pieces: Sequence[Piece]) -> StateRows:
    """Return messages of several hosts as one, ids ascending; nothing without any.

    Raises
    ------
    UnknownRun, ScratchError, HostLost
        If a host refused to send its own, or has ended.
    """
    found = []
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        try:
            found.append(piece.rows() if isinstance(piece, SharedMessages) else piece)
        except OSError as error:
            raise HostLost(f"a client actor was lost ({error})") from error
    return merged(found) if found else {}


def _bytes(answer: object) -> int:
    """Return the bytes of the arrays in an answer."""
    if not isinstance(answer, Partial):
        return 0
    sums = [rows for _, _, branch in answer.branches for rows in branch.values()]
    return sum(rows.nbytes for rows in (*sums, *answer.each.values()))
