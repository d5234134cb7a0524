"""Noise: what is sent is noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.channel.base import Draws
from rayfed.channel.faults.base import UploadFault
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class Noise(UploadFault):
    """Sends v plus normal noise, or noise alone.

    Parameters
    ----------
    deviation : float
        Standard deviation of each number.
    alone : bool
        Whether v itself is left out.
    """

    name: ClassVar[str] = "noise"

    deviation: Annotated[float, Ge(0)] = 1.0
    alone: bool = False

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return v + noise, or noise (K, p), keyed by client and round."""
        from scipy.special import ndtri  # imported late: most runs have no such fault

        noise = (self.deviation * ndtri(draw.uniforms(v.shape[1]))).astype(v.dtype)
        return np.asarray(noise if self.alone else v + noise), kept
