"""What the graphs of a run are like: degrees, parts, and how fast walks mix on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
from rich.table import Table

from rayfed.plugins import find
from rayfed.topology.base import Graphs
from rayfed.topology.chain import DENSE, Chain
from rayfed.topology.connect import parts
from rayfed.topology.graph import Graph
from rayfed.topology.walks import Walk

DELTA = 0.25
"""Distance from the stationary law, in total variation, at which a walk counts as mixed."""


@dataclass(frozen=True)
class Shape:
    """One graph in numbers.

    Parameters
    ----------
    links, parts : int
        How many there are.
    least, most : int
        Smallest and largest degree.
    mean : float
        Mean degree.
    """

    links: int
    parts: int
    least: int
    most: int
    mean: float

    @classmethod
    def of(cls, graph: Graph) -> Shape:
        """Count."""
        degrees = graph.degrees(np.arange(graph.count))
        total, least, most = int(degrees.sum()), int(degrees.min()), int(degrees.max())
        return cls(total // 2, parts(graph).count, least, most, total / graph.count)


@dataclass(frozen=True)
class Pace:
    """How fast a walk forgets where it began.

    Parameters
    ----------
    walk : Walk
        As it is walked.
    slem : float
        lambda_2(P), the second largest modulus of the eigenvalues.
    mixing : float
        Steps until it is mixed to `DELTA`, or a bound from above.
    exact : bool
        Whether it is no bound.
    """

    walk: Walk
    slem: float
    mixing: float
    exact: bool

    @property
    def steps(self) -> str:
        """The mixing time in words."""
        if math.isinf(self.mixing):
            return "never"
        return f"{'' if self.exact else 'at most '}{self.mixing:,.0f}"

    @classmethod
    def of(cls, walk: Walk, graph: Graph) -> Pace:
        """Compute; the mixing time exactly on small graphs."""
        chain = Chain(walk.matrix(graph))
        exact = graph.count <= DENSE
        steps = chain.mixing_time(DELTA) if exact else chain.mixing_bounds(DELTA)[1]
        return cls(walk, chain.slem, steps, exact)


@dataclass(frozen=True)
class Regime:
    """One graph, from when on it holds, and the walks on it."""

    epoch: int
    round: int
    time_s: float
    shape: Shape
    paces: tuple[Pace, ...]


def regimes(graphs: Graphs, moments: Iterable[tuple[int, float]]) -> Iterator[Regime]:
    """Yield the different graphs at some moments (round, virtual second).

    With each come the walks that need no settings.
    """
    walks = (cls() for cls in find("walks").values() if _bare(cls))
    rules, seen = [walk.settled(graphs) for walk in walks], set[int]()
    for round, time_s in moments:
        epoch = graphs.epoch(round, time_s)
        if epoch not in seen:
            seen.add(epoch)
            graph = graphs.of(epoch).listed()
            paces = tuple(Pace.of(rule, graph) for rule in rules)
            yield Regime(epoch, round, time_s, Shape.of(graph), paces)


def spaced(frames: int, rounds: int, until_s: float) -> Sequence[tuple[int, float]]:
    """Return so many moments, from round 1 at second 0 to the last round at the last second.

    Examples
    --------
    >>> spaced(3, rounds=101, until_s=60.0)
    [(1, 0.0), (51, 30.0), (101, 60.0)]
    """
    last = max(1, frames - 1)
    return [(1 + (rounds - 1) * k // last, until_s * k / last) for k in range(frames)]


def line(graphs: Graphs) -> str:
    """Return what the first graph is like, in one line."""
    shape = Shape.of(graphs.of(0))
    return (
        f"topology {graphs.topology.name}: {shape.links:,} links at first, {shape.mean:.3g} to a "
        f"client, {shape.parts} part{'' if shape.parts == 1 else 's'}"
    )


def table(found: Iterable[Regime]) -> Table:
    """Return a line for each graph and each walk on it."""
    columns = (
        "round", "second", "links", "degree", "parts", "walk", "lazy", "lambda_2", "mixes in",
    )  # fmt: skip
    shown = Table(box=None, pad_edge=False)
    for column in columns:
        shown.add_column(column, no_wrap=True)
    for regime in found:
        shape = regime.shape
        degree = f"{shape.mean:.3g} ({shape.least}-{shape.most})"
        graph = (regime.round, f"{regime.time_s:g}", f"{shape.links:,}", degree, shape.parts)
        for k, pace in enumerate(regime.paces):
            walk = (pace.walk.name, f"{pace.walk.lazy:g}", f"{pace.slem:.6f}", pace.steps)
            shown.add_row(*(str(cell) if k == 0 else "" for cell in graph), *walk)
    return shown


def _bare(cls: type[Any]) -> bool:
    """Return whether every setting of a plug-in has a default."""
    return all(field.default is not MISSING for field in fields(cls))
