"""What plug-ins of the channel are: stages, codecs, and memories of what codecs leave out.

A vector (p,) of every client of a stack is a row of an array (K, p). Rows never see one another: a
row has the same bits alone and in any stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.rng import Draw, Key

Shape: TypeAlias = tuple[int, ...]
"""Of a piece of a vector that is coded by itself: of a layer, or (p,) of a whole vector."""
Kept: TypeAlias = Mapping[str, Array]
"""What each client of a stack keeps for the next time, (K, ...) arrays by name."""
Code: TypeAlias = Callable[[Array], Array]
"""Maps vectors (K, p) to what the receiver decodes (K, p)."""
Claim: TypeAlias = Literal["unbiased", "contractive"]


@dataclass(frozen=True)
class Draws:
    """Keyed numbers of one stage, for each client of a stack.

    Parameters
    ----------
    key : Key
        Of the run's seed and the stage, the uploaded name and the piece of it.
    ids : (K,) array of int
    draw : int or (K,) array of int
        The round, or the number of each client's work.
    ask : int
        Number of the Ask in its round.
    round : int
        The round from 1, which all clients of a round share.
    """

    key: Key
    ids: Ints
    draw: Draw = 1
    ask: int = 0
    round: int = 1

    def uniforms(self, count: int) -> Floats:
        """Return numbers (K, count) from (0, 1), of 32 random bits each."""
        made = self.key.numbers(self.ids, count, _uniform, round=self.draw, ask=self.ask)
        return np.asarray(made)

    @property
    def shared(self) -> Draws:
        """The draws (1, ...) that all clients of a round share."""
        return Draws(self.key.sub("shared"), np.zeros(1, np.int64), self.round, self.ask)

    def sub(self, purpose: str) -> Draws:
        """Return other draws of the same clients."""
        return Draws(self.key.sub(purpose), self.ids, self.draw, self.ask, self.round)


def _uniform(words: Sequence[Any], which: slice, out: Floats) -> None:
    np.add(words[0].view(np.int64), 0.5, out=out)
    out *= 2.0**-32


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Base of what vectors go through at the client, or at the server before a download.

    Attributes
    ----------
    by_round : bool
        Whether the clients of a round share draws, so that works of different versions of the model
        are not computed together.
    """

    name: ClassVar[str]

    @property
    def by_round(self) -> bool:
        """Whether the clients of a round share draws."""
        return False


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Base of what makes up for what a codec leaves out, with state at clients and server.

    Attributes
    ----------
    needs : "unbiased", "contractive" or None
        What the codec must be.
    sees_vectors : bool
        Whether a real server would have to see single vectors.
    """

    name: ClassVar[str]
    needs: ClassVar[Claim | None] = None
    sees_vectors: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Codec(Stage):
    """Base of codecs: what the receiver decodes, and how many bits that took.

    Parameters
    ----------
    by : "layer" or "all"
        Whether each layer of a model is coded by itself, or a whole vector at once. Vectors that
        are no models are always coded at once.
    memory : Memory, optional
        What makes up for what is left out.

    Attributes
    ----------
    matrices : bool
        Whether pieces keep the shape of their layer: `coded` gets (K, rows, columns).
    unbiased : bool
        Whether the mean of `coded` is v.
    contractive : bool
        Whether the squared error of `coded` is below the squared norm of v, in the mean.
    alike : bool
        Whether all clients of a round send the same coordinates, which no data decide.
    """

    matrices: ClassVar[bool] = False

    by: Literal["layer", "all"] = "all"
    memory: Memory | None = None

    @property
    def unbiased(self) -> bool:
        """Whether the mean of `coded` is v."""
        return False

    @property
    def contractive(self) -> bool:
        """Whether the squared error of `coded` is below the squared norm of v, in the mean."""
        return False

    @property
    def alike(self) -> bool:
        """Whether all clients of a round send the same coordinates, which no data decide."""
        return False

    def bits(self, shapes: Sequence[Shape], bits_per_number: int, first: bool = False) -> int:
        """Return the bits that a vector takes, known before it is.

        Parameters
        ----------
        shapes : sequence of tuple of int
            Of the pieces that are coded by themselves.
        bits_per_number : int
            32 or 64.
        first : bool
            Whether the client sends its first vector, which some memories send as it is.
        """
        return sum(self.bits_of(shape, bits_per_number) for shape in shapes)

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return the bits that one piece takes."""
        raise NotImplementedError

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return what the receiver decodes (K, p) of one piece (K, p), in the type of v."""
        raise NotImplementedError

    def first(self, shape: Shape) -> Kept:
        """Return the first row of what a client keeps for a piece; nothing by default."""
        return {}

    def stepped(self, v: Array, draw: Draws, kept: Kept) -> tuple[Array, Kept]:
        """Return what the receiver decodes of a piece, and what the clients keep from now on."""
        return self.coded(v, draw), kept


def size_of(shape: Shape) -> int:
    """Return the numbers of a piece."""
    return math.prod(shape)


__all__ = ["Bools", "Code", "Codec", "Draws", "Kept", "Memory", "Shape", "Stage", "size_of"]
