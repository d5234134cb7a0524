"""The random quadratics of the power-of-choice paper, reproduced exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.datasets.base import Dataset, Source, Table


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
