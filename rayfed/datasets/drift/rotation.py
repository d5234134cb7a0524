"""Rotation: the features of a row turn in a plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Len

from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError
from rayfed.datasets.drift.base import Drift
from rayfed.datasets.shards import Shards


@dataclass(frozen=True, kw_only=True)
class Rotation(Drift):
    """Two features turn about the origin, from the first towards the second.

    A gradual change turns all rows step by step, by the level times the angle.

    Parameters
    ----------
    angle : float
        Degrees at level 1.
    plane : pair of int
        The two features, counted from 0.

    Raises
    ------
    ScenarioError
        If the plane has one feature twice.

    Examples
    --------
    >>> import numpy as np
    >>> X, _ = Rotation(angle=90).change(np.ones((1, 1, 2)), np.zeros((1, 1)), 1.0, (2,), None)
    >>> X.round(12).tolist()
    [[[-1.0, 1.0]]]
    """

    name: ClassVar[str] = "rotation"

    angle: float = 90.0
    plane: Annotated[tuple[Annotated[int, Ge(0)], ...], Len(2, 2)] = (0, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.plane[0] == self.plane[1]:
            raise ScenarioError("plane", f"found feature {self.plane[0]} twice; give two features")

    def check(self, shards: Shards) -> None:
        """Refuse features that do not exist."""
        count = math.prod(shards.shape)
        if max(self.plane) >= count:
            text = f"found feature {max(self.plane)}; the data has {count}, counted from 0"
            raise ScenarioError("plane", text)

    def change(
        self, X: Array, y: Array, level: float, shape: tuple[int, ...], u: Floats | None
    ) -> tuple[Array, Array]:
        """Return rows that are turned by the angle of a level; see `Drift.change`."""
        angle = math.radians(level * self.angle)
        cos, sin = math.cos(angle), math.sin(angle)
        i, j = self.plane
        turned = X.copy()
        turned[..., i] = cos * X[..., i] - sin * X[..., j]
        turned[..., j] = sin * X[..., i] + cos * X[..., j]
        return turned, y
