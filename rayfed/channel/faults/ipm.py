"""Inner-product manipulation: the mean of the honest, turned round.

Xie, Koyejo, Gupta, "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product
Manipulation", UAI 2019, https://arxiv.org/abs/1903.03936, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from rayfed.channel.base import Kept
from rayfed.channel.faults.base import Collusion, Knowledge
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class Ipm(Collusion):
    """Sends -epsilon times the mean of the honest.

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
