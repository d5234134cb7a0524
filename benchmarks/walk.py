"""What a step of a walk costs among clients that move: ``python -m benchmarks.walk``.

Every step is on a graph of its own: all clients move, the walker asks for its neighbourhood and
goes on. The range is chosen for 15 links to a client. Milliseconds are medians of the process's own
computing, so that other work on the machine does not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import process_time

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from rayfed.topology import Graph, Graphs
from rayfed.topology.base import Policy
from rayfed.topology.chain import Chain
from rayfed.topology.geometric import Geometric
from rayfed.topology.mobility import Mobility, Waypoint
from rayfed.topology.mobility.gauss_markov import GaussMarkov
from rayfed.topology.named import Ring
from rayfed.topology.walks import Metropolis, Uniform, Walk, Walker

SIZES = (1_000, 10_000)
STEPS = 100
LINKS = 15
DAY_S = 86_400.0
POLICIES: tuple[Policy, ...] = ("allow", "repair")


def graphs(count: int, mobility: Mobility, policy: Policy) -> Graphs:
    """Return the graphs of N = count clients with about `LINKS` links each."""
    range_m = 1000.0 * math.sqrt(LINKS / (math.pi * count))
    return Graphs(Geometric(range_m=range_m, mobility=mobility, disconnected=policy), count, seed=0)


def step_ms(count: int, mobility: Mobility, policy: Policy, steps: int = STEPS) -> float:
    """Return the milliseconds of asking for a neighbourhood and moving, a second after the last."""
    walker = Walker(graphs(count, mobility, policy), Metropolis(lazy=0.1))
    position, spent = walker.first(), []
    for round in range(1, steps + 1):
        began = process_time()
        walker.neighbours(position, round, float(round))
        position = walker.step(position, round, float(round))
        spent.append(process_time() - began)
    return 1e3 * float(np.median(spent[1:]))


def cold_s(count: int, mobility: Mobility) -> float:
    """Return the seconds of the first graph that is asked for, a simulated day after the start."""
    asked = graphs(count, mobility, "allow")
    began = process_time()
    asked.at(1, DAY_S)
    return process_time() - began


def slem_s(walk: Walk, graph: Graph) -> float:
    """Return the seconds of lambda_2 on one graph."""
    began = process_time()
    _ = Chain(walk.matrix(graph)).slem
    return process_time() - began


def rows(sizes: tuple[int, ...] = SIZES, steps: int = STEPS) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table."""
    for count in sizes:
        for mobility in (Waypoint(), GaussMarkov()):
            found = [f"{step_ms(count, mobility, policy, steps):.2f}" for policy in POLICIES]
            slem = slem_s(Metropolis(), graphs(count, mobility, "repair").of(0))
            seconds = [f"{cold_s(count, mobility):.2f}", f"{slem:.2f}"]
            yield (f"{count:,}", mobility.name, *found, *seconds)


def main() -> None:
    """Measure and print."""
    table = Table(title="A step of a walk among clients that move")
    for column in ("clients", "mobility", *(f"ms, {p}" for p in POLICIES), "cold s", "lambda_2 s"):
        table.add_column(column)
    for row in rows():
        table.add_row(*row)
    console = Console()
    console.print(table)
    ring = slem_s(Uniform(lazy=0.5), Graphs(Ring(), SIZES[-1], 0).of(0))
    console.print(f"lambda_2 of a lazy ring of {SIZES[-1]:,}: {ring:.2f} s")
    console.print(f"memory: {psutil.Process().memory_info().rss / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
