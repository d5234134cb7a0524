"""Deterministic graphs: complete, ring, star, grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Ints
from rayfed.topology.base import refuse_large
from rayfed.topology.graph import EdgeList, Graph
from rayfed.topology.rounds import ByRounds


@dataclass(frozen=True, kw_only=True)
class Named(ByRounds):
    """Base of graphs that depend only on the number of clients."""

    def maker(self, count: int, seed: int) -> Callable[[int, int], Graph]:
        """Return the same graph for every epoch."""
        graph = EdgeList(count, self.ends(count))
        return lambda epoch, attempt: graph

    def ends(self, count: int) -> Ints:
        """Return the links (E, 2) of N = count clients."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Complete(Named):
    """Every client is linked with every other."""

    name: ClassVar[str] = "complete"

    def ends(self, count: int) -> Ints:
        """Return all pairs."""
        refuse_large(count * (count - 1) / 2)
        return np.stack(np.triu_indices(count, 1), axis=1)


@dataclass(frozen=True, kw_only=True)
class Ring(Named):
    """Each client is linked with the next one, the last with the first."""

    name: ClassVar[str] = "ring"

    def ends(self, count: int) -> Ints:
        """Return i to i + 1 modulo N."""
        ids = np.arange(count)
        return np.stack([ids, (ids + 1) % count], axis=1)


@dataclass(frozen=True, kw_only=True)
class Star(Named):
    """Client 0 is linked with every other."""

    name: ClassVar[str] = "star"

    def ends(self, count: int) -> Ints:
        """Return 0 to i."""
        others = np.arange(1, count)
        return np.stack([np.zeros_like(others), others], axis=1)


@dataclass(frozen=True, kw_only=True)
class Grid(Named):
    """Clients in rows, each linked with those left, right, above and below.

    Parameters
    ----------
    columns : int, optional
        Clients per row; about the square root of N if null. The last row may be shorter.
    """

    name: ClassVar[str] = "grid"

    columns: Annotated[int, Ge(1)] | None = None

    def ends(self, count: int) -> Ints:
        """Return i to i + 1 in its row, and to i + columns below."""
        width, ids = self.columns or math.isqrt(count - 1) + 1, np.arange(count)
        right, above = ids[(ids + 1) % width != 0], ids
        links = np.concatenate(
            [np.stack([right, right + 1], axis=1), np.stack([above, above + width], axis=1)]
        )
        return links[links[:, 1] < count]
