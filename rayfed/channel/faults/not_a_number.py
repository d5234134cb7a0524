"""Not a number: a broken client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.channel.base import Draws
from rayfed.channel.faults.base import UploadFault
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class NotANumber(UploadFault):
    """Sends NaN, as a client does whose training diverged."""

    name: ClassVar[str] = "not-a-number"

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return NaN (K, p)."""
        return np.full_like(v, np.nan), kept
