"""Costs of a study: processes, memory, disk and traffic, before anything is started."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.gossip import Gossip
from rayfed.algorithms.meeting import Meeting
from rayfed.clients.host import state_bytes
from rayfed.clients.stacks import GRAMS_BYTES, STACKS_BYTES
from rayfed.clients.store import PIECE
from rayfed.core.errors import ScenarioError
from rayfed.core.machine import SCRATCH, available_bytes, in_words, scratch_folder
from rayfed.datasets.shards import PARTS
from rayfed.engine.channel import ServerChannel
from rayfed.engine.correction import Correction
from rayfed.engine.run import ENDLESS, Run
from rayfed.executors.layout import actors_by_node, host_count
from rayfed.messages import Ask
from rayfed.study.scenario.parts import Executor

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
"""Of a busy client actor or combiner."""
_PAGE, _FOLDER, _ROW, _EVENT = 6 * 2**20, 2**15, 150, 40
"""Bytes of a page, of a run's small files, and of a row of ``rounds`` and of ``events``."""
_LOCAL_COPIES = 6
"""Arrays of a model that a local solve has at once: the models, their start, gradients, steps."""


@dataclass(frozen=True)
class Processes:
    """Number of processes and their memory.

    Parameters
    ----------
    actors, combiners, runners : int
        Client actors, combiners, and drivers or workers other than this process.
    hosts : int
        Processes that compute for the clients of a run: the actors, and its driver if that hosts
        clients; this process, or a worker.
    memory : int
        Bytes, with a margin above the measured values.
    """

    actors: int
    combiners: int
    runners: int
    hosts: int
    memory: int

    @classmethod
    def of(
        cls, executor: Executor, runs: Sequence[Run], cpus: int, nodes: Sequence[int] = ()
    ) -> Processes:
        """Return those of a placement.

        Parameters
        ----------
        executor : Executor
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
        memory += OWN_BYTES if executor.address is None else 0  # a cluster's run already
        memory += (actors + runners) * library
        return cls(actors, combiners, runners, hosts, memory)


def _clients(runs: Sequence[Run]) -> int:
    return max(run.federation.clients.count for run in runs)


def _combiners(actors: int, nodes: Sequence[int]) -> int:
    """Return the number of nodes with several actors; 0 on a single node."""
    cpus = {str(number): float(of_node) for number, of_node in enumerate(nodes)}
    placed = actors_by_node(actors, cpus, {}, {})
    return sum(n > 1 for n in placed.values()) if len(placed) > 1 else 0


@dataclass(frozen=True)
class Cost:
    """A forecast.

    Parameters
    ----------
    processes : Processes
    data, state, copies : int
        Bytes of memory in addition to the processes themselves: of the tables, and of the rows that
        are kept for computing; of client state at its most, with what a checkpoint reads; of the
        copies of the model that computing and averaging take.
    scratch, results, checkpoints : int
        Bytes on the disk: of client state in files, of the records, of the checkpoints.
    down, up : int
        Simulated bytes of all clients, rounds and runs, as ``rounds.parquet`` counts them, if every
        round asks its cohort once.
    rounds_known : bool
        Whether the number of rounds is known; if not, amounts that grow with it are of a single
        round.
    """

    processes: Processes
    data: int
    state: int
    copies: int = 0
    scratch: int = 0
    results: int = 0
    checkpoints: int = 0
    down: int = 0
    up: int = 0
    rounds_known: bool = True

    @property
    def memory(self) -> int:
        """Bytes of memory in all."""
        return self.data + self.state + self.copies + self.processes.memory

    @classmethod
    def of(
        cls,
        executor: Executor,
        runs: Sequence[Run],
        tables: Mapping[str, Any],
        cpus: int,
        nodes: Sequence[int] = (),
    ) -> Cost:
        """Forecast, with room.

        Parameters
        ----------
        executor : Executor
        runs : sequence of Run
        tables : mapping of str to Rows
        cpus : int
            In all.
        nodes : sequence of int
            CPUs of each node of a cluster.
        """
        each = [_RunCost(run) for run in runs]
        processes = Processes.of(executor, runs, cpus, nodes)
        actors, concurrent = processes.actors, max(1, processes.runners)
        state = concurrent * max(run.state for run in each)
        room = state_bytes(executor.memory_gb)
        pieces = concurrent * max(run.piece for run in each) * (4 if actors else 3)
        return cls(
            processes,
            data=_rows_bytes(runs, tables, processes.hosts, concurrent),
            # arrays grow by doubling
            state=min(2 * state, room) + pieces,
            copies=concurrent * max(run.copies(processes.hosts, actors) for run in each),
            scratch=state if 2 * state > room else 0,
            results=_PAGE + sum(run.records for run in each),
            checkpoints=sum(run.checkpoints for run in each),
            down=sum(run.down for run in each),
            up=sum(run.up for run in each),
            rounds_known=all(run.ending.rounds < ENDLESS for run in runs),
        )

    def check(self, available: int | None = None, scratch: int | None = None) -> None:
        """Refuse studies that exceed the memory or the scratch disk.

        Parameters
        ----------
        available, scratch : int, optional
            Bytes of free memory and of free disk space; those of this machine if None.

        Raises
        ------
        ScenarioError
            If more is needed than there is.
        """
        if available is None:
            available = available_bytes()
        if self.memory > available:
            remedy = "fewer clients or a smaller model"
            if 2 * self.state > self.memory:
                remedy = f"a smaller executor.memory_gb, {remedy}"
            if self.processes.actors:
                remedy = f"a larger executor.clients_per_actor, {remedy}"
            raise ScenarioError(
                "executor",
                f"needs about {in_words(self.memory)} of memory ({self.processes.actors} actors), "
                f"but {in_words(available)} are available; use {remedy}",
            )
        free = _free(scratch_folder()) if scratch is None else scratch
        if self.scratch > free:
            raise ScenarioError(
                "executor",
                f"client state needs {in_words(self.scratch)} of scratch space, but "
                f"{scratch_folder()} has {in_words(free)}; set {SCRATCH} to a folder with more, or "
                "use fewer clients",
            )

    def check_disk(self, folder: Path, free: int | None = None) -> None:
        """Refuse results that do not fit the disk.

        Parameters
        ----------
        folder : Path
            The result folder, which need not exist.
        free : int, optional
            Bytes of free disk space there; those that there are if None.

        Raises
        ------
        ScenarioError
            If more is needed than there is.
        """
        needed = self.results + self.checkpoints
        if self.scratch and _device(folder) == _device(scratch_folder()):
            needed += self.scratch
        free = _free(folder) if free is None else free
        if needed > free:
            raise ScenarioError(
                str(folder),
                f"results, checkpoints and scratch files need about {in_words(needed)}, but "
                f"{in_words(free)} are free; write them to another disk, or use fewer runs or "
                "clients",
            )


class _RunCost:
    """Bytes that a run takes; of its Asks only the first is looked at.

    Attributes
    ----------
    model, server : int
        Of the model, and of the server's state.
    sent, uploads, kept : int
        Of what a client downloads, uploads and keeps; codecs do not change these arrays.
    flight : int
        Tasks whose models the server keeps at most, where tasks may end in a later row: those under
        way, and those that wait in a buffer.
    state : int
        Of the state of all clients that are touched.
    nodes : int
        Nodes without a server, whose messages the driver holds.
    down, up : int
        Of the traffic of all rounds.
    rows : int
        Of the tables.
    """

    def __init__(self, run: Run) -> None:
        algorithm, x0, ask = run.training.algorithm, run.training.x0, run.first_ask()
        count, asked = run.federation.population.count, run.asked
        wanted, self.flight = run.participation.cohort or count, 0
        if isinstance(algorithm, Asynchronous):
            wanted = asked
            ways = 2 if algorithm.overlap else 1  # computing, and sending
            self.flight = ways * (algorithm.concurrency or count) + asked - 1
        elif run.participation.late == "stale":
            self.flight = asked
        self.model, self.server = max(1, x0.nbytes), _bytes(algorithm.init(x0))
        self.sent = 0 if ask is None else ask.bytes_down
        self.uploads = 0 if ask is None else ask.bytes_up(x0.itemsize)
        self.row = _bytes(run.initial)
        self.state = self.row * min(count, wanted * run.ending.rounds)
        self.stack, self.iterates = min(run.block, count), algorithm.evaluate_last
        rounds = run.ending.rounds if run.ending.rounds < ENDLESS else 1
        most = asked * (1 + run.participation.retries)
        per_round = 0 if algorithm.centralised else most * rounds
        down, up = _travels(run, ask)
        self.down, self.up = down * per_round, up * per_round
        self.nodes = count if isinstance(algorithm, Gossip | Meeting) else 0
        if isinstance(algorithm, Meeting):
            most = algorithm.meetings or count
            self.down = self.up = self.uploads * (1 + algorithm.answers) * most * rounds
        elif (graphs := run.federation.graphs) is not None and algorithm.gossip:
            most, messages = (count, len(graphs.of(0).arcs)) if self.nodes else (1, 1)
            self.down = self.up = up * messages * rounds
        self.rows = rounds * (_ROW + _EVENT * most)

    @property
    def piece(self) -> int:
        """Bytes of client state that travel at once."""
        return min(self.state, max(PIECE, self.row))

    @property
    def records(self) -> int:
        """Bytes of tables, small files and the final model."""
        return self.rows + _FOLDER + self.model + self.server

    @property
    def checkpoints(self) -> int:
        """Bytes of the checkpoints: two of the server, and outdated client files."""
        single = self.row > PIECE // 2  # such rows are replaced one by one
        server = self.server + (self.iterates - 1) * self.model + self.flight * self.sent
        return 2 * server + self.state * (2 if single else 3)

    def copies(self, hosts: int, actors: int) -> int:
        """Return the bytes of the copies of the model in all processes.

        Parameters
        ----------
        hosts : int
            Processes that compute for clients.
        actors : int
            How many of them are client actors.
        """
        local = self.stack * (_LOCAL_COPIES * self.model + 2 * (self.row + self.uploads))
        served = 2 * (self.server + self.uploads) + (self.iterates + 2) * self.model
        stored = self.sent + actors * self.uploads if actors else 0  # in Ray's object store
        messages = 3 * self.nodes * self.uploads  # as they come, joined, and mixed
        return hosts * local + served + messages + self.flight * self.sent + stored


def _travels(run: Run, ask: Ask | None) -> tuple[int, int]:
    """Return the bytes that a client that has taken part before downloads and uploads."""
    if ask is None:
        return 0, 0
    if run.private is not None:
        ask = run.private.sent(ask, run.private.init())
    client = np.zeros(1, dtype=np.int64)
    before = {"clients": client, "versions": client}  # it has started from the first model
    sizes = ServerChannel(run, Correction(run)).traffic(ask, client, before, version=1)
    if ask.share is not None:
        sizes = sizes.times(ask.share(np.arange(run.federation.population.count)))
    return math.ceil(np.mean(sizes.down)), math.ceil(np.mean(sizes.up))


def _rows_bytes(runs: Sequence[Run], tables: Mapping[str, Any], hosts: int, concurrent: int) -> int:
    """Return the bytes of rows in the processes of a study.

    A table exists twice while it is put into shared memory. Later each run keeps stacks of rows
    that recur at its hosts, gathered or made on demand, and Gram matrices.

    Parameters
    ----------
    hosts : int
        Processes that compute for the clients of a run.
    concurrent : int
        Concurrent runs.
    """
    each = [int(table.X.nbytes + table.y.nbytes) for table in tables.values()]
    recurring = 2 * max([sum(each), *map(_made_bytes, runs)])
    stacks = concurrent * min(recurring, hosts * (STACKS_BYTES + GRAMS_BYTES))
    return sum(each) + max([stacks, *each])


def _made_bytes(run: Run) -> int:
    """Return the bytes of rows that are made on demand, and recur; those of tables are none."""
    shards, clients = run.federation.views.evaluation.shards, run.federation.clients.count
    if shards.held:
        return 0
    cohort = run.participation.cohort or clients
    asked = clients if cohort >= clients else len(run.measuring.evaluated)
    rows = sum(map(shards.total, PARTS)) * asked // clients
    return rows * (shards.features + 1) * shards.dtype.itemsize


def _bytes(arrays: Mapping[str, Any]) -> int:
    return sum(np.asarray(values).nbytes for values in arrays.values())


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists.

    A name that the file system refuses does not exist; the error is raised when the folder is made.
    """
    folder = folder.absolute()
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _free(folder: Path) -> int:
    return shutil.disk_usage(_existing(folder)).free


def _device(folder: Path) -> int:
    return _existing(folder).stat().st_dev
