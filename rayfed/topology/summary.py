"""Summaries of a run's graphs: degrees, components, and mixing of walks on them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np
from rich.table import Table

from rayfed.core.errors import many
from rayfed.core.plugins import find
from rayfed.topology.base import MOST_CHECKED, Graphs
from rayfed.topology.chain import DENSE, Chain
from rayfed.topology.connect import components_of
from rayfed.topology.graph import Graph
from rayfed.topology.walks.metropolis import Walk

_MANY = 100_000  # moves from which on numbers are shown in scientific notation
_FIRST = 20  # graphs that are built to count repairs
_LATE = 10**9  # a round after the last
_HALVINGS = 50
DELTA = 0.25
"""Total variation distance from the stationary law at which a walk counts as mixed."""


@dataclass(frozen=True)
class GraphSummary:
    """Statistics of one graph.

    Parameters
    ----------
    links, parts : int
        Number of links, or of arcs if it is directed, and of (strongly) connected components.
    least, most : int
        Smallest and largest degree, or number of receivers of a client.
    mean : float
        Mean of them.
    repaired : bool
        Whether links were added to connect all clients.
    directed : bool
        Whether it has arcs.
    """

    links: int
    parts: int
    least: int
    most: int
    mean: float
    repaired: bool = False
    directed: bool = False

    @property
    def kind(self) -> str:
        """What connects its clients."""
        return "arcs" if self.directed else "links"

    @classmethod
    def of(cls, graph: Graph, repaired: bool = False) -> GraphSummary:
        """Compute the statistics of a graph."""
        if graph.directed:
            degrees = np.bincount(graph.arcs[:, 0], minlength=graph.count)
        else:
            degrees = graph.degrees(np.arange(graph.count))
        total, least, most = int(degrees.sum()), int(degrees.min()), int(degrees.max())
        links, parts = total if graph.directed else total // 2, components_of(graph).count
        mean = total / graph.count
        return cls(links, parts, least, most, mean, repaired, graph.directed)


@dataclass(frozen=True)
class WalkSummary:
    """Mixing, stationary distribution, hitting and cover times of a walk on one graph.

    Parameters
    ----------
    walk : Walk
        The walk, as resolved on the graphs.
    second_eigenvalue : float
        lambda_2(P), the second largest modulus of the eigenvalues.
    mixing : float
        Mixing time to `DELTA` in steps, or an upper bound; NaN if neither is known.
    exact : bool
        Whether the times are exact rather than bounds, as on small graphs.
    visits : (float, float) or None
        Smallest and largest probability of the stationary law; None if it is not unique.
    hits : float
        Largest hitting time in moves, or a lower bound.
    covers : (float, float)
        Bounds of the cover time in moves; the upper one is infinite on large graphs.
    """

    walk: Walk
    second_eigenvalue: float
    mixing: float
    exact: bool
    visits: tuple[float, float] | None
    hits: float
    covers: tuple[float, float]

    @property
    def mixing_text(self) -> str:
        """The mixing time as text."""
        bound = "\N{LESS-THAN OR EQUAL TO} " if not self.exact and self.mixing < math.inf else ""
        return bound + _moves(self.mixing)

    @property
    def hitting_text(self) -> str:
        """The largest hitting time as text."""
        bound = "" if self.exact or math.isinf(self.hits) else "\N{GREATER-THAN OR EQUAL TO} "
        return bound + _moves(self.hits)

    @classmethod
    def of(cls, walk: Walk, graph: Graph) -> WalkSummary:
        """Analyse a walk on a graph; mixing and hitting times are exact on small graphs."""
        chain = Chain(walk.matrix(graph))
        exact = graph.count <= DENSE
        steps = math.nan  # no bound is known for large chains that are not reversible
        if exact:
            steps = chain.mixing_time(DELTA)
        elif chain.reversible or not chain.irreducible:
            steps = chain.mixing_bounds(DELTA)[1]
        if not chain.irreducible:
            return cls(
                walk, chain.second_eigenvalue, steps, exact, None, math.inf, (math.inf, math.inf)
            )
        visits = float(chain.stationary.min()), float(chain.stationary.max())
        hits = chain.longest_hitting()
        covers = chain.cover_bounds() if exact else (hits, math.inf)  # the farthest one included
        return cls(walk, chain.second_eigenvalue, steps, exact, visits, hits, covers)


@dataclass(frozen=True)
class EpochSummary:
    """The graph of one epoch, the round and second of its start, and walks on it."""

    epoch: int
    round: int
    time_s: float
    graph: GraphSummary
    walks: tuple[WalkSummary, ...]


def epoch_summaries(
    graphs: Graphs, moments: Iterable[tuple[int, float]], walks: Iterable[Walk] = ()
) -> Iterator[EpochSummary]:
    """Yield summaries of the different graphs at some moments (round, virtual second).

    Each includes the given walks, as resolved, and every walk plug-in that needs no settings. Walks
    that differ only in the time of a move are included once. Graphs with arcs have no walks.
    """
    known = () if graphs.of(0).directed else find("walks").values()
    others = (cls().resolved(graphs) for cls in known if _has_defaults(cls))
    timeless = (replace(walk, hop_s=0.0, speed_m_s=None) for walk in (*walks, *others))
    rules, seen = list(dict.fromkeys(timeless)), set[int]()
    for round, time_s in moments:
        epoch = graphs.epoch(round, time_s)
        if epoch not in seen:
            seen.add(epoch)
            graph = graphs.of(epoch).listed()
            walked = tuple(WalkSummary.of(rule, graph) for rule in rules)
            summary = GraphSummary.of(graph, graphs.repaired(epoch))
            yield EpochSummary(epoch, round, time_s, summary, walked)


def spaced(frames: int, rounds: int, until_s: float) -> Sequence[tuple[int, float]]:
    """Return evenly spaced moments, from round 1 at second 0 to the last round and second.

    Examples
    --------
    >>> spaced(3, rounds=101, until_s=60.0)
    [(1, 0.0), (51, 30.0), (101, 60.0)]
    """
    last = max(1, frames - 1)
    return [(1 + (rounds - 1) * k // last, until_s * k / last) for k in range(frames)]


def line(graphs: Graphs) -> str:
    """Return a one-line description of the first graph, with the number of repairs at first."""
    graph = GraphSummary.of(graphs.of(0))
    text = (
        f"topology {graphs.topology.name}: {graph.links:,} {graph.kind} at first, "
        f"{graph.mean:.3g} {'from' if graph.directed else 'to'} a client, "
        f"{many(graph.parts, 'part')}"
    )
    first = range(min(graphs.frames or _FIRST, _FIRST if graphs.count <= MOST_CHECKED else 1))
    repaired = sum(map(graphs.repaired, first))
    if not repaired:
        return text
    which = "it" if graphs.fixed else f"{repaired} of {_these(graphs, len(first))}"
    return f"{text}; links are added to connect {which} (disconnected: repair)"


def _these(graphs: Graphs, number: int) -> str:
    """Return what the first graphs are called, with the last round or second of them."""
    if graphs.frames == number:
        return "its " + many(number, "graph")
    first = f"the first {many(number, 'graph')}"
    if graphs.epoch(_LATE, 0.0):
        rounds = bisect_left(range(1, _LATE), number, key=graphs.epoch)
        return f"{first}, in rounds 1 to {rounds:,}"
    low, high = 0.0, 1.0
    while graphs.epoch(1, high) < number:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if graphs.epoch(1, middle) >= number else (middle, high)
    return f"{first}, until second {high:.6g}"


def tables(summaries: Iterable[EpochSummary]) -> tuple[Table, Table]:
    """Return a table of graphs, and a table of walks on each of them."""
    summaries = list(summaries)
    kind, degree = "links", "degree"
    if any(summary.graph.directed for summary in summaries):
        kind, degree = "arcs", "receivers"
    graphs = _table("round", "second", kind, degree, "parts", "repaired")
    walks = _table(
        "round", "walk", "lazy", "lambda_2", "mixes in", "visits (%)", "hits in", "covers in"
    )
    for summary in summaries:
        graph, start = summary.graph, str(summary.round)
        degree = f"{graph.mean:.3g} ({graph.least}-{graph.most})"
        repaired = "yes" if graph.repaired else "no"
        graphs.add_row(
            start, f"{summary.time_s:g}", f"{graph.links:,}", degree, str(graph.parts), repaired
        )
        for k, walk in enumerate(summary.walks):
            digits = 3 if walk.exact else 2  # a terminal has 80 columns
            visits = "-"
            if walk.visits is not None:
                visits = _range(*(f"{100 * v:.{digits}g}" for v in walk.visits))
            eigenvalue = walk.second_eigenvalue
            walks.add_row(
                start if k == 0 else "", walk.walk.name, f"{walk.walk.lazy:g}",
                "-" if math.isnan(eigenvalue) else f"{eigenvalue:.6f}",
                walk.mixing_text, visits, walk.hitting_text,
                _range(*map(_moves, walk.covers)) if walk.exact else "-",
            )  # fmt: skip
    return graphs, walks


def _table(*columns: str) -> Table:
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def _moves(count: float) -> str:
    """Return a number of moves as text: "never" for infinity, "-" for NaN."""
    if not math.isfinite(count):
        return "-" if math.isnan(count) else "never"
    return f"{count:,.0f}" if count < _MANY else f"{count:.3g}".replace("e+0", "e")


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low}-{high}"


def _has_defaults(cls: type[Any]) -> bool:
    """Return whether every setting of a plug-in has a default."""
    return all(field.default is not MISSING for field in fields(cls))
