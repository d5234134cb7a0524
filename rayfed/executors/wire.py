"""Wires: a driver and an actor of its node exchange messages over a Unix socket.

A message is pickled. Arrays of some size travel beside the pickle, from the memory where they are
to the memory where they will be. The driver never waits in the middle of a message: while an actor
takes nothing, since it is still sending an answer, the driver reads. So an actor needs one thread
for each driver, which reads, computes and answers in turn.

Ray carries the address of a socket and the key to it. The socket is in a folder of its own that
nobody else may enter, and both go away as soon as the driver is connected.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import select
import shutil
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Self, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from threadpoolctl import threadpool_limits

from rayfed.core.flat import ASIDE
from rayfed.core.machine import private_folder

Address: TypeAlias = tuple[str, bytes]
"""Path of a socket and the key to it."""

PROTOCOL = 5
_HEAD = struct.Struct("<3Q")  # number of the message, arrays beside the pickle, bytes of the pickle
_KEY = 32  # bytes
_READ = 2**14  # bytes that are read at a time as long as it is not known what comes
_AT_ONCE = 64  # buffers in one call; systems allow 1024
_CONNECT_S = 60.0


class Lost(Exception):
    """The actor at the other end has ended."""


class Raised:
    """An error that was raised while an actor answered; Ray's calls raise it at the caller too."""

    def __init__(self, error: Exception) -> None:
        self.error, self.trace = error, traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            self.error = RuntimeError(f"{type(error).__name__}: {error}")


class Pending:
    """The answer to a message, once it has come."""

    def __init__(self, wire: Wire) -> None:
        self.wire, self.come = wire, False
        self._value: Any = None

    def give(self, value: Any) -> None:
        """Note the answer."""
        self._value, self.come = value, True

    def value(self) -> Any:
        """Return the answer, or raise the error that took its place."""
        if isinstance(self._value, Raised):
            raise self._value.error from RuntimeError(self._value.trace)
        return self._value


class Wire:
    """The driver's end.

    Parameters
    ----------
    address : (path, key)
        Of a socket where an actor of this node listens.

    Raises
    ------
    OSError
        If nobody listens there.
    """

    def __init__(self, address: Address) -> None:
        path, key = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
            self._socket.sendall(key)
        except OSError:
            self._socket.close()
            raise
        self._socket.setblocking(False)
        self._messages = _messages(self._socket)
        self._unsent: list[memoryview] = []
        self._sent = 0
        self._asked: WeakValueDictionary[int, Pending] = WeakValueDictionary()
        self.lost = False

    def send(self, *message: Any) -> Pending:
        """Take a message, which leaves in `move` or `wait`."""
        self._sent += 1
        reply = Pending(self)
        self._asked[self._sent] = reply
        self._unsent += _packed(self._sent, message)
        return reply

    def move(self, receive: bool = True) -> None:
        """Send, and receive unless told not to, as much as goes without waiting."""
        if self.lost:
            return
        try:
            self._unsent = _written(self._socket, self._unsent)
            while receive and self._asked and (found := next(self._messages)) is not None:
                number, value = found
                reply = self._asked.pop(number, None)
                if reply is not None:  # else nobody wants it any more
                    reply.give(value)
        except (OSError, EOFError):
            self.close()
        except BaseException:  # such as no memory for what comes: the rest cannot be read
            self.close()
            raise

    @property
    def sends(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._unsent)

    def close(self) -> None:
        """Hang up; messages that the actor has not begun with it drops."""
        self.lost = True
        self._socket.close()

    def fileno(self) -> int:
        """Return the number of the socket."""
        return self._socket.fileno()


def wait(replies: Sequence[Pending]) -> None:
    """Wait until replies have come.

    Raises
    ------
    Lost
        As soon as an actor that has yet to reply has ended.
    """
    while missing := {reply.wire for reply in replies if not reply.come}:
        _move(missing)


def send_all(wires: Collection[Wire]) -> None:
    """Wait until all messages have been sent, but for those to actors that have ended."""
    while missing := [wire for wire in wires if wire.sends and not wire.lost]:
        _move(missing)


def _move(wires: Collection[Wire]) -> None:
    """Send and receive what goes once something does."""
    if any(wire.lost for wire in wires):
        raise Lost("its socket was closed")
    poll, by_socket = select.poll(), {}
    for wire in wires:
        by_socket[wire.fileno()] = wire
        poll.register(wire, select.POLLIN | (select.POLLOUT if wire.sends else 0))
    for ready, _ in poll.poll():
        by_socket[ready].move()


