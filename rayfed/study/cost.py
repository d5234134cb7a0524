"""What a placement will cost: processes and memory, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from rayfed.clients.clients import STACKS_BYTES
from rayfed.core.errors import ScenarioError
from rayfed.engine.run import Run
from rayfed.executors.placement import actor_count
from rayfed.study.parts import Executor

ACTOR_BYTES = 90 * 2**20
DRIVER_BYTES = 220 * 2**20


@dataclass(frozen=True)
class Cost:
    """A forecast of processes and memory.

    Parameters
    ----------
    actors, drivers : int
        Processes beside this one.
    data, state, processes : int
        Bytes of the tables, of client state at its most, and of the processes themselves.
    """

    actors: int
    drivers: int
    data: int
    state: int
    processes: int

    @property
    def memory(self) -> int:
        """Bytes in all."""
        return self.data + self.state + self.processes

    @classmethod
    def of(
        cls, executor: Executor, runs: Sequence[Run], tables: Mapping[str, Any], cpus: int
    ) -> Cost:
        """Forecast, with room: measured at work, an actor has 73 MB of its own, a driver 121."""
        data = sum(t.X.nbytes + t.y.nbytes for t in tables.values())
        state = max(_state_bytes(run) for run in runs)
        if executor.name == "serial":
            return cls(0, 0, data + min(data, STACKS_BYTES), state, DRIVER_BYTES)
        clients = max(run.federation.clients.count for run in runs)
        actors = actor_count(clients, executor.clients_per_actor, cpus)
        drivers = min(cpus, len(runs))
        processes = actors * ACTOR_BYTES + (drivers + 1) * DRIVER_BYTES
        # the tables are in this process and in the object store; runs go on side by side, and
        # each keeps stacks of rows in the actors
        stacks = drivers * min(data, actors * STACKS_BYTES)
        return cls(actors, drivers, 2 * data + stacks, drivers * state, processes)

    def check(self, available: int | None = None) -> None:
        """Refuse what cannot fit.

        Raises
        ------
        ScenarioError
            If more memory is needed than there is.
        """
        there = psutil.virtual_memory().available if available is None else available
        if self.memory > there:
            remedy = "fewer clients or a smaller model"
            if self.actors:
                remedy = f"a larger executor.clients_per_actor, {remedy}"
            raise ScenarioError(
                "executor",
                f"needs about {self.memory / 2**30:.1f} GiB of memory ({self.actors} actors), "
                f"but {there / 2**30:.1f} GiB are available; use {remedy}",
            )


def _state_bytes(run: Run) -> int:
    """Return the bytes that client state can grow to, its copies at a checkpoint included."""
    training, count = run.training, run.federation.clients.count
    row = sum(v.nbytes for v in training.algorithm.client_state(training.x0).values())
    cohort = run.participation.cohort or count
    touched = min(count, cohort * run.ending.rounds)
    return 3 * row * touched
