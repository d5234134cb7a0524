"""Label flip: training rows with wrong labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.channel.faults.base import Fault
from rayfed.core.errors import ScenarioError


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
