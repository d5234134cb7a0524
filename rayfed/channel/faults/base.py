"""Base classes of faults: who is faulty and from when on, and what is sent instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Ge, Gt, Interval

from rayfed.channel.base import Draws, Kept
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Base of all faults.

    Parameters
    ----------
    ids : list of int or str
        Who is faulty, by number or by the name that the data give.
    count : int, optional
        How many clients, chosen by the seed.
    fraction : float, optional
        Share of the clients, chosen by the seed.
    group : str, optional
        Name of the client group that they are in: all of it, or those that `count` or `fraction`
        choose of it.
    start : int
        The round, from 1, from which on they are faulty.
    """

    name: ClassVar[str]
    silent: ClassVar[bool] = False
    """Whether nothing is sent."""
    rows: ClassVar[bool] = False
    """Whether the rows are wrong, and all else is right."""

    ids: tuple[int | str, ...] = ()
    count: Annotated[int, Gt(0)] | None = None
    fraction: Annotated[float, Interval(gt=0, le=1)] | None = None
    group: str | None = None
    start: Annotated[int, Ge(1)] = 1

    def __post_init__(self) -> None:
        chosen = [bool(self.ids), self.count is not None, self.fraction is not None]
        if sum(chosen) > 1 or (self.ids and self.group is not None):
            raise ScenarioError("", "give one of ids, count, fraction and group")
        if not (any(chosen) or self.group is not None):
            raise ScenarioError("", "says of nobody that they are faulty; give count, say")

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return a value for checks: two clients."""
        return cls(count=2)

    def chosen(self, pool: int) -> int:
        """Return how many of so many clients are faulty."""
        if self.count is not None:
            return self.count
        return pool if self.fraction is None else round(self.fraction * pool)


@dataclass(frozen=True, kw_only=True)
class UploadFault(Fault):
    """Base of faults that a client can commit alone, on what it would have sent."""

    keeps: ClassVar[bool] = False
    """Whether `first` is kept at the client for each vector."""

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return what faulty clients send, and what they keep.

        Parameters
        ----------
        v : (K, p) array
            What the server would decode, from their first round on if they keep anything.
        draw : Draws
            Of these clients, for this vector.
        kept : (K, p) array
            What they kept; NaN at first. Empty if nothing is.
        round : int
            The round, from 1; the fault begins with `start`.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Knowledge:
    """What colluding clients know of the honest replies of a round.

    Parameters
    ----------
    mean, square : (p,) array
        Weighted means of the honest vectors and of their squares.
    honest, faulty : int
        How many honest replies there are, and how many colluding ones.
    vectors : (H, p) array, optional
        The honest vectors, for faults that see them.
    ids : (H,) array of int
        Whose they are, ascending.
    """

    mean: Array
    square: Array
    honest: int
    faulty: int
    vectors: Array | None
    ids: Ints

    @property
    def deviation(self) -> Array:
        """Standard deviation (p,) of each coordinate over the honest replies."""
        variance = self.square - self.mean * self.mean
        return np.asarray(np.sqrt(np.maximum(variance, 0)))


@dataclass(frozen=True, kw_only=True)
class Collusion(Fault):
    """Base of faults of clients that know the honest replies, and all send the same."""

    sees_vectors: ClassVar[bool] = False
    """Whether sums over the honest are not enough."""

    def init(self, p: int, uniforms: Floats) -> Kept:
        """Return what they remember from round to round, before the first; nothing by default.

        Parameters
        ----------
        uniforms : (p,) array of float
            Keyed numbers from (0, 1).
        """
        return {}

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, Kept]:
        """Return what all of them send (p,), and what they remember."""
        raise NotImplementedError
