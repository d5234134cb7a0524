"""Faults that a client commits by itself, on what it would have sent or on its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.channel.base import Draws
from rayfed.channel.faults.base import Fault, UploadFault
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError


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


@dataclass(frozen=True, kw_only=True)
class BitFlip(UploadFault):
    """Sends -v in place of v."""

    name: ClassVar[str] = "bit-flip"

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return -v (K, p)."""
        return -v, kept


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


@dataclass(frozen=True, kw_only=True)
class NotANumber(UploadFault):
    """Sends NaN, as a client does whose training diverged."""

    name: ClassVar[str] = "not-a-number"

    def sent(self, v: Array, draw: Draws, kept: Array, round: int) -> tuple[Array, Array]:
        """Return NaN (K, p)."""
        return np.full_like(v, np.nan), kept


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


@dataclass(frozen=True, kw_only=True)
class Silent(Fault):
    """Sends nothing: it goes away when it has computed, and counts as dropped."""

    name: ClassVar[str] = "silent"
    silent: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class LabelFlip(Fault):
    """Class c of a training row becomes C - 1 - c; all else is honest.

    Tolpegin, Truex, Gursoy, Liu, "Data Poisoning Attacks Against Federated Learning Systems",
    ESORICS 2020, https://arxiv.org/abs/2007.08432. Rows are wrong from the first round on.
    """

    name: ClassVar[str] = "label-flip"
    rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start != 1:
            raise ScenarioError("start", "labels are wrong from the first round on; leave it out")
