"""Centred clipping: differences to what was agreed on last are clipped.

Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust Optimization", ICML 2021,
https://arxiv.org/abs/2012.10333, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.channel.aggregators.base import Aggregator
from rayfed.core.arrays import Array, Floats
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class CentredClipping(Aggregator):
    """A mean of differences to the last result, each clipped to a radius.

    From v, the result of the round before and 0 in the first, ``v <- v + mean_i (v_i - v) min(1,
    radius / ||v_i - v||)``, some steps.

    Parameters
    ----------
    radius : float
        Norm tau that differences are clipped to.
    steps : int
        Number of steps.

    Notes
    -----
    Deviations from the paper: none. Clients of the paper send momenta; here they send what the
    algorithm has them send.

    Examples
    --------
    The difference of 9 counts as 2:

    >>> rule = CentredClipping(radius=2.0)
    >>> v, state = rule.aggregate(np.array([[0.0], [1.0], [9.0]]), np.ones(3), rule.init(1))
    >>> v.tolist(), state["centre"].tolist()
    ([1.0], [1.0])
    """

    name: ClassVar[str] = "centred-clipping"

    radius: Annotated[float, Gt(0)] = 100.0
    steps: Annotated[int, Ge(1)] = 1

    def init(self, p: int) -> State:
        """Return a centre (p,) of zeros."""
        return {"centre": np.zeros(p)}

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the next centre (p,) for vectors (K, p), and keep it."""
        v = state["centre"].astype(vectors.dtype, copy=False)
        for _ in range(self.steps):
            difference = vectors - v
            norm = np.linalg.norm(difference, axis=1)
            share = self.radius / np.maximum(norm, self.radius)
            v = v + (difference * share[:, None].astype(v.dtype, copy=False)).mean(axis=0)
        return v, {"centre": v}
