"""The uplink: stages of vectors at clients, and decoding of their sums at the server."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.channel.base import Codec, CodecState, Draws, Memory, Stage
from rayfed.channel.layout import Layout
from rayfed.channel.stages import Clip, SecureSum
from rayfed.core.arrays import Array, Bools, Floats, under
from rayfed.core.rng import Key
from rayfed.core.shares import at_least
from rayfed.messages import Ask

WeightKind: TypeAlias = Literal["raw", "plain", "shares"]
"""Weights of a sum: those of the mean, 1 each, or those of F."""
PREFIX = "uplink."
"""What names of client state, and of what clients download, begin with that is the channel's."""
NORM = f"{PREFIX}norm"
"""What clients download that clip to a norm that changes."""
INSIDE = f"{PREFIX}inside"
"""What they upload then: 1/2 if the upload was no longer than the norm, and else -1/2."""
LEFT_OUT = f"{PREFIX}left"
"""The squared norm of what memories have not sent yet, which the simulator alone sees."""


def total_name(name: str) -> str:
    """Return the name of the sum of a vector by the weights of all clients, for memories."""
    return f"{name}#"


@dataclass(frozen=True)
class SumMembers:
    """Members of a secure sum.

    Parameters
    ----------
    cohort : int
        Clients that are asked at once; that are expected, where their number is unknown.
    most : int
        How many there are at most.
    weight : float
        Mean raw weight of all clients.
    count : int
        All clients.
    """

    cohort: int
    most: int
    weight: float
    count: int

    def factor(self, weights: WeightKind) -> float:
        """Return the divisor of weights that makes their average 1."""
        return {"raw": self.weight, "plain": 1.0, "shares": 1.0 / self.count}[weights]


