"""Turning images: rows that are images turn by quarters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError
from rayfed.datasets.drift.base import Drift, changed_rows
from rayfed.datasets.shards import Shards


@dataclass(frozen=True, kw_only=True)
class ImagesTurn(Drift):
    """Square images turn anticlockwise by quarters of a circle.

    A gradual change turns the images one by one, in an order that is drawn once.

    Parameters
    ----------
    quarters : int
        Quarters of a circle.

    Examples
    --------
    >>> image = np.array([[[1.0, 2.0, 3.0, 4.0]]])  # [[1, 2], [3, 4]]
    >>> ImagesTurn().change(image, np.zeros((1, 1)), 1.0, (1, 2, 2), None)[0].tolist()
    [[[2.0, 4.0, 1.0, 3.0]]]
    """

    name: ClassVar[str] = "images-turn"
    by_row: ClassVar[bool] = True

    quarters: Annotated[int, Interval(ge=1, le=3)] = 1

    def check(self, shards: Shards) -> None:
        """Refuse rows that are no square images."""
        if len(shards.shape) != 3 or shards.shape[1] != shards.shape[2]:
            text = f"found 'images-turn' and rows of shape {list(shards.shape)}"
            raise ScenarioError("name", f"{text}; only square images (C, H, W) turn")

    def change(
        self, X: Array, y: Array, level: float, shape: tuple[int, ...], u: Floats | None
    ) -> tuple[Array, Array]:
        """Return rows of which those that a level says have turned; see `Drift.change`."""
        pixels = math.prod(shape)
        images = X[..., :pixels].reshape(*X.shape[:2], *shape)
        turned = X.copy()
        turned[..., :pixels] = np.rot90(images, self.quarters, axes=(-2, -1)).reshape(
            *X.shape[:2], pixels
        )
        return np.where(changed_rows(y, level, u)[..., None], turned, X), y
