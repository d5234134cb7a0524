"""Walks that depend only on the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.topology.graph import Graph
from rayfed.topology.walks.base import Walk


@dataclass(frozen=True, kw_only=True)
class Uniform(Walk):
    """Simple random walk: all neighbours are equally likely.

    The stationary law is proportional to the degrees.
    """

    name: ClassVar[str] = "uniform"

    def chances(self, graph: Graph, here: Ints, there: Ints) -> Floats:
        """Return one over the degree of the current client."""
        return np.asarray(1.0 / graph.degrees(here))


@dataclass(frozen=True, kw_only=True)
class Metropolis(Walk):
    """Metropolis-Hastings walk with uniform stationary law.

    Metropolis et al., J. Chem. Phys. 21, 1953; Hastings, Biometrika 57, 1970. The matrix is
    symmetric, so the uniform law is stationary on every graph, also if the graph
    changes.
    """

    name: ClassVar[str] = "metropolis"

    def chances(self, graph: Graph, here: Ints, there: Ints) -> Floats:
        """Return one over the larger degree of the two ends."""
        return np.asarray(1.0 / np.maximum(graph.degrees(here), graph.degrees(there)))
