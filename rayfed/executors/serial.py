"""The serial executor: one host with all clients in this process, no Ray."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rayfed.clients.host import Host, state_bytes
from rayfed.clients.prints import DIRECT, Labelled
from rayfed.clients.request import Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import PIECE, StateRows
from rayfed.core.arrays import Array
from rayfed.core.tree import EVERY
from rayfed.executors.base import Executor, Gathered, gather
from rayfed.executors.profile import Profile


class SerialExecutor(Executor):
    """An executor with one host in the process itself.

    Parameters
    ----------
    tables : mapping of str to Rows
        The tables of the study, by name.
    memory_gb : float, optional
        Memory that client state may take, in 10^9 bytes; see `state_bytes`.
    debug : bool
        Whether the output of client functions is left alone, which a debugger needs; else it gets
        its client and round in front.
    """

    def __init__(
        self, tables: Mapping[str, Any], memory_gb: float | None = None, debug: bool = False
    ) -> None:
        self.host = Host(state_bytes(memory_gb))
        self.tables, self.prints = tables, DIRECT if debug else Labelled()

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run, or begin it again from the client state of a checkpoint."""
        self.host.open(key, setup.with_tables(self.tables), EVERY)
        for rows in pieces:
            self.host.restore(key, rows)

    def change(self, key: str, setup: Setup) -> None:
        """Continue a run with another setup; clients keep their rows and their state."""
        self.host.change(key, setup.with_tables(self.tables))

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client functions of an Ask."""
        return gather(request, [(None, self.host.exchange(key, request, send, self.prints))])

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield client state that changed since the last snapshot, in pieces."""
        more = True
        while more:
            rows, more = self.host.snapshot(key, PIECE)
            yield rows

    def close(self, key: str) -> None:
        """Forget a run."""
        self.host.close(key)

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        profile.watch(self, "exchange", "adding up")
        profile.watch(self.host, "exchange", "computing")
