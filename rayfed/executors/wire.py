"""Local transport: a driver and an actor of its node exchange pickles over a Unix socket.

Ray carries the address of the socket and a key, of which the driver sends the first half and the
actor the second: pickles come from the other end alone. The socket is in a private folder; both are
removed as soon as the driver is connected. A wire carries one request at a time: so a driver and an
actor never both send, each waiting for the other to receive.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import select
import shutil
import socket
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeAlias

from threadpoolctl import threadpool_limits

from rayfed.core.machine import private_folder

Address: TypeAlias = tuple[str, bytes]
"""Path of a socket and the key to it."""

PROTOCOL = 5
_HALF = 32  # bytes of the key
_BUFFER = 2**16  # bytes; larger arrays are received where they will be
_CONNECT_S = 60.0
_ENDED = (OSError, EOFError, pickle.UnpicklingError)  # the last: in the middle of an array


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


class Wire:
    """The driver's end.

    Parameters
    ----------
    address : (path, key)
        Of a socket where an actor of this node listens; see `listen`.

    Raises
    ------
    OSError
        If no actor listens there.
    """

    def __init__(self, address: Address) -> None:
        path, key = address
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(_CONNECT_S)
            self._socket.connect(path)
            self._socket.sendall(key[:_HALF])
            if not _receives(self._socket, key[_HALF:]):  # its actor may have given the path up
                raise ConnectionRefusedError("no actor listens there")
            self._socket.settimeout(None)
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rwb", _BUFFER)

    def send(self, *message: Any) -> None:
        """Send a request.

        Raises
        ------
        Lost
            If the actor has ended.
        """
        try:
            pickle.dump(message, self._file, PROTOCOL)
            self._file.flush()
        except OSError as error:
            raise Lost(f"its socket was closed ({error})") from error

    def receive(self) -> Any:
        """Wait for the answer to the request, and return it.

        Raises
        ------
        Lost
            If the actor has ended.
        """
        try:
            return pickle.load(self._file)
        except _ENDED as error:
            raise Lost("its socket was closed") from error

    def close(self) -> None:
        """Hang up; the actor drops a request that it has not begun."""
        with suppress(OSError):  # of bytes that were not sent
            self._file.close()
        self._socket.close()

    def fileno(self) -> int:
        """Return the number of the socket."""
        return self._socket.fileno()


def answers(wires: Iterable[Wire]) -> dict[Wire, Any]:
    """Wait for the answer of each wire, and return them.

    Raises
    ------
    Lost
        As soon as an actor that has yet to answer has ended.
    Exception
        The first error that an actor raised, once all have answered.
    """
    waiting: dict[Any, Wire] = {wire.fileno(): wire for wire in wires}
    found: dict[Wire, Any] = {}
    while waiting:
        for socket_number in wait(waiting):
            wire = waiting.pop(socket_number)
            found[wire] = wire.receive()
    for answer in found.values():
        if isinstance(answer, Raised):
            raise answer.error from RuntimeError(answer.trace)
    return found


def listen(answer: Callable[..., Any], lock: AbstractContextManager[Any]) -> Address:
    """Listen for one driver, and answer its requests in a thread until it hangs up.

    Parameters
    ----------
    answer : callable
        Takes the parts of a request and returns the answer.
    lock : context manager
        Held while an answer is computed.

    Raises
    ------
    OSError
        If there is no place for the socket.
    AttributeError
        On systems without such sockets.
    """
    listener, key = socket.socket(socket.AF_UNIX), secrets.token_bytes(2 * _HALF)
    folder = private_folder("wire")
    path = folder / "wire"
    try:
        listener.bind(str(path))
        listener.listen()
    except OSError:
        _remove(listener, folder)
        raise
    serve = threading.Thread(
        target=_serve, args=(listener, folder, key, answer, lock), name="wire", daemon=True
    )
    serve.start()
    return str(path), key


def _serve(
    listener: socket.socket,
    folder: Path,
    key: bytes,
    answer: Callable[..., Any],
    lock: AbstractContextManager[Any],
) -> None:
    threadpool_limits(1)  # some libraries count threads for each thread that calls them
    with (
        suppress(*_ENDED),
        closing(_accepted(listener, folder, key)) as driver,
        driver.makefile("rwb", _BUFFER) as file,
    ):
        hang_ups = select.poll()
        hang_ups.register(driver, 0)  # they are always reported, even behind unread bytes
        while True:
            request = pickle.load(file)
            with lock:
                if hang_ups.poll(0):  # nobody waits for the answer
                    return
                reply = _reply(answer, request)
            pickle.dump(reply, file, PROTOCOL)
            file.flush()
            del request, reply  # not held until the next request comes


def _reply(answer: Callable[..., Any], request: tuple[Any, ...]) -> Any:
    try:
        return answer(*request)
    except Exception as error:
        return Raised(error)


def _accepted(listener: socket.socket, folder: Path, key: bytes) -> socket.socket:
    """Return the connection of the driver, which has the key, and remove the socket."""
    try:
        listener.settimeout(_CONNECT_S)
        while True:
            driver, _ = listener.accept()
            driver.settimeout(_CONNECT_S)
            with suppress(OSError):
                if _receives(driver, key[:_HALF]):
                    driver.sendall(key[_HALF:])
                    driver.settimeout(None)
                    return driver
            driver.close()
    finally:
        _remove(listener, folder)


def _receives(end: socket.socket, half: bytes) -> bool:
    """Return whether the other end sends a half of the key."""
    return hmac.compare_digest(end.recv(_HALF, socket.MSG_WAITALL), half)


def _remove(listener: socket.socket, folder: Path) -> None:
    listener.close()
    shutil.rmtree(folder, ignore_errors=True)