class Socket:
    """The actor's end: a socket at which one driver is awaited, and then served, in a thread.

    Parameters
    ----------
    answer : callable
        Takes the parts of a message and returns the answer.
    alone : context manager
        Held while an answer is computed.

    Raises
    ------
    OSError
        If there is no place for it.
    AttributeError
        On systems without such sockets.
    """

    def __init__(self, answer: Callable[..., Any], alone: AbstractContextManager[Any]) -> None:
        self._answer, self._alone = answer, alone
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._folder = private_folder("wire")
        self._key = secrets.token_bytes(_KEY)
        self.address: Address = (str(self._folder / "wire"), self._key)
        try:
            self._listener.bind(self.address[0])
            self._listener.listen()
        except OSError:
            self._forget()
            raise

    def start(self) -> Self:
        """Begin to wait for the driver."""
        threading.Thread(target=self._serve, name="wire", daemon=True).start()
        return self

    def _serve(self) -> None:
        """Answer message after message, until the driver hangs up."""
        threadpool_limits(1)  # some libraries count threads for each thread that calls them
        with suppress(OSError, EOFError), self._accepted() as driver:
            hang_ups = select.poll()
            hang_ups.register(driver, 0)  # they are always told, even if something is unread
            for message in _messages(driver):
                if message is None:
                    continue
                with self._alone:
                    if hang_ups.poll(0):  # its run may have been opened anew meanwhile
                        return
                    answer = self._answered(message[1])
                _written(driver, _packed(message[0], answer))
                del message, answer  # not held while the next message is awaited

    def _answered(self, message: tuple[Any, ...]) -> Any:
        try:
            return self._answer(*message)
        except Exception as error:
            return Raised(error)

    def _accepted(self) -> socket.socket:
        """Return the connection of the driver, who has the key."""
        try:
            self._listener.settimeout(_CONNECT_S)
            while True:
                driver, _ = self._listener.accept()
                driver.settimeout(_CONNECT_S)
                with suppress(OSError):
                    if hmac.compare_digest(driver.recv(_KEY, socket.MSG_WAITALL), self._key):
                        driver.settimeout(None)
                        return driver
                driver.close()
        finally:
            self._forget()

    def _forget(self) -> None:
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _packed(number: int, value: Any) -> list[memoryview]:
    """Return a message as the buffers to send, arrays of some size where they are."""
    aside: list[memoryview] = []

    def inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < ASIDE:
            return True
        aside.append(raw)
        return False

    body = pickle.dumps(value, PROTOCOL, buffer_callback=inside)
    lengths = struct.pack(f"<{len(aside)}Q", *(raw.nbytes for raw in aside))
    head = _HEAD.pack(number, len(aside), len(body))
    return [memoryview(head + lengths + body), *aside]


def _messages(end: socket.socket) -> Iterator[tuple[int, Any] | None]:
    """Yield the messages that come, and None each time that a socket that does not wait is empty.

    Small messages are read in one go, and what has come of the next one with them.

    Raises
    ------
    EOFError
        At the end.
    """
    read, come = memoryview(bytearray(_READ)), memoryview(b"")  # what it has not used of what came

    def filled(views: list[memoryview]) -> Iterator[None]:
        """Fill buffers with what has come, and with what comes."""
        nonlocal come
        for k, view in enumerate(views):
            count = min(len(come), view.nbytes)
            view[:count], come = come[:count], come[count:]
            if count < view.nbytes:
                yield from _filled(end, [view[count:], *views[k + 1 :]])
                return

    while True:
        while len(come) < _HEAD.size:
            read[: len(come)] = come
            while not (got := _received(end, [read[len(come) :]])):
                yield None
            come = read[: len(come) + got]
        number, count, size = _HEAD.unpack_from(come)
        come, body = come[_HEAD.size :], come[_HEAD.size : _HEAD.size + 8 * count + size]
        if len(body) < 8 * count + size:
            body = memoryview(bytearray(8 * count + size))
            yield from filled([body])
        else:
            come = come[len(body) :]
        lengths = struct.unpack_from(f"<{count}Q", body)
        aside = [np.empty(length, np.uint8) for length in lengths]
        yield from filled([raw.data for raw in aside])
        yield number, pickle.loads(body[8 * count :], buffers=aside)
        del body, aside


def _filled(end: socket.socket, views: list[memoryview]) -> Iterator[None]:
    """Fill buffers, and yield each time that a socket that does not wait is empty."""
    while views:
        count = _received(end, views[:_AT_ONCE])
        if count:
            views = _after(views, count)
        else:
            yield None


def _received(end: socket.socket, views: list[memoryview]) -> int:
    """Read into buffers, and return how many bytes; 0 if a socket that does not wait is empty."""
    try:
        count = end.recvmsg_into(views)[0]
    except BlockingIOError:
        return 0
    if not count:
        raise EOFError
    return count


def _written(end: socket.socket, views: list[memoryview]) -> list[memoryview]:
    """Send buffers, and return what a socket that does not wait did not take."""
    while views:
        try:
            count = end.sendmsg(views[:_AT_ONCE])
        except BlockingIOError:
            break
        views = _after(views, count)
    return views


def _after(views: list[memoryview], count: int) -> list[memoryview]:
    """Return what is left of buffers after their first bytes."""
    for k, view in enumerate(views):
        if count < view.nbytes:
            return [view[count:], *views[k + 1 :]]
        count -= view.nbytes
    return []
