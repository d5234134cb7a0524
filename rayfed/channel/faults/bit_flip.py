"""Bit flip: the sign of what is sent is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.channel.base import Draws
from rayfed.channel.faults.base import UploadFault
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class BitFlip(UploadFault):
    """Sends -v in place of v."""

    name: ClassVar[str] = "bit-flip"

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return -v (K, p)."""
        return -v, kept
