"""Points in a disc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.rng import Key
from rayfed.datasets.base import Dataset, Source, Table


@dataclass(frozen=True, kw_only=True)
class Disc(Dataset):
    """Points in a disc, for problem `circle`: uniform angles, targets 0.

    The toy task of a reproducibility study of FedHybrid (centre (10, 10), radius 5).

    Parameters
    ----------
    samples : int
        Number of points over all clients.
    x, y : float
        The centre.
    radius : float
        Radius of the disc.
    spread : "distance" or "area"
        Whether points are uniform in distance from the centre, as in the study, or in area.
    """

    name: ClassVar[str] = "disc"
    random: ClassVar[bool] = True

    samples: Annotated[int, Ge(1)] = 200
    x: float = 10.0
    y: float = 10.0
    radius: Annotated[float, Gt(0)] = 5.0
    spread: Literal["distance", "area"] = "distance"

    def load(self, source: Source, seed: int) -> Table:
        """Return the points."""
        rng = Key(self.seeded(seed), "disc").generator()
        share = rng.uniform(0.0, 1.0, self.samples)
        distance = self.radius * (np.sqrt(share) if self.spread == "area" else share)
        angle = rng.uniform(0.0, 2.0 * np.pi, self.samples)
        X = np.stack([self.x + distance * np.cos(angle), self.y + distance * np.sin(angle)], axis=1)
        return Table(X, np.zeros(self.samples), names=("x", "y"))
