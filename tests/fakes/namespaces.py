"""Two machines on this one: network namespaces that a virtual cable joins, each with a home.

They share the processor and the files, and nothing of the network: neither reaches the ports of the
other's loopback address. What is started in them is ended by the ids of their processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_END_S = 20.0


class Forbidden(Exception):
    """This machine does not let this user make network namespaces."""


class Machine:
    """A network namespace.

    Parameters
    ----------
    name : str
        No other namespace has it.
    address : str
        In its network, with the bits of the mask.
    home : Path
        The home folder of its user.

    Attributes
    ----------
    address : str
        Without the mask.
    """

    def __init__(self, name: str, address: str, home: Path) -> None:
        self.name, self._masked, self.home = name, address, home
        self.address = address.partition("/")[0]

    def called(
        self, *command: str | Path, **variables: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command here to its end."""
        with self.started(*command, **variables) as process:
            said, _ = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, said)

    def started(self, *command: str | Path, **variables: str | None) -> subprocess.Popen[str]:
        """Start a command here, whose output is one text."""
        changed = {"HOME": str(self.home), **variables}
        kept = {name: value for name, value in os.environ.items() if name not in changed}
        words = ["ip", "netns", "exec", self.name, *map(str, command)]
        return subprocess.Popen(
            words,
            env=kept | {name: value for name, value in changed.items() if value is not None},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def make(self, cable: str) -> None:
        """Make the namespace, with an end of a cable in it that is connected later."""
        self.home.mkdir()
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        _ip("link", "set", cable, "netns", self.name)
        _ip("-n", self.name, "address", "add", self._masked, "dev", cable)
        _ip("-n", self.name, "link", "set", cable, "up")
        self.cable = cable

    def unplug(self) -> None:
        """Let nothing reach this machine any more."""
        _ip("-n", self.name, "link", "set", self.cable, "down")

    def end(self) -> None:
        """End all processes here, and remove the namespace."""
        until = time.monotonic() + _END_S
        while (left := self._processes()) and time.monotonic() < until:
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.1)
        with suppress(Forbidden):
            _ip("netns", "delete", self.name)

    def _processes(self) -> list[int]:
        with suppress(Forbidden):
            return [int(line) for line in _ip("netns", "pids", self.name).split()]
        return []


class TwoMachines:
    """A head and a worker; ``with`` makes and removes them.

    Parameters
    ----------
    folder : Path
        Of their homes.

    Raises
    ------
    Forbidden
        If this user may not make them here, or iproute2 is missing.
    """

    def __init__(self, folder: Path) -> None:
        own = f"rf{os.getpid()}"
        self.head = Machine(f"{own}-head", "10.213.7.1/24", folder / "head")
        self.worker = Machine(f"{own}-worker", "10.213.7.2/24", folder / "worker")
        self._cables = (f"{own}h", f"{own}w")

    def __enter__(self) -> Self:
        _ip("link", "add", self._cables[0], "type", "veth", "peer", "name", self._cables[1])
        try:
            for machine, cable in zip((self.head, self.worker), self._cables, strict=True):
                machine.make(cable)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for machine in (self.worker, self.head):
            machine.end()
        with suppress(Forbidden):  # it goes with the namespace that it is in
            _ip("link", "delete", self._cables[0])


def _ip(*words: str) -> str:
    """Return what iproute2 says."""
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)
    except OSError as error:
        raise Forbidden(f"ip: {error.strerror}") from error
    if done.returncode:
        raise Forbidden(done.stderr.strip())
    return done.stdout
