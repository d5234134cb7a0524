"""What the graphs of a run are like: degrees, parts, and what walks on them come to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np
from rich.table import Table

from rayfed.core.plugins import find
from rayfed.topology.base import Graphs
from rayfed.topology.chain import DENSE, Chain
from rayfed.topology.connect import parts
from rayfed.topology.graph import Graph
from rayfed.topology.walks import Walk

_MANY = 100_000  # moves beyond which a number of digits says nothing
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
    """How fast a walk forgets where it began, and whom it visits.

    Parameters
    ----------
    walk : Walk
        As it is walked.
    slem : float
        lambda_2(P), the second largest modulus of the eigenvalues.
    mixing : float
        Steps until it is mixed to `DELTA`, or a bound from above; NaN if neither is known.
    exact : bool
        Whether these are no bounds, as on small graphs.
    visits : (float, float) or None
        Least and largest share of the stationary law; None if there is no single one.
    hits : float
        Largest expected number of moves from a client to another, or a bound from below.
    covers : (float, float)
        Bounds of the expected moves until all clients are visited; the upper one is infinite on
        large graphs.
    """

    walk: Walk
    slem: float
    mixing: float
    exact: bool
    visits: tuple[float, float] | None
    hits: float
    covers: tuple[float, float]

    @property
    def steps(self) -> str:
        """The mixing time in words."""
        bound = "\N{LESS-THAN OR EQUAL TO} " if not self.exact and self.mixing < math.inf else ""
        return bound + _moves(self.mixing)

    @property
    def way(self) -> str:
        """The largest hitting time in words."""
        bound = "" if self.exact or math.isinf(self.hits) else "\N{GREATER-THAN OR EQUAL TO} "
        return bound + _moves(self.hits)

    @classmethod
    def of(cls, walk: Walk, graph: Graph) -> Pace:
        """Compute; mixing and hitting times exactly on small graphs."""
        chain = Chain(walk.matrix(graph))
        exact = graph.count <= DENSE
        steps = math.nan  # nobody knows a bound of a large chain that is not reversible
        if exact:
            steps = chain.mixing_time(DELTA)
        elif chain.reversible or not chain.whole:
            steps = chain.mixing_bounds(DELTA)[1]
        if not chain.whole:
            return cls(walk, chain.slem, steps, exact, None, math.inf, (math.inf, math.inf))
        visits = float(chain.stationary.min()), float(chain.stationary.max())
        hits = chain.longest_hitting()
        covers = chain.cover_bounds() if exact else (hits, math.inf)  # all, hence also the farthest
        return cls(walk, chain.slem, steps, exact, visits, hits, covers)


@dataclass(frozen=True)
class Regime:
    """One graph, from when on it holds, and the walks on it."""

    epoch: int
    round: int
    time_s: float
    shape: Shape
    paces: tuple[Pace, ...]


def regimes(
    graphs: Graphs, moments: Iterable[tuple[int, float]], own: Iterable[Walk] = ()
) -> Iterator[Regime]:
    """Yield the different graphs at some moments (round, virtual second).

    With each come a study's own walks, as walked, and those that need no settings; of those that
    differ in the time of a move alone, one.
    """
    bare = (cls().resolved(graphs) for cls in find("walks").values() if _bare(cls))
    timeless = (replace(walk, hop_s=0.0, speed_m_s=None) for walk in (*own, *bare))
    rules, seen = list(dict.fromkeys(timeless)), set[int]()
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


def tables(found: Iterable[Regime]) -> tuple[Table, Table]:
    """Return a line for each graph, and a line for each walk on each of them."""
    graphs = _table("round", "second", "links", "degree", "parts")
    walks = _table(
        "round", "walk", "lazy", "lambda_2", "mixes in", "visits (%)", "hits in", "covers in"
    )
    for regime in found:
        shape = regime.shape
        degree = f"{shape.mean:.3g} ({shape.least}-{shape.most})"
        first = str(regime.round)
        graphs.add_row(first, f"{regime.time_s:g}", f"{shape.links:,}", degree, str(shape.parts))
        for k, pace in enumerate(regime.paces):
            digits = 3 if pace.exact else 2  # a terminal has 80 columns
            visits = "-"
            if pace.visits is not None:
                visits = _range(*(f"{100 * v:.{digits}g}" for v in pace.visits))
            walks.add_row(
                first if k == 0 else "", pace.walk.name, f"{pace.walk.lazy:g}",
                "-" if math.isnan(pace.slem) else f"{pace.slem:.6f}", pace.steps, visits, pace.way,
                _range(*map(_moves, pace.covers)) if pace.exact else "-",
            )  # fmt: skip
    return graphs, walks


def _table(*columns: str) -> Table:
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def _moves(count: float) -> str:
    """Return a number of moves in words: infinity is never, NaN is not known."""
    if not math.isfinite(count):
        return "-" if math.isnan(count) else "never"
    return f"{count:,.0f}" if count < _MANY else f"{count:.3g}".replace("e+0", "e")


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"


def _bare(cls: type[Any]) -> bool:
    """Return whether every setting of a plug-in has a default."""
    return all(field.default is not MISSING for field in fields(cls))
