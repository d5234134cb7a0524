"""The uplink: what vectors go through at clients, and what the server makes of their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rayfed.channel.base import Codec, Draws, Kept, Memory, Stage
from rayfed.channel.layout import Layout
from rayfed.core.arrays import Array, Bools
from rayfed.core.rng import Key
from rayfed.messages import Ask

PREFIX = "uplink."
"""What names of client state begin with that is the channel's."""


def total_name(name: str) -> str:
    """Return the name of the sum of a vector by the weights of F, for memories at the server."""
    return f"{name}#"


@dataclass(frozen=True)
class Uplink:
    """The uplink of a run.

    Parameters
    ----------
    stages : tuple of Stage
        In the order in which vectors go through them; at least one.
    layout : Layout
        Of the model.
    up : mapping of str to int
        The vectors of the algorithm's first Ask that are coded, with their sizes.
    dtype : dtype
        Of the model.
    key : Key
        Of its draws.
    """

    stages: tuple[Stage, ...]
    layout: Layout
    up: Mapping[str, int]
    dtype: np.dtype[np.floating]
    key: Key

    @cached_property
    def codec(self) -> Codec | None:
        """The codec, if there is one."""
        return next((stage for stage in self.stages if isinstance(stage, Codec)), None)

    @property
    def memory(self) -> Memory | None:
        """The memory of the codec, if there is one."""
        return None if self.codec is None else self.codec.memory

    @property
    def by_round(self) -> bool:
        """Whether the clients of a round share draws."""
        return any(stage.by_round for stage in self.stages)

    @cached_property
    def initial(self) -> dict[str, Array]:
        """First rows of what clients keep."""
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
        vectors = coded_vectors(ask)
        whole = sum(self._bits(n, first) for n in vectors.values())
        rest = {name: n for name, n in ask.up.items() if name not in vectors}
        return -(-whole // 8) + Ask("", {}, rest).bytes_up(self.dtype.itemsize)

    def _bits(self, n: int, first: bool) -> int:
        """Return the bits of a vector of n numbers."""
        number = 8 * self.dtype.itemsize
        if self.codec is None:
            return n * number
        return self.codec.bits(self.layout.pieces(self.codec, n), number, first)

    # -- at the client ---------------------------------------------------------------------

    def sent(
        self,
        values: Mapping[str, Array],
        kept: Kept,
        draw: Draws,
        first: Bools,
        plain: tuple[str, ...],
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return what the server decodes of an upload, and what the clients keep.

        Parameters
        ----------
        values : mapping of str to (K, ...) array
            What client functions return.
        kept : mapping of str to (K, ...) array
            What these clients keep, as `initial`.
        draw : Draws
            Of these clients.
        first : (K,) array of bool
            Who is charged for a first vector as it is.
        plain : tuple of str
            Vectors that are sent as they are.
        """
        out = dict(values)
        now: dict[str, Array] = {}
        for name, rows in values.items():
            if rows.ndim > 1 and rows[0].size > 1 and name not in plain and self.codec is not None:
                v = rows.reshape(len(rows), -1)
                sent, new = self._coded(name, v, kept, draw.sub(name), first)
                out[name] = sent.reshape(rows.shape)
                now |= new
        return out, now

    def _coded(
        self, name: str, v: Array, kept: Kept, draw: Draws, first: Bools
    ) -> tuple[Array, dict[str, Array]]:
        codec, memory, mine = self.codec, self.memory, f"{PREFIX}{name}."
        assert codec is not None
        own = {key.removeprefix(mine): row for key, row in kept.items() if key.startswith(mine)}
        now: dict[str, Array] = {}

        def code(rows: Array) -> Array:
            decoded, new = self.layout.coded(codec, rows, draw, own)
            now.update({mine + key: row for key, row in new.items()})
            return decoded

        if memory is None:
            return code(v), now
        sent, row = memory.sent(v, kept[mine[:-1]], code, first)
        return sent, now | {mine[:-1]: row}


def coded_vectors(ask: Ask) -> dict[str, int]:
    """Return what an Ask's clients upload that is coded, with sizes.

    Scalars travel as they are. So do vectors that are added up plainly: what the server makes of
    them has to equal what clients keep.
    """
    return {name: n for name, n in ask.up.items() if n > 1 and name not in ask.plain}
