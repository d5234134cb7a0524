"""Checks of topologies."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from rayfed.core.errors import ScenarioError
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import COUNT, examples
from rayfed.topology import Graphs
from rayfed.topology.base import Topology

Moment: TypeAlias = tuple[int, float]
"""A round, from 1, and a virtual second."""

MOMENTS: tuple[Moment, ...] = ((1, 0.0), (2, 40.0), (7, 300.0), (2, 40.0), (40, 3000.0))


def check_pure(topology: Topology, moments: Sequence[Moment] = MOMENTS) -> None:
    """Check that graphs are the same in any order of questions and in any process."""
    graphs = Graphs(topology, COUNT, 1)
    forwards = [graphs.at(*moment).links.copy() for moment in moments]
    copy = pickle.loads(pickle.dumps(graphs))
    for moment, before in zip(reversed(moments), reversed(forwards), strict=True):
        text = f"{topology} in round {moment[0]} at {moment[1]:g} s"
        require_equal(graphs.at(*moment).links, before, f"{text}: earlier questions matter")
        require_equal(copy.at(*moment).links, before, f"{text}: another process, another graph")


def check_links(topology: Topology) -> None:
    """Check that both ends of a link know it, and that degrees count neighbours."""
    for moment in MOMENTS:
        graph = Graphs(topology, COUNT, 1).at(*moment)
        around = [graph.neighbours(i).tolist() for i in range(COUNT)]
        for i, others in enumerate(around):
            text = f"{topology}: client {i}, linked with {others}"
            require(others == sorted(set(others) - {i}), f"{text}: not ascending or a loop")
            require(all(i in around[j] for j in others), f"{text}: a neighbour does not know it")
        degrees = graph.degrees(np.arange(COUNT)).tolist()
        counted = [len(others) for others in around]
        require(degrees == counted, f"{topology}: degrees {degrees}, neighbours {counted}")
        links = [[i, j] for i in range(COUNT) for j in around[i] if i < j]
        require(graph.links.tolist() == links, f"{topology}: `links` are not the neighbours'")


def variants(cls: type[Topology], folder: Path) -> Iterator[Topology]:
    """Yield the examples with and without links that fail, mended so that no draw is refused."""
    for topology in examples(cls, folder):
        for loss in (0.0, 0.2):
            try:
                yield replace(topology, loss=loss, disconnected="repair")
                yield replace(topology, loss=loss, disconnected="allow")
            except ScenarioError:  # the setting of the example needs another one
                continue
