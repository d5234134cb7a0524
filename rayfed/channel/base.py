"""Base classes of the channel: stages, codecs and error memories.

A vector (p,) of every client of a stack is a row of an array (K, p). Rows never see one another: a
row has the same bits alone and in any stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.needs import (
    EXACT_UPLOADS,
    MEAN,
    MEMORYLESS,
    NOTHING,
    ONE_MEAN,
    SENT,
    Terms,
    refuse_renamed,
)
from rayfed.core.rng import Draw, Key, Permutation, part_of

Shape: TypeAlias = tuple[int, ...]
"""Of a piece of a vector that is coded by itself: of a layer, or (p,) of a whole vector."""
CodecState: TypeAlias = Mapping[str, Array]
"""What is kept for the next time, arrays by name; of K clients (K, ...)."""
Code: TypeAlias = Callable[[Array], Array]
"""Maps vectors (K, p) to what the receiver decodes (K, p)."""


@dataclass(frozen=True)
class Draws:
    """Keyed numbers of one stage, for each client of a stack.

    Parameters
    ----------
    key : Key
        Of the run's seed, the direction, the name of the vector and the piece of it.
    ids : (K,) array of int
    draw : int or (K,) array of int
        The round, or the number of each client's task.
    ask : int
        Number of the Ask in its round.
    round : int
        The round from 1, which all clients of a round share.

    Examples
    --------
    >>> draws = Draws(Key(0, "uplink"), np.array([4, 7]), draw=3)
    >>> draws.uniforms(5).shape, draws.choice(10, 2).shape, draws.shared.choice(10, 2).shape
    ((2, 5), (2, 2), (1, 2))
    """

    key: Key
    ids: Ints
    draw: Draw = 1
    ask: int = 0
    round: int = 1

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return words (K, count) of 32 random bits."""
        return self.key.bits(self.ids, count, round=self.draw, ask=self.ask)

    def uniforms(self, count: int) -> Floats:
        """Return numbers (K, count) from (0, 1), of 32 random bits each."""
        made = self.key.numbers(self.ids, count, _uniform, round=self.draw, ask=self.ask)
        return np.asarray(made)

    def normals(self, count: int) -> Floats:
        """Return standard normal numbers (K, count)."""
        return self.key.normals(self.ids, count, round=self.draw, ask=self.ask)

    def choice(self, n: int, k: int) -> Ints:
        """Return k of n places (K, k), drawn without replacement."""
        keys = self.words(8).repeat(k, axis=0).T
        drawn = Permutation(n, tuple(keys))(np.tile(np.arange(k), len(self.ids)))
        return drawn.reshape(len(self.ids), k)

    @property
    def shared(self) -> Draws:
        """The draws (1, ...) that all clients of a round share."""
        return Draws(self.key.sub("shared"), np.zeros(1, np.int64), self.round, self.ask)

    def part(self, index: Ints) -> Draws:
        """Return the draws of some of these clients."""
        draw = part_of(self.draw, index)
        return Draws(self.key, self.ids[index], draw, self.ask, self.round)

    def sub(self, purpose: str) -> Draws:
        """Return other draws of the same clients."""
        return Draws(self.key.sub(purpose), self.ids, self.draw, self.ask, self.round)


