"""Layout: which pieces of a vector are coded by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rayfed.channel.base import Codec, CodecState, Draws, Shape, size_of
from rayfed.core.arrays import Array
from rayfed.problems.layers import Layer


@dataclass(frozen=True)
class Layout:
    """The layers of a model as pieces of vectors.

    Parameters
    ----------
    p : int
        Numbers of the model.
    shapes : tuple of tuple of int
        Of its layers, one after the other, without running statistics that travel apart.
    apart : int
        Number of these statistics, the last numbers of the model: an update has zeros in their
        place, which no codec sees.
    """

    p: int
    shapes: tuple[Shape, ...]
    apart: int = 0

    @classmethod
    def of(cls, layers: Sequence[Layer], apart: int = 0) -> Layout:
        """Return the layout of a model, of which so many statistics travel apart."""
        seen = [layer for layer in layers if not (apart and layer.kind == "statistics")]
        shapes = tuple(layer.shape or (layer.size,) for layer in seen)
        return cls(layers[-1].stop, shapes, apart)

    def coded_size(self, n: int) -> int:
        """Return how many numbers of a vector (n,) codecs see."""
        return n - self.apart if n == self.p else n

    def pieces(self, codec: Codec, n: int) -> tuple[Shape, ...]:
        """Return the shapes of the pieces of a vector (n,)."""
        return self.shapes if codec.by == "layer" and n == self.p else ((self.coded_size(n),),)

    def coded(
        self, codec: Codec, v: Array, draw: Draws, state: CodecState
    ) -> tuple[Array, CodecState]:
        """Return the decoded vectors (K, n) and the next codec state.

        Parameters
        ----------
        state : mapping of str to (K, ...) array
            Of each piece under its number and a dot: ``0.q``.
        """
        n = v.shape[1]
        shapes, size = self.pieces(codec, n), self.coded_size(n)
        if len(shapes) == 1 and not codec.matrices and not state:
            piece = v if size == n else np.ascontiguousarray(v[:, :size])
            decoded, _ = codec.stepped(piece, draw, {})
            return decoded if size == n else np.pad(decoded, ((0, 0), (0, n - size))), {}
        out, start = np.empty_like(v), 0
        out[:, size:] = 0
        now: dict[str, Array] = {}
        for k, shape in enumerate(shapes):
            piece = v[:, start : start + size_of(shape)]
            rows = piece.reshape(len(v), *shape) if codec.matrices else np.ascontiguousarray(piece)
            own = {name.partition(".")[2]: row for name, row in state.items()
                    if name.startswith(f"{k}.")}  # fmt: skip
            decoded, new = codec.stepped(rows, draw.sub(str(k)), own)
            out[:, start : start + size_of(shape)] = decoded.reshape(piece.shape)
            now |= {f"{k}.{name}": row for name, row in new.items()}
            start += size_of(shape)
        return out, now

    def first(self, codec: Codec, n: int) -> Iterator[tuple[str, Array]]:
        """Yield the first rows of codec state, under the names of `coded`."""
        for k, shape in enumerate(self.pieces(codec, n)):
            for name, row in codec.first(shape).items():
                yield f"{k}.{name}", row
