"""Error memories, which compensate the errors of codecs.

A client keeps a vector for each vector that it uploads. What the server keeps takes the weights w_i
of all clients, undiscounted, whoever takes part and however late: the sum of what all clients keep
is then known to the last bit of what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Interval

from rayfed.channel.base import Code, Codec, Memory, Shape
from rayfed.core.arrays import Array, Bools
from rayfed.core.needs import VECTORS, Terms


@dataclass(frozen=True, kw_only=True)
class ErrorFeedback(Memory):
    """Send C(e + v), keep the error: e <- e + v - C(e + v) (Seide et al. 2014).

    Seide, Fu, Droppo, Li, Yu, "1-bit stochastic gradient descent and its application to
    data-parallel distributed training of speech DNNs", Interspeech 2014. With any codec.
    """

    name: ClassVar[str] = "error-feedback"

    def sent(self, v: Array, state: Array, code: Code, first: Bools) -> tuple[Array, Array]:
        """Return C(e + v), and e + v - C(e + v)."""
        corrected = state + v
        sent = code(corrected)
        return sent, corrected - sent

    def left_out(self, v: Array, sent: Array, state: Array) -> Array:
        """Return e + v - C(e + v)."""
        return state + v - sent


@dataclass(frozen=True, kw_only=True)
class EF21(Memory):
    """Send c_i = C(v_i - g_i), update g_i <- g_i + c_i (Richtarik et al. 2021).

    Richtarik, Sokolov, Fatkhullin, "EF21: A New, Simpler, Theoretically Better, and Practically
    Faster Error Feedback", NeurIPS 2021, https://arxiv.org/abs/2106.05203, Algorithm 2. The server
    keeps g = sum_i w_i g_i over all clients; the algorithm gets it as its mean. With contractive
    codecs, and algorithms that take an estimate of the mean.

    Parameters
    ----------
    start : "full" or "coded"
        Whether the first g_i is v_i itself, as in the authors' code, or C(v_i), as in the paper.
    """

    name: ClassVar[str] = "ef21"
    at_server: ClassVar[bool] = True
    estimates: ClassVar[bool] = True

    start: Literal["full", "coded"] = "full"

    @property
    def exact_first(self) -> bool:
        """Whether the first vector of a client is sent as it is."""
        return self.start == "full"

    def misfit(self, codec: Codec, shapes: Sequence[Shape]) -> str:
        """Refuse codecs with errors that may exceed the norm of the vector."""
        if all(codec.error(shape) < 1 for shape in shapes):
            return ""
        hint = (
            ", such as top-k, or unbiased: false" if codec.name == "rand-k" else ", such as top-k"
        )
        return f"needs a contractive codec{hint}"

    def sent(self, v: Array, state: Array, code: Code, first: Bools) -> tuple[Array, Array]:
        """Return C(v - g), and g + C(v - g); a client's first upload is v itself."""
        lacking = v - state
        sent = code(lacking)
        if first.any():
            sent = np.where(first[:, None], lacking, sent)
        return sent, state + sent

    def received(self, mean: Array, total: Array, state: Array) -> tuple[Array, Array]:
        """Return g + sum_i w_i c_i, twice."""
        g = state + total
        return g, g


@dataclass(frozen=True, kw_only=True)
class EF21Plus(EF21):
    """EF21 with C(v_i) in place of the estimate where it is nearer to v_i (Richtarik et al. 2021).

    Algorithm 3 of the paper: g_i becomes C(v_i) or g_i + C(v_i - g_i), whichever is nearer to v_i;
    one more bit tells them apart. As C(v_i) replaces g_i, the server must know each g_i.
    """

    name: ClassVar[str] = "ef21+"
    needs: ClassVar[Terms] = EF21.needs | {VECTORS}
    bits: ClassVar[int] = 1

    def sent(self, v: Array, state: Array, code: Code, first: Bools) -> tuple[Array, Array]:
        """Return the change of g, and the next g."""
        lacking = v - state
        moved, plain = code(lacking), code(v)
        nearer = _square(plain - v) < _square(moved - lacking)
        sent = np.where(nearer[:, None], plain - state, moved)
        new = np.where(nearer[:, None], plain, state + moved)
        if first.any():
            sent, new = (np.where(first[:, None], a, b) for a, b in ((lacking, sent), (v, new)))
        return sent, new


@dataclass(frozen=True, kw_only=True)
class DIANA(Memory):
    """Send C_i = C(v_i - h_i), update h_i <- h_i + alpha C_i (Mishchenko et al. 2019).

    Mishchenko, Gorbunov, Takac, Richtarik, "Distributed Learning with Compressed Gradient
    Differences", https://arxiv.org/abs/1901.09269, Algorithm 1. The server keeps h = sum_i w_i h_i;
    the algorithm gets the old h + mean_i C_i. With unbiased codecs.

    Parameters
    ----------
    alpha : float
        Step of the shifts; at most 1 / (1 + omega) in theory.
    """

    name: ClassVar[str] = "diana"
    at_server: ClassVar[bool] = True

    alpha: Annotated[float, Interval(gt=0, le=1)]

    @property
    def step(self) -> float:
        """Return alpha."""
        return self.alpha

    def misfit(self, codec: Codec, shapes: Sequence[Shape]) -> str:
        """Refuse biased codecs."""
        return "" if codec.unbiased else "needs an unbiased codec, such as rand-k or qsgd"

    def sent(self, v: Array, state: Array, code: Code, first: Bools) -> tuple[Array, Array]:
        """Return C(v - h), and h + alpha C(v - h)."""
        sent = code(v - state)
        return sent, state + v.dtype.type(self.alpha) * sent

    def received(self, mean: Array, total: Array, state: Array) -> tuple[Array, Array]:
        """Return h + mean C, and h + alpha sum_i w_i C_i."""
        return state + mean, state + total.dtype.type(self.alpha) * total


def _square(rows: Array) -> Array:
    return np.asarray(np.square(rows).sum(axis=1))
