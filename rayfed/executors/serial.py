"""Everything in this process: one host with all clients, no Ray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayfed.clients.host import Host, Request, Setup
from rayfed.core.arrays import Array
from rayfed.executors.base import Gathered, gather


class SerialExecutor:
    """An executor with one host in the process itself.

    Parameters
    ----------
    tables : mapping of str to Table
        The tables of the study.
    data : mapping of str to str
        For each view of the run the name of its table.
    """

    def __init__(self, tables: Mapping[str, Any], data: Mapping[str, str]) -> None:
        self.host = Host([(0, 1)])
        self.tables, self.data = tables, data

    def open(self, key: str, setup: Setup, rows: Mapping[str, Array] | None = None) -> None:
        """Begin a run, or begin it again from the client state of a checkpoint."""
        tables = [self.tables.get(self.data.get(name, "")) for name in setup.views]
        self.host.open(key, setup.with_tables(tables), rows)

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client halves of an Ask."""
        return gather(request, [(None, self.host.exchange(key, request, send))])

    def snapshot(self, key: str) -> dict[str, Array]:
        """Return client state that changed since the last snapshot."""
        return self.host.snapshot(key)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.host.close(key)
