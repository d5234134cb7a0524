"""Replay: an older upload is sent again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.channel.base import Draws
from rayfed.channel.faults.base import UploadFault
from rayfed.core.arrays import Array


@dataclass(frozen=True, kw_only=True)
class Replay(UploadFault):
    """Sends what it sent last before the fault began, again and again.

    A client that has sent nothing before then goes on with the first that it sends.
    """

    name: ClassVar[str] = "replay"
    keeps: ClassVar[bool] = True

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return what was kept (K, p); before the fault begins v, which is kept."""
        if round < self.start:
            return v, v
        new = np.isnan(kept).all(axis=1, keepdims=True)
        sent = np.where(new, v, kept)
        return sent, sent
