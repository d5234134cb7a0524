"""Clients in Ray actors, on this machine or on a cluster.

One pool of client actors serves all runs of a study; each actor is a `Host` that owns residue
classes of client ids. Driver actors, on the machine that submitted, take one run after the other
and write its records there. Ray starts a dead client actor anew under the same handle, but empty
and without repeating any call: the drivers roll back and replay. As nodes come and go, drivers are
given another pool.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayfed.core.errors import RayfedError, clipped
from rayfed.core.machine import cpus
from rayfed.core.sources import NO_SOURCES, Sources
from rayfed.core.threads import one_thread, own_process
from rayfed.engine.run import Run
from rayfed.executors.calls import reason_of
from rayfed.executors.layout import host_count
from rayfed.executors.orphan import end_with_parent
from rayfed.executors.ray_host import RayHost
from rayfed.executors.ray_pool import Pool, RayExecutor
from rayfed.runs.backend import Backend, Report, RunProgress
from rayfed.runs.driver import Driver
from rayfed.runs.files.checkpoints import MANIFESTS
from rayfed.runs.files.folder import writing
from rayfed.runs.files.place import shown
from rayfed.runs.files.run_json import log, record_failure
from rayfed.runs.logger import LogLine, forward, logger
from rayfed.runs.ray.actors import StudyActors, alive
from rayfed.runs.ray.node import joined, start

_START_S = 60.0  # without one more actor: they are not slow, they wait for CPUs
_DRIVERS = 3  # that a run may lose without a checkpoint in between
_LINES = 10_000  # of client functions and of the log that a driver keeps until they are fetched
_LOOK_S = 0.25  # between looks at Ray itself, and at the runs
_NODES_S = 1.0  # between looks at the nodes of a cluster


class DriverActor:
    """Runs one run after the other; answers about its progress meanwhile."""

    def __init__(
        self, out: str, clients: int, level: int, hosting: tuple[float | None, int] | None,
        sources: Sources = NO_SOURCES,
    ) -> None:  # fmt: skip
        own_process()
        end_with_parent()
        sources.install()
        self.out, self.clients = Path(out), clients
        self.own = None if hosting is None else RayHost(*hosting)
        self.pool: Pool | None = None
        self.driver: Driver | None = None
        self.executor: RayExecutor | None = None
        self.changing = threading.Lock()
        self.stopped = False
        self.lines: deque[str | LogLine] = deque(maxlen=_LINES)
        forward(level, self.lines.append)

    def execute(self, run: Run, tables: Mapping[str, Any], resume: bool, pool: Pool) -> str:
        """Run to the end, and return the outcome, see `Driver.execute`."""
        with writing(self.out / run.folder), one_thread():
            with self.changing:
                pool = self._newest(pool)
                self.executor = RayExecutor(pool, self.clients, tables, self.lines.append, self.own)
            self.driver = Driver(run, self.out, self.executor)
            if self.stopped:
                self.driver.stop()
            return self.driver.execute(resume)

    def news(self) -> tuple[RunProgress | None, list[str | LogLine]]:
        """Return the progress of the current run, and the output since the last call.

        What client functions printed is text.
        """
        lines = [self.lines.popleft() for _ in range(len(self.lines))]
        return None if self.driver is None else self.driver.progress, lines

    def use(self, pool: Pool) -> None:
        """Use other hosts from the next checkpoint on, or at once where one was lost."""
        with self.changing:
            newest = self._newest(pool)
            if self.executor is not None and self.executor.pool.version < newest.version:
                self.executor.offer(newest)

    def _newest(self, pool: Pool) -> Pool:
        """Return the newest pool of those that were given."""
        if self.pool is None or pool.version > self.pool.version:
            self.pool = pool
        return self.pool

    def stop(self) -> None:
        """Checkpoint and end the current run."""
        self.stopped = True
        if self.driver is not None:
            self.driver.stop()


class RayStudy(Backend):
    """Runs the runs of a study on one pool of actors.

    Parameters
    ----------
    clients : int
        Number N of clients.
    clients_per_actor : int or "auto"
        1: each client an actor of its own; "auto": one process to a CPU.
    address : str, optional
        An existing cluster ("auto" or host:port); a private one on this machine if None.
    out : Path
        The study's result folder, on this machine.
    modules : sequence of modules
        The user's own modules, whose sources are sent to all actors.
    memory_gb : float, optional
        Memory that client state may take on each node, in 10^9 bytes.
    gpus : float
        GPUs, or the share of one, of each client actor.
    runs : int
        How many runs there will be: their drivers start together with the client actors.
    say : callable
        Is given a line when the nodes of the cluster have changed.
    hosting_driver : bool
        Whether the driver of a run hosts a share of the clients, in the place of a client actor.
    """

    def __init__(
        self,
        clients: int,
        clients_per_actor: int | str,
        address: str | None,
        out: Path,
        modules: Sequence[ModuleType] = (),
        memory_gb: float | None = None,
        gpus: float = 0.0,
        runs: int = 0,
        say: Callable[[str], None] = lambda line: None,
        hosting_driver: bool = False,
    ) -> None:
        if address is not None and address.startswith("ray://"):
            raise RayfedError(
                f"--address {address}: records land on this machine, so it must be a node of the "
                "cluster; run `ray start --address=<head>` here and pass --address auto"
            )
        self.out, self.say = out, say
        self.shared: dict[str, Any] = {}
        self.mapped: dict[str, dict[str, Any]] = {}
        self.drivers: list[Any] = []
        self.idle: list[Any] = []
        self.sources = Sources.of(modules)
        self.study_actors = StudyActors(clients, clients_per_actor, memory_gb, gpus, self.sources)
        self.looked, self.version = time.monotonic(), self.study_actors.version
        self.lost_at: float | None = None
        self.started = not ray.is_initialized()
        self.alone = self.started and address is None  # no node comes or goes
        if self.started:
            self.node = start(address, host_count(clients, clients_per_actor, cpus()))
        else:
            self.node = joined()
        try:
            self.study_actors.begin(alive(), self._here() if hosting_driver else None, runs)
            self.idle += [self._start_driver() for _ in range(min(runs, self.study_actors.cpus))]
        except BaseException:
            self.close()
            raise

    def wait(self, report: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Wait until all client actors have started.

        Raises
        ------
        RayfedError
            If one cannot start, or others on the cluster hold the CPUs that they wait for.
        """
        waiting, total = self.study_actors.starting, len(self.study_actors.actors)
        self.lost_at = None
        while waiting:
            done, waiting = self._first(waiting)
            if not done and not self.alone:  # else nothing but these actors holds CPUs
                self._check_room(len(waiting))
            try:
                ray.get(done)
            except RayError as error:
                self._drop_nodes(error)
                waiting, total = self.study_actors.ask_again(), len(self.study_actors.actors)
            report(max(0, total - len(waiting)), total)  # combiners start last
        self.study_actors.started()

    def _drop_nodes(self, error: RayError) -> None:
        """Do without nodes that have gone meanwhile, once Ray knows; else an actor cannot start."""
        nodes = alive()
        if self.study_actors.by_node.keys() <= nodes.keys():
            self.lost_at = self.lost_at or time.monotonic()
            known = not isinstance(error, ActorUnavailableError)
            if not known and time.monotonic() - self.lost_at < _START_S:
                time.sleep(_LOOK_S)
                return
            text = f"a client actor cannot start: {reason_of(error)}"
            raise RayfedError(f"executor: {text}; is rayfed installed on all nodes?") from error
        for line in self.study_actors.look(nodes):
            self.say(line)
        if not self.study_actors.processes:
            raise RayfedError("executor: no node is left to start client actors on") from error

    def _first(self, refs: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the first reference that is ready, none after `_START_S`, and the others."""
        end = time.monotonic() + _START_S
        while True:
            self.check()
            done, waiting = ray.wait(refs, num_returns=1, timeout=_LOOK_S)
            if done or time.monotonic() > end:
                return done, waiting

    def check(self) -> None:
        """Raise RayfedError if Ray itself has ended: nothing can be started any more."""
        server = self.node.lost()
        if server is not None:
            raise RayfedError(
                f"Ray's {server} has ended; was it killed, or is the memory exhausted? What was "
                f"recorded is kept, resume with: rayfed resume {shlex.quote(shown(self.out))}"
            )

    def follow(self) -> list[str]:
        """Follow the nodes of a cluster, give drivers the current pool, and log changes."""
        if self.alone or time.monotonic() - self.looked < _NODES_S:
            return []
        lines = list(self.study_actors.look(alive()))
        self.looked = time.monotonic()
        pool = self.study_actors.pool()
        if self.version != self.study_actors.version and self.study_actors.processes:
            self.version = self.study_actors.version
            for driver in self.drivers:
                driver.use.remote(pool)
        return lines

    def listens(self) -> str:
        """Return on which addresses Ray listens, in one line."""
        return self.node.listens()

    def _check_room(self, waiting: int) -> None:
        """Refuse to wait for CPUs that others hold."""
        free = ray.available_resources().get("CPU", 0.0)
        if free < self.study_actors.share:
            raise RayfedError(
                f"executor: {waiting} client actors wait for {self.study_actors.share:g} CPU "
                f"each, but of {self.study_actors.cpus} CPUs {free:g} are free; end what holds "
                "them, or use a larger executor.clients_per_actor"
            )

    def execute(
        self,
        runs: Sequence[Run],
        tables: dict[str, Any],
        resume: bool,
        report: Report,
    ) -> dict[str, str]:
        """Run all runs, several at a time, and return the outcome of each by folder."""
        self._share(tables)
        try:
            return _Queue(self, runs, self.shared, resume).run(report)
        finally:
            self._end_drivers()

    def _share(self, tables: dict[str, Any]) -> None:
        """Put tables into the object store, and replace them by mappings of it."""
        for name in tables.keys() - self.shared.keys():
            self.mapped[name] = tables
            self.shared[name] = ray.put(tables[name])
            tables[name] = ray.get(self.shared[name])

    def driver(self) -> Any:
        """Return a driver actor, one that was started early if there is one."""
        return self.idle.pop() if self.idle else self._start_driver()

    @staticmethod
    def _here() -> str:
        """Return Ray's name of this node."""
        return str(ray.get_runtime_context().get_node_id())

    def _start_driver(self) -> Any:
        """Start a driver actor on this node, where the records land."""
        here = NodeAffinitySchedulingStrategy(self._here(), soft=False)
        actor = ray.remote(num_cpus=0, max_concurrency=2)(DriverActor)
        handle = actor.options(scheduling_strategy=here).remote(
            str(self.out.resolve()),
            self.study_actors.clients,
            logger.getEffectiveLevel(),
            self.study_actors.hosting(),
            self.sources,
        )
        self.drivers.append(handle)
        return handle

    def close(self) -> None:
        """End the actors, and Ray where it was started here."""
        self._end_drivers()
        for actor in self.study_actors.end():
            self._end(actor)
        try:
            while self.mapped:  # without Ray there is nothing behind the arrays
                name, tables = self.mapped.popitem()
                tables[name] = deepcopy(tables[name])
                del self.shared[name]
        finally:
            if self.started:
                self.node.end()

    def _end_drivers(self) -> None:
        """End the drivers: each holds memory, and a later study starts its own."""
        self.idle.clear()
        while self.drivers:
            self._end(self.drivers.pop())

    def _end(self, actor: Any) -> None:
        if not self.node.lost():  # without Ray it ends by itself
            ray.kill(actor)


class _Queue:
    """Deals runs to drivers until all are done."""

    def __init__(
        self, study: RayStudy, runs: Sequence[Run], tables: Mapping[str, Any], resume: bool
    ) -> None:
        self.study, self.tables, self.resume = study, tables, resume
        self.waiting = list(runs)
        self.outcome: dict[str, str] = {}
        self.busy: dict[Any, tuple[Any, Run, int]] = {}
        self.progress: dict[str, RunProgress] = {}
        self.saved: dict[str, bytes] = {}  # the checkpoints that runs had when they lost a driver

    def run(self, report: Report) -> dict[str, str]:
        """Run everything and return the outcome of each run by folder."""
        wanted = min(len(self.waiting), self.study.study_actors.cpus)
        for driver in [self.study.driver() for _ in range(wanted)]:
            self._deal(driver)
        try:
            while self.busy:
                done, _ = ray.wait(list(self.busy), timeout=_LOOK_S)
                self._listen()
                for ref in done:
                    self._settle(ref)
                self._poll()
                report(self.progress, self.outcome)
        except KeyboardInterrupt:
            self._stop()
            raise
        return self.outcome

    def _listen(self) -> None:
        """Log Ray's messages, and check that its servers are alive."""
        node = self.study.node
        while node.messages:
            first, *_ = *node.messages.pop(0).splitlines(), ""  # dozens of lines of its log follow
            self._log(f"Ray: {clipped(first)}")
        server = node.lost()
        if server is not None:
            self._log(f"Ray's {server} has ended. {node.last_lines(server)}")
            self.study.check()
        for line in self.study.follow():
            self._log(line)
            self.study.say(line)

    def _log(self, line: str) -> None:
        for _, run, _ in self.busy.values():
            with suppress(OSError):
                log(self.study.out / run.folder, line)

    def _deal(self, driver: Any, run: Run | None = None, tries: int = 0) -> None:
        """Give a driver its next run."""
        if run is None:
            if not self.waiting:
                return
            run = self.waiting.pop(0)
        pool = self.study.study_actors.pool()
        ref = driver.execute.remote(run, self.tables, self.resume or tries > 0, pool)
        self.busy[ref] = (driver, run, tries)

    def _settle(self, ref: Any) -> None:
        """Note the outcome of a run, and give its driver the next one."""
        driver, run, tries = self.busy.pop(ref)
        self.progress.pop(run.folder, None)
        try:
            self.outcome[run.folder] = ray.get(ref)
            _news(driver.news.remote())  # what its last clients printed
        except RayActorError as error:  # the driver itself died: another goes on
            deaths = self._deaths(run, tries)
            if deaths <= _DRIVERS:
                self._deal(self.study.driver(), run, deaths)
                return
            died = RayfedError(f"it died {deaths} times: {reason_of(error)}")
            self._record_failure(run, died, error)
            driver = self.study.driver() if self.waiting else None
        except RayError as error:  # it could not even begin
            cause = error.cause if isinstance(error, RayTaskError) else error
            self._record_failure(run, cause, error)
        self._deal(driver)

    def _deaths(self, run: Run, before: int) -> int:
        """Count the drivers that a run has lost since its checkpoint, given the count before."""
        try:
            saved = (self.study.out / run.folder / "checkpoint" / MANIFESTS[0]).read_bytes()
        except OSError:
            saved = b""
        same = self.saved.get(run.folder, saved) == saved
        self.saved[run.folder] = saved
        return before + 1 if same else 1

    def _record_failure(self, run: Run, reason: Exception, error: RayError) -> None:
        """Let a run fail, and the others go on."""
        self.outcome[run.folder] = record_failure(run, self.study.out, reason, str(error))

    def _poll(self) -> None:
        """Ask the busy drivers for their progress."""
        asked = [(run.folder, driver.news.remote()) for driver, run, _ in self.busy.values()]
        for folder, ref in asked:
            progress = _news(ref)
            if progress is not None:
                self.progress[folder] = progress

    def _stop(self) -> None:
        """Let every driver checkpoint."""
        for driver, _, _ in self.busy.values():
            driver.stop.remote()
        ray.wait(list(self.busy), num_returns=len(self.busy), timeout=60)


def cluster_cpus(address: str) -> list[int]:
    """Return the CPUs of each node of an existing cluster, which is joined and left again.

    Raises
    ------
    RayfedError
        If it cannot be joined.
    """
    node = start(address, 0)
    try:
        return [max(1, int(node.cpus)) for node in alive().values()] or [1]
    finally:
        node.end()


def _news(ref: Any) -> RunProgress | None:
    """Write the output of a driver, and return its progress; None if it does not answer."""
    try:
        news: tuple[RunProgress | None, list[str | LogLine]] = ray.get(ref, timeout=2)
    except RayError:
        return None
    progress, lines = news
    for line in lines:
        if isinstance(line, LogLine):
            line.write()
        else:
            print(line, flush=True)
    return progress
