"""Silence: a client computes and sends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.channel.faults.base import Fault


@dataclass(frozen=True, kw_only=True)
class Silent(Fault):
    """Sends nothing: it goes away when it has computed, and counts as dropped."""

    name: ClassVar[str] = "silent"
    silent: ClassVar[bool] = True
