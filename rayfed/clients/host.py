"""The host: keeps some clients, their rows and their state, and runs their functions of an Ask.

It lives in a client actor, one or many clients to an actor, or in the process itself. It imports
little on purpose: what an actor imports decides what an actor costs.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rayfed.clients.function import ClientError
from rayfed.clients.near import SharedMessages
from rayfed.clients.prints import DIRECT, Prints
from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import PIECE, Memory, ScratchError, StateRows, Store
from rayfed.clients.task import HostedRun, Task
from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import RunFailed
from rayfed.core.machine import memory_bytes
from rayfed.core.plugins import raised
from rayfed.core.tree import Class

_STATE_SHARE = 0.25
"""Of the memory of a machine, for the state of its clients if nothing else is said."""


def state_bytes(memory_gb: float | None) -> int:
    """Return the bytes of memory that client state may take on this machine.

    Parameters
    ----------
    memory_gb : float, optional
        In 10^9 bytes; a quarter of the machine's memory if None.
    """
    return int(_STATE_SHARE * memory_bytes() if memory_gb is None else 1e9 * memory_gb)


class UnknownRun(Exception):
    """The host does not know the run: it was started anew and must be restored."""


class Host:
    """Keeps the clients of any number of runs, keyed by run.

    Parameters
    ----------
    memory : int, optional
        Bytes of memory that the clients' state may take, `state_bytes` if None; a state that does
        not fit them is in a scratch file.
    """

    def __init__(self, memory: int | None = None) -> None:
        self.memory = Memory(state_bytes(None) if memory is None else memory)
        self.runs: dict[str, HostedRun] = {}

    def open(self, key: str, setup: Setup, classes: Sequence[Class]) -> None:
        """Begin a run, or begin it again, with the clients of some residue classes."""
        self.close(key)
        self.runs[key] = HostedRun(setup, classes, Store(setup.initial, self.memory))

    def change(self, key: str, setup: Setup) -> None:
        """Continue a run with another setup; clients keep their rows and their state."""
        self.runs[key] = replace(self._run(key), setup=setup)

    def restore(self, key: str, rows: Mapping[str, Array]) -> None:
        """Take the state of some clients from a checkpoint.

        Raises
        ------
        RunFailed
            If an earlier version wrote it, by which clients had other state.
        """
        store = self._run(key).store
        if missing := sorted(store.initial.keys() - rows.keys()):
            text = f"clients had no '{missing[0]}' in the version that began it"
            raise RunFailed(f"{text}; run the study anew")
        store.put(rows["ids"], {name: rows[name] for name in store.initial})
        store.dirty.difference_update(rows["ids"].tolist())

    def close(self, key: str) -> None:
        """Forget a run."""
        if key in self.runs:
            self.runs.pop(key).store.close()

    def snapshot(self, key: str, most: int = PIECE, fewest: int = 1) -> tuple[StateRows, bool]:
        """Return client state that changed since it was last returned; see `Store.changed`."""
        return self._run(key).store.changed(most, fewest)

    def outgoing(self, key: str, ids: Ints) -> StateRows:
        """Return the messages of these nodes that live here, after a request that keeps them.

        Those of others may come with them.
        """
        return self._run(key).messages.of(ids)

    def shared(self, key: str) -> SharedMessages:
        """Return where other processes find the messages of all nodes that live here.

        Raises
        ------
        OSError
            If the system has no such memory.
        """
        return self._run(key).messages.share()

    def exchange(
        self, key: str, request: Request, send: Mapping[str, Array], prints: Prints = DIRECT
    ) -> Partial | Failure:
        """Run the client function of an Ask for the clients that live here.

        Where a request has a `mixing`, `send` has the messages of senders that live elsewhere, as
        `outgoing` returns them.
        """
        run = self._run(key)
        if request.keeps:
            run.messages.begin(request.ids)
        if request.mixing is not None:
            send = run.messages.mixed(request.mixing, send)
            request = replace(request, rows=np.arange(len(request.ids)), mixing=None)
        task = Task(run, key, request, send, prints)
        try:
            classes = run.classes if request.classes is None else request.classes
            branches = [b for r, m in classes for b in task.branch(r, m)]
        except ClientError as error:
            return Failure(error.client, error.trace, error.reason, prints.captured)
        except ScratchError:
            raise
        except Exception as error:  # no client function is to blame
            trace = traceback.format_exc()
            return Failure(int(request.ids[0]), trace, raised(error), prints.captured)
        if request.sleep_s is not None and len(request.ids):
            time.sleep(float(request.sleep_s.max()))
        return Partial(branches, task.each, prints.captured)

    def _run(self, key: str) -> HostedRun:
        if key not in self.runs:
            raise UnknownRun(key)
        return self.runs[key]
