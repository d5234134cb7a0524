"""Faults of clients that know what the honest send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.channel.base import Kept
from rayfed.channel.faults.base import Collusion, Knowledge
from rayfed.core.arrays import Array, Floats


@dataclass(frozen=True, kw_only=True)
class Ipm(Collusion):
    """Sends -epsilon times the mean of the honest.

    Xie, Koyejo, Gupta, "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product
    Manipulation", UAI 2019, https://arxiv.org/abs/1903.03936, section 4.

    Parameters
    ----------
    epsilon : float
        Small ones deceive Krum, large ones the mean.
    """

    name: ClassVar[str] = "ipm"

    epsilon: Annotated[float, Gt(0)] = 0.1

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, Kept]:
        """Return -epsilon mean (p,)."""
        return np.asarray(known.mean * known.mean.dtype.type(-self.epsilon)), state


@dataclass(frozen=True, kw_only=True)
class Alie(Collusion):
    """Sends the mean of the honest minus z standard deviations in each coordinate.

    Baruch, Baruch, Goldberg, "A Little Is Enough: Circumventing Defenses For Distributed Learning",
    NeurIPS 2019, https://arxiv.org/abs/1902.06156, algorithm 3.

    Parameters
    ----------
    z : float, optional
        If None, that of the paper: of n clients of which m are faulty, s = floor(n / 2 + 1) - m
        honest ones are wanted farther away, and z is where the normal distribution has the value
        (n - m - s) / (n - m).

    Notes
    -----
    Deviations from the paper: mean and deviation are over all honest replies; there the attackers
    may know their own alone.
    """

    name: ClassVar[str] = "alie"

    z: float | None = None

    def most(self, honest: int, faulty: int) -> float:
        """Return the z of the paper.

        Examples
        --------
        n = 50 and m = 24: s = 2, and the normal distribution is 24/26 at z = 1.43:

        >>> round(Alie(count=1).most(26, 24), 2)
        1.43
        """
        supporters = (honest + faulty) // 2 + 1 - faulty
        share = (honest - supporters) / honest
        return NormalDist().inv_cdf(share) if 0 < share < 1 else 0.0

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, Kept]:
        """Return mean - z deviation (p,)."""
        z = self.most(known.honest, known.faulty) if self.z is None else self.z
        return np.asarray(known.mean - known.mean.dtype.type(z) * known.deviation), state


@dataclass(frozen=True, kw_only=True)
class Mimic(Collusion):
    """Copies the honest client that stands out most along the direction of most variance.

    Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing",
    ICLR 2022, https://arxiv.org/abs/2006.09365, section 3.2 and appendix B.

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