@dataclass(frozen=True)
class Uplink:
    """The uplink of a run.

    Parameters
    ----------
    stages : tuple of Stage
        In the order in which vectors go through them; at least one.
    layout : Layout
        Of the model.
    coded : collection of str
        The vectors of the algorithm that codecs and clips may change.
    up : mapping of str to int
        Those of its first Ask, with their sizes.
    dtype : dtype
        Of the model.
    key : Key
        Of its draws.
    members : SumMembers, optional
        Who is added up, where sums are secure.
    left_out : bool
        Whether hosts add up what memories have left out.
    noise : float
        Noise multiplier of what the fewest clients with which a secure sum is opened add to it
        together; 0 if clients add none.
    private : bool
        Whether an upload that is not finite becomes zeros, since no clip bounds it.
    """

    stages: tuple[Stage, ...]
    layout: Layout
    coded: Collection[str]
    up: Mapping[str, int]
    dtype: np.dtype[np.floating]
    key: Key
    members: SumMembers | None = None
    left_out: bool = False
    noise: float = 0.0
    private: bool = False

    @cached_property
    def secure(self) -> SecureSum | None:
        """The secure sum, if there is one."""
        return next((stage for stage in self.stages if isinstance(stage, SecureSum)), None)

    @cached_property
    def codec(self) -> Codec | None:
        """The codec, if there is one."""
        return next((stage for stage in self.stages if isinstance(stage, Codec)), None)

    @property
    def memory(self) -> Memory | None:
        """The memory of the codec, if there is one."""
        return None if self.codec is None else self.codec.memory

    @cached_property
    def clip(self) -> Clip | None:
        """The clip, if there is one."""
        return next((stage for stage in self.stages if isinstance(stage, Clip)), None)

    @property
    def extra(self) -> Mapping[str, int]:
        """Further vectors that the channel uploads, with the number of elements."""
        return {INSIDE: 1} if self.clip is not None and self.clip.adaptive else {}

    @property
    def by_round(self) -> bool:
        """Whether the clients of a round share draws."""
        return any(stage.by_round for stage in self.stages)

    @cached_property
    def initial(self) -> dict[str, Array]:
        """First rows of the client state of stages."""
        rows: dict[str, Array] = {}
        if self.codec is None:
            return rows
        for name, n in self.up.items():
            if self.memory is not None:
                rows[f"{PREFIX}{name}"] = np.zeros(n, self.dtype)
            for key, row in self.layout.first(self.codec, n):
                rows[f"{PREFIX}{name}.{key}"] = row.astype(self.dtype)
        return rows

    # -- sizes -----------------------------------------------------------------------------

    def bytes_up(self, ask: Ask, first: bool = False) -> int:
        """Return the bytes that each client uploads for an Ask of the algorithm."""
        vectors = coded_vectors(ask, self.coded)
        bits = sum(self._bits(n, first) for n in vectors.values())
        rest = {name: n for name, n in ask.up.items() if name not in vectors}
        if self.codec is None:  # running statistics are in the place of zeros, which no codec sees
            rest = {name: n for name, n in rest.items() if ask.bits.get(name) != 0}
        extra = sum(self.extra.values())
        if self.secure is not None and self.members is not None:
            bits += self.secure.bits * (sum(rest.values()) + extra)
            return -(-bits // 8) + self.secure.key_bytes(self.members.cohort)[1]
        return -(-(bits + extra) // 8) + Ask("", {}, rest).bytes_up(self.dtype.itemsize)

    @property
    def bytes_down(self) -> int:
        """Bytes that the channel adds to each client's download."""
        if self.secure is None or self.members is None:
            return 0
        return self.secure.key_bytes(self.members.cohort)[0]

    def _bits(self, n: int, first: bool) -> int:
        """Return the bits of a vector of n numbers; masked ones are dense unless all are alike."""
        number = 8 * self.dtype.itemsize if self.secure is None else self.secure.bits
        if self.codec is None:
            return n * number
        if self.secure is not None and not self.codec.alike:
            return self.layout.coded_size(n) * number
        return self.codec.bits(self.layout.pieces(self.codec, n), number, first)

    # -- at the client ---------------------------------------------------------------------

    def sent(
        self,
        values: Mapping[str, Array],
        state: CodecState,
        draw: Draws,
        first: Bools,
        norm: float | None = None,
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the decoded vectors of an upload at the server, and the next client state.

        Parameters
        ----------
        values : mapping of str to (K, ...) array
            What client functions return.
        state : mapping of str to (K, ...) array
            What these clients keep, as `initial`.
        draw : Draws
            Of these clients.
        first : (K,) array of bool
            Who is charged for a first vector as it is.
        norm : float, optional
            The norm that the server announces for clipping, where it changes.
        """
        out = dict(values)
        now: dict[str, Array] = {}
        squares = np.zeros(len(first))
        for name, rows in values.items():
            if self.codec is not None and name in self.coded and rows[0].size > 1:
                v = rows.reshape(len(rows), -1)
                sent, new = self._coded(name, v, state, draw.sub(name), first)
                out[name] = sent.reshape(rows.shape)
                now |= new
                if self.left_out and self.memory is not None:
                    rest = self.memory.left_out(v, sent, state[f"{PREFIX}{name}"])
                    squares += np.square(rest, dtype=np.float64).sum(axis=1)
        for stage in self.stages:
            vectors = {name: out[name] for name in values if name in self.coded}
            if not isinstance(stage, Clip):
                out |= stage.applied(vectors)
                continue
            clipped, length = stage.clipped(vectors, stage.start if norm is None else norm)
            if self.private and not (finite := np.isfinite(length)).all():
                clipped, now = _finite(finite, clipped), _finite(finite, now, state)
            out |= clipped
            if norm is not None:
                out[INSIDE] = np.where(length <= norm, 0.5, -0.5).astype(self.dtype)[:, None]
        return (out | {LEFT_OUT: squares[:, None]} if self.left_out else out), now

    # -- secure sums -----------------------------------------------------------------------

    def fixed(
        self, name: str, rows: Array, weights: Floats, kind: WeightKind, draw: Draws
    ) -> npt.NDArray[np.int64]:
        """Return weighted vectors (K, ...) of clients as they enter a secure sum, with noise."""
        assert self.secure is not None
        factors = weights / (self._unit * self._sum_members.factor(kind))
        flat, own = rows.reshape(len(rows), -1), draw.sub(f"{name}/{kind}")
        if self.noise:
            flat = flat + self.share * own.sub("noise").normals(flat.shape[1])
        return self.secure.fixed(flat, factors, own).reshape(rows.shape)

    def found(
        self, name: str, rows: Array, weights: Floats, kind: WeightKind, draw: Draws
    ) -> Array:
        """Return vectors (K, n) as they count in a secure sum, rounded at random."""
        units = self._unit * self._sum_members.factor(kind) / weights
        return np.asarray(self.fixed(name, rows, weights, kind, draw) * units[:, None])

    def opened(
        self, sums: Mapping[str, Array], plain: tuple[str, ...]
    ) -> tuple[dict[str, Array], int]:
        """Return opened secure sums by name, and the number of wrapped coordinates."""
        assert self.secure is not None
        out, wrapped = dict(sums), 0
        for name, total in sums.items():
            if name == LEFT_OUT:
                continue
            kind: WeightKind = "plain" if name in plain else "raw"
            unit = self._unit * self._sum_members.factor("shares" if name.endswith("#") else kind)
            found, count = self.secure.opened(total, unit)
            out[name], wrapped = found.astype(self.dtype), wrapped + count
        return out, wrapped

    @property
    def rounding(self) -> float:
        """Largest change of an uploaded number by rounding."""
        return 0.0 if self.secure is None else self._unit * self._sum_members.factor("raw")

    @property
    def lengthening(self) -> float:
        """Largest increase of an upload's norm by rounding."""
        return self.rounding * math.sqrt(sum(self.up.values()))

    @property
    def survivors(self) -> int:
        """The fewest clients with which the secure sum of a full cohort is opened."""
        assert self.secure is not None
        return at_least(self.secure.threshold, self._sum_members.cohort)

    @cached_property
    def share(self) -> float:
        """Deviation of the noise that a client adds to each number of its upload."""
        assert self.clip is not None
        norm = self.clip.start + self.lengthening
        return self.noise * norm / math.sqrt(self.survivors)

    @property
    def share_units(self) -> float:
        """`share` in units of the last bit of the secure sum."""
        return self.share / self._unit

    @property
    def deviations(self) -> float:
        """Number of standard deviations of its noise that a secure sum has room for, at least.

        That is when all clients send the norm in one coordinate: K of them take K times it of the
        range, and their noise has the root of K times the deviation of one.
        """
        assert self.clip is not None
        return (self.largest - self.clip.start) * math.sqrt(self._sum_members.most) / self.share

    @property
    def largest(self) -> float:
        """Largest absolute value in all uploads without wrap-around of a sum.

        K numbers of C are rounded to at most K (C + unit), and K units of half the modulus are the
        range: two units of each are left to rounding.
        """
        if self.secure is None:
            return math.inf
        return (self.secure.range - 2 * self._unit) * self._sum_members.factor("raw")

    @property
    def _sum_members(self) -> SumMembers:
        assert self.members is not None
        return self.members

    @property
    def _unit(self) -> float:
        assert self.secure is not None
        return self.secure.unit(self._sum_members.most)

    # -- codecs ----------------------------------------------------------------------------

    def _coded(
        self, name: str, v: Array, state: CodecState, draw: Draws, first: Bools
    ) -> tuple[Array, dict[str, Array]]:
        codec, memory, prefix = self.codec, self.memory, f"{PREFIX}{name}."
        assert codec is not None
        own = under(state, prefix)
        now: dict[str, Array] = {}

        def code(rows: Array) -> Array:
            decoded, new = self.layout.coded(codec, rows, draw, own)
            now.update({prefix + key: row for key, row in new.items()})
            return decoded

        if memory is None:
            return code(v), now
        sent, row = memory.sent(v, state[prefix[:-1]], code, first)
        return sent, now | {prefix[:-1]: row}


def _finite(
    finite: Bools, rows: Mapping[str, Array], instead: Mapping[str, Array] | None = None
) -> dict[str, Array]:
    """Return arrays (K, ...) by name in which some clients have others, or zeros.

    What a codec keeps of an upload that is not finite would break all later ones, so that the
    client keeps what it has.
    """
    out = {name: values.copy() for name, values in rows.items()}
    for name, values in out.items():
        values[~finite] = 0 if instead is None else instead[name][~finite]
    return out


def coded_vectors(ask: Ask, coded: Collection[str]) -> dict[str, int]:
    """Return the coded uploads of an Ask, with their sizes; scalars travel as they are."""
    return {name: n for name, n in ask.up.items() if n > 1 and name in coded}
