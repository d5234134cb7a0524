"""Memory of the processes of a study, before they hold rows, state or models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rayfed.engine.run import Run
from rayfed.executors.placement import actors_by_node, host_count
from rayfed.study.scenario.parts import ExecutorSection

_MIB = 2**20
HERE_BYTES = 240 * _MIB
"""Of this process, with pandas and Ray."""
RUNNER_BYTES = 110 * _MIB
"""Of a driver on Ray, or a worker with whole runs."""
_LIBRARY = 200 * _MIB
"""Of PyTorch, in each process that imports it."""


OWN_BYTES = 450 * _MIB
"""Of Ray's own programs on this machine; shared pages count once, here as above."""
ACTOR_BYTES = 80 * _MIB
"""Of a client actor or combiner at work."""


@dataclass(frozen=True)
class Processes:
    """How many processes there are, and their memory.

    Parameters
    ----------
    actors, combiners, runners : int
        Client actors, combiners, and drivers or workers beside this process.
    hosts : int
        Processes that compute for the clients of a run: the actors, and its driver if that hosts
        clients; this process, or a worker.
    memory : int
        Bytes, with room beside what was measured.
    """

    actors: int
    combiners: int
    runners: int
    hosts: int
    memory: int

    @classmethod
    def of(
        cls, executor: ExecutorSection, runs: Sequence[Run], cpus: int, nodes: Sequence[int] = ()
    ) -> Processes:
        """Return those of a placement.

        Parameters
        ----------
        executor : ExecutorSection
        runs : sequence of Run
        cpus : int
            In all.
        nodes : sequence of int
            CPUs of each node of a cluster; where there are several, combiners count.
        """
        library = _LIBRARY * any(run.training.problem.libraries for run in runs)
        here = HERE_BYTES + library
        if executor.name == "workers":
            wanted = cpus if executor.workers == "auto" else executor.workers
            runners = min(wanted, len(runs))
            return cls(0, 0, runners, 1, here + runners * (RUNNER_BYTES + library))
        if executor.name != "ray":
            return cls(0, 0, 0, 1, here)
        hosts = host_count(_clients(runs), executor.clients_per_actor, cpus)
        actors = hosts - executor.hosting_driver
        combiners, runners = _combiners(actors, nodes), min(cpus, len(runs))
        memory = here + (actors + combiners) * ACTOR_BYTES + runners * RUNNER_BYTES
        memory += OWN_BYTES if executor.address is None else 0  # a cluster's are there anyway
        memory += (actors + runners) * library
        return cls(actors, combiners, runners, hosts, memory)


def _clients(runs: Sequence[Run]) -> int:
    return max(run.federation.clients.count for run in runs)


def _combiners(actors: int, nodes: Sequence[int]) -> int:
    """Return on how many of several nodes there are several actors."""
    cpus = {str(number): float(of_node) for number, of_node in enumerate(nodes)}
    placed = actors_by_node(actors, cpus, {}, {})
    return sum(n > 1 for n in placed.values()) if len(placed) > 1 else 0
