"""Stages other than codecs: clipping and secure sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Interval

from rayfed.channel.base import Draws, Stage
from rayfed.channel.codecs.bits import bits_for
from rayfed.core.arrays import Array, Floats
from rayfed.core.needs import FRESH, NO_SCALARS, ONE_SIZE, READABLE, SEVERAL, TIMES, VECTORS, Terms

_KEY, _SHARE = 32, 80
"""Bytes of a public key, and of an encrypted pair of shares: two of 32, and 16 that seal them."""


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """A norm that follows a quantile of the lengths of uploads (Andrew et al. 2021).

    Andrew, Thakkar, McMahan, Ramaswamy, "Differentially Private Learning with Adaptive Clipping",
    NeurIPS 2021, https://arxiv.org/abs/1905.03871, Algorithm 1: clients say whether their upload is
    no longer than C, and C <- C exp(-lr (b - quantile)), where b is their share with noise. For
    private runs.

    Parameters
    ----------
    start : float
        The first norm C.
    quantile : float
        The share of uploads that are to be no longer than C.
    noise : float, optional
        Standard deviation of the noise on the number of these clients; a twentieth of the expected
        cohort if null, as in the paper. The noise on vectors is so much larger that both together
        spend the budget of ``privacy``.
    lr : float
        Step of the logarithm of C.
    """

    start: Annotated[float, Gt(0)]
    quantile: Annotated[float, Interval(ge=0, le=1)] = 0.5
    noise: Annotated[float, Gt(0)] | None = None
    lr: Annotated[float, Gt(0)] = 0.2

    def moved(self, norm: float, share: float) -> float:
        """Return the next norm, given a noised share of uploads that were no longer."""
        return norm * math.exp(-self.lr * (share - self.quantile))


@dataclass(frozen=True, kw_only=True)
class Clip(Stage):
    """The whole upload of each client, all vectors together, at most of an l2 norm.

    Parameters
    ----------
    norm : float or mapping
        Longer uploads are scaled down to it; others are not changed. A mapping of `start` and
        `quantile` lets it follow a quantile of their lengths.

    Examples
    --------
    >>> Clip(norm=1.0).applied({"a": np.array([[3.0], [0.3]]), "b": np.array([[4.0], [0.4]])})
    {'a': array([[0.6],
           [0.3]]), 'b': array([[0.8],
           [0.4]])}
    """

    name: ClassVar[str] = "clip"

    norm: Annotated[float, Gt(0)] | Quantile

    @property
    def adaptive(self) -> Quantile | None:
        """Adaptation of the norm; None for a fixed norm."""
        return self.norm if isinstance(self.norm, Quantile) else None

    @property
    def start(self) -> float:
        """The norm of the first round."""
        return self.norm.start if isinstance(self.norm, Quantile) else self.norm

    def applied(self, vectors: Mapping[str, Array]) -> dict[str, Array]:
        """Return vectors (K, ...) by name, scaled down together to the first norm."""
        return self.clipped(vectors, self.start)[0]

    def clipped(self, vectors: Mapping[str, Array], norm: float) -> tuple[dict[str, Array], Floats]:
        """Return vectors (K, ...) scaled down together to a norm, and their lengths (K,) before."""
        axes = {name: tuple(range(1, rows.ndim)) for name, rows in vectors.items()}
        square = sum(
            np.square(rows, dtype=np.float64).sum(axis=axes[name]) for name, rows in vectors.items()
        )
        length = np.sqrt(np.asarray(square))
        factor = np.where(length > norm, norm / np.maximum(length, norm), 1.0)
        factor = np.where(np.isnan(length), np.nan, factor)
        with np.errstate(invalid="ignore"):  # what is infinite becomes not a number
            scaled = {
                name: rows * factor.reshape(-1, *[1] * (rows.ndim - 1)).astype(rows.dtype)
                for name, rows in vectors.items()
            }
        return scaled, length


@dataclass(frozen=True, kw_only=True)
class SecureSum(Stage):
    """Sums of which the server learns nothing else (Bonawitz et al. 2017), as a model.

    Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS
    2017. Masks cancel in the sum, so what a user would feel of them is computed, and masks are not:
    clients round at random to fixed point, sums are taken modulo 2^bits, masked vectors are dense,
    keys and shares travel as well, three more turns take their latency, and a round of which fewer
    survive than the threshold is lost.

    Parameters
    ----------
    range : float
        Largest magnitude of a coordinate that can be summed up over the cohort, for clients of mean
        weight; larger ones may wrap around.
    bits : int
        Of a number that is sent.
    threshold : float
        Share of the clients that are asked whose uploads must come.
    neighbours : int, optional
        With how many others each client shares keys (Bell et al. 2020); with all if None.
    """

    name: ClassVar[str] = "secure-sum"
    needs: ClassVar[Terms] = frozenset({FRESH, NO_SCALARS, ONE_SIZE, SEVERAL, TIMES})
    removes: ClassVar[Terms] = frozenset({VECTORS, READABLE})
    turns: ClassVar[int] = 3

    range: Annotated[float, Gt(0)]
    bits: Annotated[int, Interval(ge=8, le=48)] = 32
    threshold: Annotated[float, Interval(gt=0, le=1)] = 0.7
    neighbours: Annotated[int, Ge(1)] | None = None

    def unit(self, cohort: int) -> float:
        """Return the value of the last bit, for weighted vectors of mean weight 1."""
        return float(self.range * 2.0 ** (bits_for(cohort) - (self.bits - 1)))

    def fixed(self, rows: Array, factors: Floats, draw: Draws) -> npt.NDArray[np.int64]:
        """Return vectors (K, n) times factors (K,) in fixed point, rounded at random."""
        half = 2.0 ** (self.bits - 1)
        exact = rows.astype(np.float64) * factors[:, None]
        exact = np.nan_to_num(exact, nan=half, posinf=half, neginf=-half)
        rounded = np.floor(exact + draw.uniforms(rows.shape[1]))
        return np.clip(rounded, -(2.0**52), 2.0**52).astype(np.int64)

    def opened(self, total: npt.NDArray[np.int64], unit: float) -> tuple[Floats, int]:
        """Return the decoded sum at the server, and the number of wrapped coordinates."""
        half = np.int64(1 << (self.bits - 1))
        found = ((total + half) & np.int64((1 << self.bits) - 1)) - half
        return found.astype(np.float64) * unit, int(np.count_nonzero(found != total))

    def key_bytes(self, cohort: int) -> tuple[int, int]:
        """Return the bytes of keys and shares that a client of a cohort downloads and uploads.

        Two public keys go up and those of the others come down; a pair of shares for each other
        goes up and comes down; a share of each goes up in the end.
        """
        others = max(cohort - 1, 0)
        if self.neighbours is not None:
            others = min(others, self.neighbours)
        return others * (2 * _KEY + _SHARE), 2 * _KEY + others * (_SHARE + _KEY)