def _uniform(words: Sequence[Any], which: slice, out: Floats) -> None:
    np.add(words[0].view(np.int64), 0.5, out=out)
    out *= 2.0**-32


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Base of transformations of vectors at the client, or at the server before a download.

    Attributes
    ----------
    needs, removes : set of Term
        What others must leave to it, and what it does not leave to others, on the way up; by
        default it changes uploads.
    by_round : bool
        Whether the clients of a round share draws, so that tasks of different versions of the model
        are not computed together.
    """

    name: ClassVar[str]
    needs: ClassVar[Terms] = NOTHING
    removes: ClassVar[Terms] = frozenset({EXACT_UPLOADS})

    @property
    def by_round(self) -> bool:
        """Whether the clients of a round share draws."""
        return False

    def applied(self, vectors: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the vectors (K, ...) of uploads by name; of codecs the seam sees to it."""
        return vectors


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Base of error compensation for codecs, with state at clients and server.

    The client sends c_i of the vector v_i of its upload; w_i are the weights of the
    algorithm's mean, over all clients.

    Attributes
    ----------
    needs, removes : set of Term
        What others must leave to it, and what it does not leave to others; `VECTORS` is needed
        where a real server would have to see single vectors.
    at_server : bool
        Whether the server keeps a vector, which takes sum_i w_i c_i over the participants.
    estimates : bool
        Whether what the server keeps is the mean that the algorithm gets; it needs no mean then.
    exact_first : bool
        Whether the first vector of a client is sent as it is.
    bits : int
        Bits that are sent in addition to a vector.
    """

    name: ClassVar[str]
    needs: ClassVar[Terms] = frozenset({SENT, ONE_MEAN})
    removes: ClassVar[Terms] = frozenset({MEAN, MEMORYLESS})
    at_server: ClassVar[bool] = False
    estimates: ClassVar[bool] = False
    bits: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        refuse_renamed(cls, {"whole_first": "exact_first"})

    @property
    def exact_first(self) -> bool:
        """Whether the first vector of a client is sent as it is."""
        return False

    @property
    def step(self) -> float:
        """Memory step size on the sent vector, where the server keeps a memory as well."""
        return 1.0

    def misfit(self, codec: Codec, shapes: Sequence[Shape]) -> str:
        """Return why a codec does not go with the memory, as the end of a sentence, or ""."""
        return ""

    def sent(self, v: Array, state: Array, code: Code, first: Bools) -> tuple[Array, Array]:
        """Client: return the decoded vectors (K, p) and the next memory (K, p), zeros at first.

        Parameters
        ----------
        v, kept : (K, p) array
        code : callable
            The codec.
        first : (K,) array of bool
            Mask of clients that send their first vector; all false unless `exact_first`.
        """
        raise NotImplementedError

    def left_out(self, v: Array, sent: Array, state: Array) -> Array:
        """Return the coding error of vectors (K, p) given the previous memory."""
        return v - state - sent

    def received(self, mean: Array, total: Array, state: Array) -> tuple[Array, Array]:
        """Server: return the algorithm's mean (p,) and the next memory (p,).

        Parameters
        ----------
        mean : (p,) array
            Of the c_i, as the algorithm weighs them; not there if `estimates`.
        total : (p,) array
            sum_i w_i c_i over the participants; not there unless `at_server`.
        state : (p,) array
            Zeros at first.
        """
        return mean, state


@dataclass(frozen=True, kw_only=True)
class Codec(Stage):
    """Base of codecs: decoded vectors and their number of bits.

    Parameters
    ----------
    by : "layer" or "all"
        Whether each layer of a model is coded by itself, or a whole vector at once. Vectors of
        another size than the model are coded at once.
    memory : Memory, optional
        What makes up for what is left out.

    Attributes
    ----------
    matrices : bool
        Whether pieces keep the shape of their layer: `coded` gets (K, rows, columns).
    unbiased : bool
        Whether the mean of `coded` is v.
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
    def alike(self) -> bool:
        """Whether all clients of a round send the same coordinates, which no data decide."""
        return False

    def error(self, shape: Shape) -> float:
        """Return a bound of the mean squared error of a piece, relative to its squared norm.

        It is omega of an unbiased codec. One that is below 1 is contractive, 1 - alpha.
        """
        return math.inf

    def bits(self, shapes: Sequence[Shape], bits_per_number: int, first: bool = False) -> int:
        """Return the bits that a vector takes, known before it is.

        Parameters
        ----------
        shapes : sequence of tuple of int
            Of the pieces that are coded by themselves.
        bits_per_number : int
            32 or 64, or what a number takes in a secure sum.
        first : bool
            Whether it is the first vector of its client, which some memories send as it is.
        """
        if first and self.memory is not None and self.memory.exact_first:
            return bits_per_number * sum(map(size_of, shapes))
        extra = 0 if self.memory is None else self.memory.bits
        return extra + sum(self.bits_of(shape, bits_per_number) for shape in shapes)

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return the bits that one piece takes."""
        raise NotImplementedError

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return the decoded vectors of one piece (K, p), in the type of v."""
        raise NotImplementedError

    def first(self, shape: Shape) -> CodecState:
        """Return the first row of a client's codec state for a piece; empty by default."""
        return {}

    def stepped(self, v: Array, draw: Draws, state: CodecState) -> tuple[Array, CodecState]:
        """Return the decoded vectors of a piece and the next client state."""
        return self.coded(v, draw), state


def size_of(shape: Shape) -> int:
    """Return the numbers of a piece."""
    return math.prod(shape)
