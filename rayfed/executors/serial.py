"""Everything in this process: one host with all clients, no Ray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayfed.clients.host import Host
from rayfed.clients.request import Request
from rayfed.clients.setup import Setup
from rayfed.core.arrays import Array
from rayfed.executors.base import Gathered, gather


class SerialExecutor:
    """An executor with one host in the process itself.

    Parameters
    ----------
    tables : mapping of str to Rows
        The tables of the study, by name.
    """

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.host = Host([(0, 1)])
        self.tables = tables

    def open(self, key: str, setup: Setup, rows: Mapping[str, Array] | None = None) -> None:
        """Begin a run, or begin it again from the client state of a checkpoint."""
        self.host.open(key, setup.with_tables(self.tables), rows)

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask."""
        return gather(request, [(None, self.host.exchange(key, request, send))])

    def snapshot(self, key: str) -> dict[str, Array]:
        """Return client state that changed since the last snapshot."""
        return self.host.snapshot(key)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.host.close(key)
