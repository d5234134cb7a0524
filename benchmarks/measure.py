"""How a workload is measured.

A block is one run: its rounds are timed from inside (see `benchmarks.clocked`), from the Ask of
the second round to that of the last, so that whatever a round costs counts, records included, and
starting, the first round and the evaluations at both ends do not. Blocks and blocks of the bare
loop take turns, one as long as the other. Times are those of the fastest block, since other work
on the machine only ever makes a block slower. Comparisons are the median over the pairs of
neighbouring blocks, since the fastest of each may have had different company.

Memory is that of a block before, of whose times nothing counts but the start: to add up the pages
of all processes takes 30 to 80 ms of processor time, several times a second.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
import psutil

from benchmarks.bare import bare_seconds
from benchmarks.second import PlainActors, Second
from benchmarks.workloads import Column, Workload
from rayfed import api
from rayfed.core.errors import RayfedError
from rayfed.engine.run import Run
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import Backend
from rayfed.runs.files.outcome import reason
from rayfed.runs.modules import own_modules
from rayfed.runs.ray import imported as on_ray
from rayfed.runs.serial import SerialStudy
from rayfed.study.plan.plan import Plan

_LOOK_S = 0.2


@dataclass(frozen=True)
class Measured:
    """One case of a workload.

    Parameters
    ----------
    clients : int
        Number N of clients.
    updates : int
        Local trainings in a round.
    round_s, bare_s : float
        Seconds of a round, here and in the bare loop.
    overhead_ms : float
        Milliseconds of a round less the computing of its slowest actor and of the server; NaN where
        not metered.
    start_s : float
        From reading the scenario to the first Ask of the workload's first run.
    memory_gb : float
        Largest sum of the resident memory of this process and its children during a run, in
        10^9 bytes. On Linux a page that several of them share counts once.
    growth : float
        ``round_s`` over that of the workload's first case.
    ratio : float
        The bare loop's seconds over ours.
    of_pair : float
        Rounds over those that two bare loops do at once; NaN where one process runs.
    carrying : float
        What a round takes beside its computing over the bare loop's round; NaN where not metered.
    pair : float
        Rounds of two bare loops at once, in a process each, over those of one in the same time:
        what a second process is worth on this machine at this time. NaN where one process runs.
    of_actors : float
        Seconds of a round of two plain Ray actors with half of the bare loop each, over ours; NaN
        where that is not measured.
    """

    clients: int
    updates: int
    round_s: float
    bare_s: float
    overhead_ms: float
    start_s: float
    memory_gb: float
    growth: float
    ratio: float
    of_pair: float
    carrying: float
    pair: float
    of_actors: float

    def value(self, column: Column) -> float:
        """Return the number that a target is about."""
        return float(getattr(self, column))


@dataclass(frozen=True)
class Block:
    """What one run told: mean seconds of a round, and when it first asked."""

    rounds: int
    round_s: float
    compute_s: float
    asked_s: float

    @property
    def beside_s(self) -> float:
        """Mean seconds of a round beside its computing."""
        return self.round_s - self.compute_s


def measure(workload: Workload, repeats: int, second: Second | None = None) -> list[Measured]:
    """Measure every case of a workload.

    Parameters
    ----------
    repeats : int
        Blocks of each case.
    second : Second, optional
        A process that runs the bare loops at the same time; see `Measured.pair`.

    Raises
    ------
    RayfedError
        If a run fails.
    """
    began = perf_counter()
    plan = api.prepare(api.read(workload.scenario))
    blocks: list[list[Block]] = [[] for _ in plan.runs]
    bares: list[list[float]] = [[] for _ in plan.runs]
    pairs: list[list[float]] = [[] for _ in plan.runs]
    actors: list[list[float]] = [[] for _ in plan.runs]
    memory: list[int] = []
    started: list[float] = []
    with tempfile.TemporaryDirectory() as folder, _backend(plan, Path(folder)) as backend:
        for run in plan.runs:
            with resident_memory() as seen:
                started.append(_block(plan, run, backend, Path(folder)).asked_s)
            memory.append(max(seen))
        loops = [make() for make in workload.bare]  # only now: the memory was rayfed's alone
        plain = [PlainActors(make) for make in workload.bare if workload.has_actors]
        for _ in range(repeats):
            for run, found in zip(plan.runs, blocks, strict=True):
                found.append(_block(plan, run, backend, Path(folder)))
            for case, loop in enumerate(loops):
                block_s = blocks[case][-1].rounds * blocks[case][-1].round_s
                bares[case].append(bare_seconds(loop, block_s))
                if second is not None:
                    pairs[case].append(bares[case][-1] * second.rate(case, loop, block_s))
                if plain and second is not None:
                    actors[case].append(bare_seconds(plain[case], block_s))
    fastest = [min(found, key=lambda b: b.round_s) for found in blocks]
    return [
        Measured(
            clients=run.federation.clients.count,
            updates=workload.cohort,
            round_s=fast.round_s,
            bare_s=min(seconds),
            overhead_ms=1e3 * min(b.beside_s for b in found),
            start_s=started[0] - began,
            memory_gb=most / 1e9,
            growth=fast.round_s / fastest[0].round_s,
            ratio=_median(bare / b.round_s for b, bare in zip(found, seconds, strict=True)),
            of_pair=_median(
                bare / b.round_s / two for b, bare, two in zip(found, seconds, pair, strict=False)
            ),
            carrying=_median(b.beside_s / bare for b, bare in zip(found, seconds, strict=True)),
            pair=_median(pair),
            of_actors=_median(by_ray / b.round_s for b, by_ray in zip(found, rays, strict=False)),
        )
        for run, found, fast, seconds, pair, rays, most in zip(
            plan.runs, blocks, fastest, bares, pairs, actors, memory, strict=True
        )
    ]


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return float(np.median(found)) if found else math.nan


def _block(plan: Plan, run: Run, backend: Backend, folder: Path) -> Block:
    """Run one run and read what it told."""
    outcome = backend.execute([run], plan.tables, False, lambda progress, outcome: None)
    if outcome[run.folder] != "finished":
        raise RayfedError(f"{run.folder}: {reason(folder / run.folder)}")
    rows = pd.read_parquet(folder / run.folder / "rounds.parquet").iloc[1:]
    asked = rows["asked_s"].to_numpy()
    computed = rows.get("compute_s", pd.Series(np.nan, rows.index)).to_numpy()
    return Block(
        rounds=len(asked) - 2,
        round_s=float(asked[-1] - asked[1]) / (len(asked) - 2),
        compute_s=float(computed[1:-1].mean()),
        asked_s=float(asked[0]),
    )


@contextmanager
def _backend(plan: Plan, folder: Path) -> Iterator[Backend]:
    """Start what a plan's runs need, and end it."""
    backend = _started(plan, folder)
    try:
        backend.wait(lambda started, total: None)
        yield backend
    finally:
        backend.close()


def _started(plan: Plan, folder: Path) -> Backend:
    executor = plan.study.executor
    if executor.name == "serial":
        return SerialStudy(folder, partial(SerialExecutor, memory_gb=executor.memory_gb))
    study: Backend = on_ray(executor.address).RayStudy(
        plan.clients, executor.clients_per_actor, executor.address, folder,
        own_modules(plan.runs), executor.memory_gb, hosting_driver=executor.hosting_driver,
    )  # fmt: skip
    return study


@contextmanager
def resident_memory() -> Iterator[list[int]]:
    """Look at the resident bytes of this process and its children every now and then."""
    seen, done = [_resident()], threading.Event()

    def look() -> None:
        while not done.wait(_LOOK_S):
            seen.append(_resident())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
        seen.append(_resident())


def _resident() -> int:
    """Return the resident bytes of this process and its children.

    On Linux each has its part of a page that it shares, with the others as well (PSS), so that the
    sum counts the page once. Elsewhere it counts for each.
    """
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):  # it ended while we were looking
            if psutil.LINUX:
                total += process.memory_full_info().pss
            else:
                total += process.memory_info().rss
    return total
