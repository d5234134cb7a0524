"""Rules of the next move that need nothing but the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.core.arrays import Floats, Ints
from rayfed.topology.graph import Graph
from rayfed.topology.walks.base import Walk


@dataclass(frozen=True, kw_only=True)
class Uniform(Walk):
    """Every neighbour is as likely: who has many links is visited often.

    The stationary law is in proportion to the degrees.
    """

    name: ClassVar[str] = "uniform"

    def chances(self, graph: Graph, here: Ints, there: Ints) -> Floats:
        """Return one over the degree of where the walker is."""
        return np.asarray(1.0 / graph.degrees(here))


@dataclass(frozen=True, kw_only=True)
class Metropolis(Walk):
    """Metropolis-Hastings: moves to who has many links are held back, so all are visited alike.

    Metropolis et al., J. Chem. Phys. 21, 1953; Hastings, Biometrika 57, 1970. The matrix is
    symmetric, so the uniform law is stationary on every graph, and on graphs that change.
    """

    name: ClassVar[str] = "metropolis"

    def chances(self, graph: Graph, here: Ints, there: Ints) -> Floats:
        """Return one over the larger degree of both ends."""
        return np.asarray(1.0 / np.maximum(graph.degrees(here), graph.degrees(there)))
