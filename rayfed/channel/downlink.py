"""The downlink: server messages, coded once for all recipients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rayfed.channel.base import Codec, Draws
from rayfed.channel.layout import Layout
from rayfed.core.arrays import Array
from rayfed.core.rng import Key


@dataclass(frozen=True)
class Downlink:
    """The downlink of a run.

    With memory the server keeps what its clients have, g, and sends C(x - g) in every round, so
    that they have g + C(x - g). The first time it sends x itself, unless ``start: coded``.

    Parameters
    ----------
    codec : Codec
    layout : Layout
        Of the model.
    key : Key
        Of its draws.
    """

    codec: Codec
    layout: Layout
    key: Key

    def bytes_down(self, send: Mapping[str, Array], missed: int | None = None) -> int:
        """Return the bytes that a client downloads.

        Parameters
        ----------
        send : mapping of str to array
            What is sent.
        missed : int, optional
            How many of the server's messages a client lacks, with memory: it is sent all of them,
            or the whole vectors if these are less. None for a client that has nothing.
        """
        bits = rest = 0
        for values in map(np.asarray, send.values()):
            if not _is_coded(values):
                rest += values.nbytes
                continue
            shapes, number = self.layout.pieces(self.codec, values.size), 8 * values.itemsize
            coded = self.codec.bits(shapes, number)
            if self.codec.memory is not None:
                uncoded = values.size * number
                coded = uncoded if missed is None else min(uncoded, missed * coded)
            bits += coded
        return -(-bits // 8) + rest

    def sent(
        self, send: Mapping[str, Array], state: Mapping[str, Array], round: int, ask: int
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the vectors that clients decode, and the next server state.

        Parameters
        ----------
        send : mapping of str to array
            What the algorithm sends.
        state : mapping of str to array
            What the server kept, empty at first.
        round, ask : int
            Number of the round from 1, and of the Ask in it.
        """
        out, now = dict(send), dict(state)
        for name, values in send.items():
            if _is_coded(np.asarray(values)):
                draw = Draws(self.key.sub(name), np.zeros(1, np.int64), round, ask, round)
                row = values.reshape(1, -1)
                if self.codec.memory is None:
                    decoded = self._code(row, draw)
                else:
                    decoded = now[name] = self._remembered(row, state.get(name), draw)
                out[name] = decoded.reshape(values.shape)
        return out, now

    def _code(self, row: Array, draw: Draws) -> Array:
        return self.layout.coded(self.codec, row, draw, {})[0]

    def _remembered(self, row: Array, had: Array | None, draw: Draws) -> Array:
        """Return the clients' copy (1, n) after a message."""
        memory = self.codec.memory
        assert memory is not None
        first = np.full(1, had is None and memory.exact_first)
        before = np.zeros_like(row) if had is None else had
        return memory.sent(row, before, lambda v: self._code(v, draw), first)[1]


def _is_coded(values: Array) -> bool:
    return bool(values.size > 1 and values.dtype.kind == "f")
