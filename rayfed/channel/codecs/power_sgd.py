"""PowerSGD: matrices of low rank, by a step of subspace iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from rayfed.channel.base import Codec, CodecState, Draws, Shape, size_of
from rayfed.core.arrays import Array
from rayfed.core.rng import Key


@dataclass(frozen=True, kw_only=True)
class PowerSGD(Codec):
    """Each matrix as a product of two thin ones (Vogels et al. 2019).

    Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
    Optimization", NeurIPS 2019, https://arxiv.org/abs/1905.13727, Algorithm 1. With the Q of the
    last time, P = orthogonalised M Q, Q = M'P, and P Q' is decoded. Vectors travel as they are;
    kernels of convolutions are matrices (out, rest). Matrices with fewer numbers than the thin ones
    travel as they are, too.

    Parameters
    ----------
    rank : int
        Columns r of the thin matrices.

    Notes
    -----
    Deviations from the paper: each client has a Q of its own, and the server adds up decoded
    matrices. The paper adds up P and Q, which every client needs for it, in two more exchanges.
    """

    name: ClassVar[str] = "power-sgd"
    matrices: ClassVar[bool] = True

    by: Literal["layer", "all"] = field(default="layer")
    rank: Annotated[int, Ge(1)] = 2

    def error(self, shape: Shape) -> float:
        """Return 1, the error of vectors orthogonal to Q; 0 for uncoded pieces."""
        return 1.0 if self._thin(shape) else 0.0

    def bits_of(self, shape: Shape, bits_per_number: int) -> int:
        """Return r (rows + columns) numbers, or all of them."""
        numbers = self.rank * sum(_matrix(shape)) if self._thin(shape) else size_of(shape)
        return numbers * bits_per_number

    def _thin(self, shape: Shape) -> bool:
        return len(shape) > 1 and self.rank * sum(_matrix(shape)) < size_of(shape)

    def first(self, shape: Shape) -> CodecState:
        """Return a keyed Q (columns, r), the same for all clients."""
        if not self._thin(shape):
            return {}
        columns = _matrix(shape)[1]
        return {"q": Key(0, "power-sgd").normals(np.arange(columns), self.rank)}

    def stepped(self, v: Array, draw: Draws, state: CodecState) -> tuple[Array, CodecState]:
        """Return P Q' (K, ...) for matrices (K, ...), and the new Q (K, columns, r)."""
        shape = v.shape[1:]
        if not self._thin(shape):
            return v, state
        m = v.reshape(len(v), *_matrix(shape))
        p = np.linalg.qr(m @ state["q"].astype(v.dtype, copy=False))[0]
        q = m.transpose(0, 2, 1) @ p
        return (p @ q.transpose(0, 2, 1)).reshape(v.shape), {"q": q}

    def coded(self, v: Array, draw: Draws) -> Array:
        """Return the decoded vectors with the first Q."""
        first = {name: row[None].repeat(len(v), axis=0) for name, row in
                 self.first(v.shape[1:]).items()}  # fmt: skip
        return self.stepped(v, draw, first)[0]


def _matrix(shape: Shape) -> tuple[int, int]:
    """Return the rows and columns of a layer as a matrix (out, rest)."""
    return shape[0], size_of(shape[1:])
