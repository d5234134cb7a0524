"""Mimic: all faulty clients copy one honest one.

Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing", ICLR
2022, https://arxiv.org/abs/2006.09365, section 3.2 and appendix B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.channel.base import Kept
from rayfed.channel.faults.base import Collusion, Knowledge
from rayfed.core.arrays import Array, Floats


@dataclass(frozen=True, kw_only=True)
class Mimic(Collusion):
    """Copies the honest client that stands out most along the direction of most variance.

    In the rounds of learning, t = 0, 1, ..., with the honest vectors v_i of the round: ``mu <- (t
    mu + mean v_i) / (1 + t)``, ``z <- (t z + c / ||c||) / (1 + t)`` with ``c = sum_i (v_i - mu)
    <v_i - mu, z>``, scaled to norm 1. The client with the largest ``|<v_i, z>|`` is copied; after
    the learning always the same one, where it replies.

    Parameters
    ----------
    learning : int
        Rounds of learning.

    Notes
    -----
    Deviations from the paper: clients are copied while the direction is learnt; where the one that
    was chosen does not reply, the one that stands out most is copied.
    """

    name: ClassVar[str] = "mimic"
    sees_vectors: ClassVar[bool] = True

    learning: Annotated[int, Ge(1)] = 20

    def init(self, p: int, uniforms: Floats) -> Kept:
        """Return a random direction, no mean yet, and nobody chosen."""
        from scipy.special import ndtri  # imported late: most runs have no such fault

        z = ndtri(uniforms)
        return {"z": z / np.linalg.norm(z), "mu": np.zeros(p), "t": np.zeros(1),
                "chosen": np.array([-1.0])}  # fmt: skip

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, Kept]:
        """Return the vector (p,) of an honest client."""
        assert known.vectors is not None
        now = dict(state)
        if state["t"][0] < self.learning:
            now |= _learnt(known.vectors.astype(np.float64), state)
        place = int(np.abs(known.vectors @ now["z"]).argmax())
        if state["t"][0] < self.learning:
            now["chosen"] = known.ids[place : place + 1].astype(np.float64)
        elif state["chosen"][0] in known.ids:
            place = int(np.searchsorted(known.ids, state["chosen"][0]))
        return known.vectors[place].copy(), now


def _learnt(vectors: Floats, state: Mapping[str, Array]) -> dict[str, Floats]:
    """Return the mean and the direction after the vectors (H, p) of a round."""
    t = float(state["t"][0])
    mu = (t * state["mu"] + vectors.mean(axis=0)) / (1 + t)
    apart = vectors - mu
    c = (apart @ state["z"]) @ apart
    length = np.linalg.norm(c)
    z = state["z"]
    if length > 0:
        z = (t * z + c / length) / (1 + t)
        z = z / np.linalg.norm(z)
    return {"mu": mu, "z": z, "t": np.array([t + 1])}
