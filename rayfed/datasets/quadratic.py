"""The random quadratics of the power-of-choice study, number for number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.datasets.base import Dataset, Source, Table


@dataclass(frozen=True, kw_only=True)
class Quadratics(Dataset):
    """A quadratic for each client, with a weight p_k of its own: rows for problem `quadratic`.

    Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning",
    AISTATS 2022, section 5: the recipe of the authors' code, with NumPy's legacy generator so that
    a seed gives their numbers (they use 2). For every client e_k ~ 100 U(0, 1)^d, then
    h_k ~ 9 U(0, 1), then p_k ~ power(3), made to add up to 1; then the first model, 100 N(0, 1)^d,
    which a study starts from unless it names another.

    Parameters
    ----------
    clients : int
        Number of clients; the data fixes it.
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
        # generator and order of the draws are the authors': they make the numbers
        e = 100 * stream.rand(self.clients, self.features)
        h = 9 * stream.rand(self.clients)
        p = stream.power(3, self.clients)
        start = 100 * stream.randn(self.features)
        return Table(
            e, h, names=tuple(f"e{j}" for j in range(self.features)),
            client=np.arange(self.clients), mass=p / p.sum(), start=start,
        )  # fmt: skip
