"""The host: keeps some clients, their rows and their state, and runs their halves of an Ask.

It lives in a client actor, one or many clients to an actor, or in the process itself. It imports
little on purpose: what an actor imports decides what an actor costs.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from rayfed.clients.clients import Stacks
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import Store
from rayfed.clients.task import ClientError, Task
from rayfed.core.arrays import Array


class UnknownRun(Exception):
    """The host does not know the run: it was started anew and must be restored."""


@dataclass(frozen=True)
class HostedRun:
    """What a host keeps of one run: its set-up, the clients' state, and stacks of rows."""

    setup: Setup
    store: Store
    stacks: Stacks = field(default_factory=Stacks)


class Host:
    """Keeps the clients of any number of runs, keyed by run.

    Parameters
    ----------
    classes : list of (residue, modulus)
        Residue classes of the ids of the clients that live here.
    """

    def __init__(self, classes: list[tuple[int, int]]) -> None:
        self.classes = classes
        self.runs: dict[str, HostedRun] = {}

    def open(self, key: str, setup: Setup, rows: Mapping[str, Array] | None = None) -> None:
        """Begin a run, or begin it again with the client state of a checkpoint."""
        store = Store(setup.initial)
        if rows is not None and len(rows["ids"]):
            store.put(rows["ids"], {k: v for k, v in rows.items() if k != "ids"})
            store.dirty.clear()
        self.runs[key] = HostedRun(setup, store)

    def close(self, key: str) -> None:
        """Forget a run."""
        self.runs.pop(key, None)

    def snapshot(self, key: str) -> dict[str, Array]:
        """Return the client state that changed since the last snapshot."""
        return self._run(key).store.changed()

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Partial | Failure:
        """Run the client half of an Ask for the clients that live here."""
        run = self._run(key)
        task = Task(run.setup, run.store, run.stacks, request, send)
        try:
            classes = self.classes if request.classes is None else request.classes
            branches = [b for r, m in classes for b in task.branch(r, m)]
        except ClientError as error:
            return Failure(error.client, error.trace)
        except Exception:  # no client half is to blame
            return Failure(int(request.ids[0]), traceback.format_exc())
        if request.sleep_s is not None and len(request.ids):
            time.sleep(float(request.sleep_s.max()))
        return Partial(branches, task.each)

    def _run(self, key: str) -> HostedRun:
        if key not in self.runs:
            raise UnknownRun(key)
        return self.runs[key]
