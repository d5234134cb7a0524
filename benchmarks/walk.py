"""What a step of a walk costs among clients that move: ``python -m benchmarks.walk``.

Every step is on a graph of its own: all clients move, the walker asks for its neighbourhood and
goes on. A round is one of RWSADMM in a run of its own, in this process: what the engine does for
it, the step and the graph included, and apart from it the local work. The range is chosen for 15
links to a client. Milliseconds are means of the process's own computing, so that other work on
the machine does not count; a Gauss-Markov step is dear and cheap by turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import process_time

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from rayfed import api
from rayfed.clients.request import Request
from rayfed.core.arrays import Array
from rayfed.engine.loop import Loop
from rayfed.executors.base import Gathered
from rayfed.executors.serial import SerialExecutor
from rayfed.topology import Graph, Graphs, Metropolis, UniformWalk, Walk, Walker
from rayfed.topology.base import Policy
from rayfed.topology.chain import Chain
from rayfed.topology.geometric import Geometric
from rayfed.topology.mobility import GaussMarkov, Mobility, Waypoint
from rayfed.topology.shapes import Ring

SIZES = (1_000, 10_000)
STEPS = 100
LINKS = 15
DAY_S = 86_400.0
MOBILITIES = (Waypoint(), GaussMarkov())
POLICIES: tuple[Policy, ...] = ("allow", "repair")


def moving(count: int, mobility: Mobility, policy: Policy) -> Geometric:
    """Return a topology that links each of N = count clients with about `LINKS` others."""
    range_m = 1000.0 * math.sqrt(LINKS / (math.pi * count))
    return Geometric(range_m=range_m, mobility=mobility, disconnected=policy)


def graphs(count: int, mobility: Mobility, policy: Policy) -> Graphs:
    """Return its graphs."""
    return Graphs(moving(count, mobility, policy), count, seed=0)


def step_ms(count: int, mobility: Mobility, policy: Policy, steps: int = STEPS) -> float:
    """Return the milliseconds of asking for a neighbourhood and moving, a second after the last."""
    walker = Walker(graphs(count, mobility, policy), Metropolis(lazy=0.1))
    position, spent = walker.first(), []
    for round in range(1, steps + 1):
        began = process_time()
        walker.neighbours(position, round, float(round))
        position = walker.step(position, round, float(round))
        spent.append(process_time() - began)
    return 1e3 * float(np.mean(spent[1:]))


class _Timed(SerialExecutor):
    """Tells how long the clients computed last."""

    spent_s = 0.0

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        began = process_time()
        gathered = super().exchange(key, request, send)
        self.spent_s = process_time() - began
        return gathered


def round_ms(
    count: int, mobility: Mobility, policy: Policy, steps: int = STEPS
) -> tuple[float, float]:
    """Return the milliseconds of a round of RWSADMM, local work left out, and of its local work."""
    topology = replace(moving(count, mobility, policy), round_s=1.0)
    plan = api.prepare(api.read(_scenario(count, topology, steps)))
    (run,) = plan.runs
    executor = _Timed(plan.tables)
    executor.open(run.folder, run.setup())
    engine = Loop(run, executor)
    moment, _ = engine.start()
    engine_s, local_s = [], []
    for _ in range(steps):
        began = process_time()
        moment, _, _ = engine.step(moment)
        engine_s.append(process_time() - began - executor.spent_s)
        local_s.append(executor.spent_s)
    return 1e3 * float(np.mean(engine_s[1:])), 1e3 * float(np.mean(local_s[1:]))


def _scenario(count: int, topology: Geometric, rounds: int) -> dict[str, object]:
    """Return a walk over clients with ten linear regressions' rows each, evaluated at its ends."""
    return {
        "name": "walk",
        "rounds": rounds + 1,  # the last is evaluated, and not timed
        "evaluate": {"every": rounds + 1},
        "problem": {"name": "least-squares", "dataset": "linear", "intercept": False},
        "clients": {"count": count},
        "topology": topology,
        "participation": {"select": "walk"},
        "algorithms": ["rwsadmm"],
        "executor": "serial",
    }


def cold_s(count: int, mobility: Mobility) -> float:
    """Return the seconds of the first graph that is asked for, a simulated day after the start."""
    asked = graphs(count, mobility, "allow")
    began = process_time()
    asked.at(1, DAY_S)
    return process_time() - began


def second_eigenvalue_s(walk: Walk, graph: Graph) -> float:
    """Return the seconds of lambda_2 on one graph."""
    began = process_time()
    _ = Chain(walk.matrix(graph)).second_eigenvalue
    return process_time() - began


def step_rows(sizes: tuple[int, ...] = SIZES, steps: int = STEPS) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table of steps."""
    for count in sizes:
        for mobility in MOBILITIES:
            found = [f"{step_ms(count, mobility, policy, steps):.2f}" for policy in POLICIES]
            graph = graphs(count, mobility, "repair").of(0)
            eigenvalue_s = second_eigenvalue_s(Metropolis(), graph)
            seconds = [f"{cold_s(count, mobility):.2f}", f"{eigenvalue_s:.2f}"]
            yield (f"{count:,}", mobility.name, *found, *seconds)


def round_rows(sizes: tuple[int, ...] = SIZES, steps: int = STEPS) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table of rounds."""
    for count in sizes:
        for mobility in MOBILITIES:
            engine, local = zip(
                *(round_ms(count, mobility, p, steps) for p in POLICIES), strict=True
            )
            yield (f"{count:,}", mobility.name, *(f"{ms:.2f}" for ms in (*engine, max(local))))


def _table(title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Table:
    table = Table(title=title)
    for column in ("clients", "mobility", *columns):
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    return table


def main() -> None:
    """Measure and print."""
    named = tuple(f"ms, {policy}" for policy in POLICIES)
    console = Console()
    title = "A step of a walk among clients that move"
    console.print(_table(title, (*named, "cold s", "lambda_2 s"), step_rows()))
    title = "A round of RWSADMM on the walk, local work aside"
    console.print(_table(title, (*named, "local work ms"), round_rows()))
    ring = second_eigenvalue_s(UniformWalk(lazy=0.5), Graphs(Ring(), SIZES[-1], 0).of(0))
    console.print(f"lambda_2 of a lazy ring of {SIZES[-1]:,}: {ring:.2f} s")
    console.print(f"memory: {psutil.Process().memory_info().rss / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
