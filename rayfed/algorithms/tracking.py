"""Gossip with full gradients: base of DIGing, EXTRA and exact diffusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt

from rayfed.algorithms.gossip import Gossip
from rayfed.core.needs import GRADIENTS, SOLVER, Terms
from rayfed.messages import Ask


@dataclass(frozen=True, kw_only=True)
class FullGradientGossip(Gossip):
    """Base of gossip methods that step along the gradient of all rows of a node.

    Parameters
    ----------
    lr : float
        Step along the gradient, constant: the methods correct it by earlier gradients.
    """

    needs: ClassVar[Terms] = Gossip.needs - {SOLVER} | {GRADIENTS}

    lr: Annotated[float, Gt(0)] = 0.1

    def ask(self, size: int) -> Ask:
        """Return the request of a step: one gradient of all rows."""
        return Ask("step", send={}, up=self.message(size), cost=0, passes=1)
