"""A study in processes of its own, some of which are killed.

Nothing is killed but what this process has started, and what came of that.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

import psutil
import yaml

_MARKS = {
    "worker": "rayfed.runs.workers", "driver": "DriverActor", "client": "HostActor",
    "raylet": "raylet/raylet", "gcs": "gcs/gcs_server",
}  # fmt: skip
RAYS = ("gcs", "raylet", "driver", "client")
"""What Ray has started for a study."""
BEGIN_S, END_S, GONE_S = 120.0, 240.0, 30.0
"""Seconds for a study to begin, to end, and for what it had started to end after it."""
_LOOK_S = 0.02


class Running:
    """A command in a process of its own; what is left of it is killed at the end.

    Parameters
    ----------
    folder : Path
        The result folder that it writes.
    command : sequence of str
    """

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        self.folder = folder
        self.before = {path: path.stat().st_mtime_ns for path in self._records()}
        self.errors = TemporaryFile()  # noqa: SIM115 - no pipe: who outlives it would hold it open
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
        )  # fmt: skip
        self.known: dict[int, psutil.Process] = {}

    @property
    def said(self) -> str:
        """What it has written to its standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    @classmethod
    def rayfed(cls, folder: Path, *words: str) -> Self:
        """Return a command of rayfed."""
        return cls(folder, [sys.executable, "-m", "rayfed", *words])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._look()
        self.process.kill()
        for left in self.known.values():
            with suppress(psutil.NoSuchProcess):
                left.kill()
        self.process.wait()
        self.errors.close()

    def begun(self) -> bool:
        """Wait until a run has begun or gone on; return whether it has."""
        return self._until(lambda: any(self._is_new(path) for path in self._records()), BEGIN_S)

    def strike(self, kind: str, number: int) -> bool:
        """Wait for a process of a kind and send it a signal; return whether there was one.

        Parameters
        ----------
        kind : "main", "worker", "driver", "client", "raylet" or "gcs"
        number : int
            The signal.
        """
        if not self._until(lambda: bool(self._found(kind)), BEGIN_S):
            return False
        with suppress(psutil.NoSuchProcess):
            self._look()  # who dies with it must be known to have ended, too
            self._found(kind)[0].send_signal(number)
            return True
        return False

    def wait(self) -> int | None:
        """Wait for its end and return its exit status; None if it takes longer than `END_S`."""
        end = time.monotonic() + END_S
        while time.monotonic() < end:
            self._look()
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(timeout=0.2)
        return None

    def left(self) -> list[str]:
        """Return the processes that it has started and that do not end after it."""
        _, left = psutil.wait_procs(list(self.known.values()), timeout=GONE_S)
        return [" ".join(_words(process))[:80] for process in left]

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            if condition():
                return True
            time.sleep(_LOOK_S)
        return False

    def _records(self) -> list[Path]:
        return list(self.folder.glob("*/run.json"))

    def _is_new(self, path: Path) -> bool:
        with suppress(OSError):
            return path.stat().st_mtime_ns != self.before.get(path)
        return False

    def _look(self) -> None:
        """Note all processes that came of this one."""
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.process.pid)
            self.known |= {process.pid: process for process in main.children(recursive=True)}

    def _found(self, kind: str) -> list[psutil.Process]:
        if kind == "main":
            return [psutil.Process(self.process.pid)]
        self._look()
        return [p for p in self.known.values() if _MARKS[kind] in " ".join(_words(p))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline()) if process.status() != psutil.STATUS_ZOMBIE else []
    except psutil.Error:
        return []


def set_executor(folder: Path, executor: Any) -> Any:
    """Let another executor run the study of a folder from now on; return the one before."""
    file = folder / "scenario.yaml"
    scenario = yaml.safe_load(file.read_text(encoding="utf-8"))
    before = scenario.get("executor")
    file.write_text(yaml.safe_dump(scenario | {"executor": executor}), encoding="utf-8")
    return before


SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}
