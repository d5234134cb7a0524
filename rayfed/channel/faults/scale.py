"""Scale: what is sent is too long or too short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.channel.base import Draws
from rayfed.channel.faults.base import UploadFault
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class Scale(UploadFault):
    """Sends factor v in place of v.

    Parameters
    ----------
    factor : float
        Of any sign.
    """

    name: ClassVar[str] = "scale"

    factor: float = 10.0

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return factor v (K, p)."""
        scaled: Array = v * v.dtype.type(self.factor)
        return scaled, kept
