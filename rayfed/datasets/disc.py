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
    """Points in a disc, for problem `circle`: angles are uniform; the targets are 0.

    The toy task of a reproducibility study of FedHybrid (centre (10, 10), radius 5).

    Parameters
    ----------
    samples : int
        Number of points over all clients.
    x, y : float
        The centre.
    radius : float
        Of the disc.
    spread : "distance" or "area"
        What is uniform: the distance from the centre, as in the study, so that points crowd
        there, or the area.
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
