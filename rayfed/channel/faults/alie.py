"""A little is enough: as far from the mean as hides among the honest.

Baruch, Baruch, Goldberg, "A Little Is Enough: Circumventing Defenses For Distributed Learning",
NeurIPS 2019, https://arxiv.org/abs/1902.06156, algorithm 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from rayfed.channel.base import Kept
from rayfed.channel.faults.base import Collusion, Knowledge
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class Alie(Collusion):
    """Sends the mean of the honest minus z standard deviations in each coordinate.

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
