"""The client actor. A file of its own: what it imports decides what each actor costs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from threadpoolctl import threadpool_limits

from rayfed.host import Failure, Host, Partial, Request, Setup, UnknownRun
from rayfed.problems.base import Array


class HostActor:
    """A client actor: a `Host` in a process of its own, with one BLAS thread."""

    def __init__(self, owned: list[tuple[int, int]]) -> None:
        threadpool_limits(1)
        self.host = Host(owned)

    def ready(self) -> int:
        """Return the process id."""
        return os.getpid()

    def open(self, key: str, setup: Setup, rows: Mapping[str, Array] | None, *tables: Any) -> None:
        """Begin a run; its tables come from the object store, shared without copies."""
        self.host.open(key, setup.with_tables(tables), rows)

    def exchange(
        self, key: str, request: Request, send: Mapping[str, Array]
    ) -> Partial | Failure | UnknownRun:
        """Answer an Ask for the clients that live here."""
        try:
            return self.host.exchange(key, request, send)
        except UnknownRun as error:
            return error

    def snapshot(self, key: str) -> dict[str, Array] | UnknownRun:
        """Return client state that changed since the last snapshot."""
        try:
            return self.host.snapshot(key)
        except UnknownRun as error:
            return error

    def close(self, key: str) -> None:
        """Forget a run."""
        self.host.close(key)
