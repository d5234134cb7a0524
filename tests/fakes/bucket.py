"""An object store in memory that fails: the process dies between two objects, or requests do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from tests.fakes.disk import Down

PROTOCOL = "bucket"
OPERATIONS = ("cp_file", "put_file", "rm_file")
"""What changes a store: every other operation of fsspec is made of them."""


class Bucket(MemoryFileSystem):  # type: ignore[misc]
    """Counts what changes it, and fails at some of that.

    Its objects are shared by all instances, and by ``memory://``.

    Attributes
    ----------
    down_at : int or None
        Number of the operation, from 1, from which on nothing is done any more; `Down` is raised.
    failing : range
        Numbers of the operations that fail; OSError is raised.
    done : list of (str, str)
        The operations that were done, each with the path that it made or deleted.
    """

    protocol = PROTOCOL
    cachable = False
    down_at: int | None = None
    failing: range = range(0)
    done: list[tuple[str, str]] = []  # noqa: RUF012
    count = 0

    def put_file(self, lpath: str, rpath: str, **how: Any) -> None:
        """Make or replace an object."""
        self._step()
        super().put_file(lpath, rpath, **how)
        self.done.append(("put", rpath))

    def cp_file(self, path1: str, path2: str, **how: Any) -> None:
        """Make or replace an object by another."""
        self._step()
        super().cp_file(path1, path2, **how)
        self.done.append(("copy", path2))

    def rm_file(self, path: str) -> None:
        """Delete an object."""
        self._step()
        super().rm_file(path)
        self.done.append(("delete", path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Delete objects one after the other."""
        for each in [path] if isinstance(path, str) else path:
            self.rm_file(self._strip_protocol(each))

    @classmethod
    def _step(cls) -> None:
        cls.count += 1
        if cls.down_at is not None and cls.count >= cls.down_at:
            raise Down
        if cls.count in cls.failing:
            raise OSError("the store is out of reach")


@contextmanager
def bucket(down_at: int | None = None, failing: range = range(0)) -> Iterator[type[Bucket]]:
    """Give URLs that begin with ``bucket://`` an empty store; see `Bucket`."""
    fsspec.register_implementation(PROTOCOL, Bucket, clobber=True)
    empty: dict[str, Any] = {"store": {}, "pseudo_dirs": [""], "done": [], "count": 0}
    with mock.patch.multiple(Bucket, **empty, down_at=down_at, failing=failing):
        yield Bucket
