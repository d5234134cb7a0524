"""Checks of walks, on the graph for which each has an example: a ring by default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from rayfed.core.errors import ScenarioError
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import COUNT, examples
from rayfed.topology import Graphs
from rayfed.topology.shapes import Ring
from rayfed.topology.walks.metropolis import Walk, Walker

_ROUNDING = 1e-12
_STEPS = 3000
GRAPHS = Graphs(Ring(), COUNT, 0)
QUESTIONS = [(position, round) for position in (0, 5) for round in (1, 2, 3, 10, 10, 700)]


def check_pure(walk: Walk, questions: Sequence[tuple[int, int]] = QUESTIONS) -> None:
    """Check that the same question gets the same move, in any order, and changes nothing."""
    walker, graph = Walker(GRAPHS, walk), GRAPHS.of(0)
    before = walk.matrix(graph).toarray()
    forwards = [walker.step(position, round) for position, round in questions]
    backwards = [walker.step(position, round) for position, round in reversed(questions)]
    require(backwards[::-1] == forwards, f"{walk}: the order of the questions matters")
    require_equal(walk.matrix(graph).toarray(), before, f"{walk}: walking changed the walk")


def check_probabilities(walk: Walk) -> None:
    """Check that the moves from every client are probabilities over its neighbourhood."""
    graph = GRAPHS.of(0)
    allowed = (graph.matrix.toarray() + np.eye(COUNT)) > 0
    rows = walk.matrix(graph).toarray()
    require(rows >= 0, f"{walk}: a probability is below 0")
    require(abs(rows.sum(axis=1) - 1) <= _ROUNDING, f"{walk}: a row does not sum to 1")
    require(rows[~allowed] == 0, f"{walk} moves where there is no link")
    for client in range(COUNT):
        ids, chances = walk.moves(graph, client)
        require(
            abs(rows[client, ids] - chances) <= _ROUNDING,
            f"{walk}: `moves` and `matrix` differ for client {client}",
        )


def check_reach(walk: Walk) -> None:
    """Check that a walker reaches everybody."""
    walker = Walker(GRAPHS, walk)
    position, seen = walker.first(), set()
    for round in range(1, _STEPS):
        position = walker.step(position, round)
        seen.add(position)
    require(len(seen) == COUNT, f"{walk} reaches {len(seen)} of {COUNT} in {_STEPS} moves")


def variants(cls: type[Walk], folder: Path) -> Iterator[Walk]:
    """Yield the examples as they are walked on the ring."""
    for number, walk in enumerate(examples(cls, folder)):
        try:
            yield walk.resolved(GRAPHS)
        except ScenarioError:
            if number == 0:  # only a variant may need another graph than a ring
                raise
