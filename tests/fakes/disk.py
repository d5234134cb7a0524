"""A disk that fails at its file operations: the process dies, the machine goes down, space ends.

Faults are put at the operations of the operating system that `rayfed.runs.files.store` uses, so
that they also hit in the middle of one of its functions.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

OPERATIONS = ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")
"""Functions of `os` that change what is on a disk."""


class Down(BaseException):
    """The process is dead, or the machine down: nothing may run any more."""


class Disk:
    """Counts the file operations of this process, and fails at some of them.

    Parameters
    ----------
    down_at : int, optional
        Number of the operation, from 1, from which on nothing is done any more; `Down` is raised.
    full : range
        Numbers of the operations for which there is no space; OSError is raised. What deletes
        files works on a full disk.
    """

    def __init__(self, down_at: int | None = None, full: range = range(0)) -> None:
        self.down_at, self.full = down_at, full
        self.count = 0

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Put the disk under this process."""
        operations: dict[str, Any] = {name: self._counted(name) for name in OPERATIONS}
        opened = mock.patch.object(io, "open", self._opened(io.open))
        with mock.patch.multiple(os, **operations), opened:
            yield

    def sync(self, handle: int) -> None:
        """Sync a file or a folder."""

    def _counted(self, name: str) -> Callable[..., Any]:
        operation = self.sync if name == "fsync" else getattr(os, name)
        deletes = name in ("rmdir", "unlink")

        def counted(*args: Any, **how: Any) -> Any:
            self._step(deletes=deletes)
            return operation(*args, **how)

        return counted

    def _opened(self, opened: Callable[..., Any]) -> Callable[..., Any]:
        def counted(file: Any, mode: str = "r", *args: Any, **how: Any) -> Any:
            if set(mode) & set("wax"):
                self._step()
            return opened(file, mode, *args, **how)

        return counted

    def _step(self, *, deletes: bool = False) -> None:
        """Count an operation, and fail if it is one of those that do."""
        self.count += 1
        if self.down_at is not None and self.count >= self.down_at:
            raise Down
        if self.count in self.full and not deletes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class ForgetfulDisk(Disk):
    """A disk that holds what was synced, and forgets the rest when the machine goes down.

    POSIX promises no more than this: of a file what was synced last, and of a folder the names that
    it held when it was synced last.

    Parameters
    ----------
    root : Path
        A folder that is on the disk.
    down_at : int
        As for `Disk`.
    """

    def __init__(self, root: Path, down_at: int) -> None:
        super().__init__(down_at)
        self.root = root
        self.files: dict[int, bytes] = {}
        self.folders: dict[int, dict[str, tuple[int, bool]]] = {}
        self.held: list[int] = []
        self._keep(root)

    def sync(self, handle: int) -> None:
        """Sync a file or a folder, and keep its number from being used again."""
        path = Path(f"/proc/self/fd/{handle}").resolve()
        if path.is_dir():
            names = {p.name: (_number(p), p.is_dir()) for p in path.iterdir()}
            self.folders[_number(path)] = names
        else:
            self.files[_number(path)] = path.read_bytes()
        self.held.append(os.open(path, os.O_RDONLY))

    def restore(self, out: Path) -> None:
        """Write into a new folder what is on the disk; close what was held open."""
        self._restore(_number(self.root), out)
        for handle in self.held:
            os.close(handle)
        self.held = []

    def _keep(self, folder: Path) -> None:
        """Take everything that a folder holds as synced."""
        names = {p.name: (_number(p), p.is_dir()) for p in folder.iterdir()}
        self.folders[_number(folder)] = names
        for path in folder.iterdir():
            self.held.append(os.open(path, os.O_RDONLY))
            if path.is_dir():
                self._keep(path)
            else:
                self.files[_number(path)] = path.read_bytes()

    def _restore(self, number: int, place: Path) -> None:
        place.mkdir()
        for name, (held, is_folder) in self.folders.get(number, {}).items():
            if is_folder:
                self._restore(held, place / name)
            else:
                (place / name).write_bytes(self.files.get(held, b""))


def _number(path: Path) -> int:
    return path.stat().st_ino
