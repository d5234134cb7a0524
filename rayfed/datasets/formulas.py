"""Tables that a formula and a seed make: a line, a disc, quadratics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.base import Dataset, Source, Table


@dataclass(frozen=True, kw_only=True)
class Line(Dataset):
    """Points on a line with noise: y = slope x + intercept + noise N(0, 1), x uniform on low..high.

    The toy task of a reproducibility study of FedHybrid (slope 2, intercept 30).

    Parameters
    ----------
    samples : int
        Number of points over all clients.
    slope, intercept : float
        Coefficients of the line.
    noise : float
        Standard deviation of y about the line.
    low, high : float
        Range of x.

    Raises
    ------
    ScenarioError
        If low is above high.
    """

    name: ClassVar[str] = "line"
    default_test: ClassVar[float] = 0.2
    random: ClassVar[bool] = True

    samples: Annotated[int, Ge(1)] = 1000
    slope: float = 2.0
    intercept: float = 30.0
    noise: Annotated[float, Ge(0)] = 1.0
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if self.low > self.high:
            text = f"found low {self.low:g} above high {self.high:g}; exchange them"
            raise ScenarioError("high", text)

    def load(self, source: Source, seed: int) -> Table:
        """Return the points."""
        rng = Key(self.seeded(seed), "line").generator()
        x = rng.uniform(self.low, self.high, self.samples)
        y = self.slope * x + self.intercept + self.noise * rng.standard_normal(self.samples)
        return Table(x[:, None], y, names=("x",))


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


@dataclass(frozen=True, kw_only=True)
class Quadratics(Dataset):
    """One random quadratic with weight p_k per client: rows for problem `quadratic`.

    Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning", AISTATS
    2022, section 5: generated as in the authors' code, with NumPy's legacy generator, so that a
    seed reproduces their numbers (they use 2). For every client e_k ~ 100 U(0, 1)^d, then h_k ~ 9
    U(0, 1), then p_k ~ power(3), normalised to sum to 1; then the initial model 100 N(0, 1)^d, used
    by studies that do not set another.

    Parameters
    ----------
    clients : int
        Number of clients, set by the data.
    features : int
        Number d of parameters.
    """

    name: ClassVar[str] = "quadratic"
    random: ClassVar[bool] = True

    clients: Annotated[int, Ge(1)] = 30
    features: Annotated[int, Ge(1)] = 5

    def load(self, source: Source, seed: int) -> Table:
        """Return one row (e_k, h_k) for each client, and p_k as its mass."""
        stream = np.random.RandomState(self.seeded(seed))
        # same generator and order of draws as the authors, to reproduce their numbers
        e = 100 * stream.rand(self.clients, self.features)
        h = 9 * stream.rand(self.clients)
        p = stream.power(3, self.clients)
        start = 100 * stream.randn(self.features)
        return Table(
            e, h, names=tuple(f"e{j}" for j in range(self.features)),
            client=np.arange(self.clients), mass=p / p.sum(), start=start,
        )  # fmt: skip
