"""The Boston housing data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.datasets.base import Dataset, Source, Table, standardise
from rayfed.datasets.fetch import File, read

FILE = File(
    "boston/housing.data",
    "https://raw.githubusercontent.com/vevake/Housing_BNN/"
    "f9c1b24029cf639697b869128c304bc76b933051/housing.data",
    "4a8425d42eb99b76feb7ee7cf0fb1d897a6cd19b72c437e4855d767cabb7e24e",
)
FEATURES = (
    *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"),
    *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
)


@dataclass(frozen=True, kw_only=True)
class Boston(Dataset):
    """Boston housing: the median value of homes (MEDV, 1000 dollars) from 13 features, 506 rows.

    Harrison and Rubinfeld, "Hedonic housing prices and the demand for clean air", Journal of
    Environmental Economics and Management 5, 1978. Column B encodes race: use the data as a
    numerical benchmark only.

    Parameters
    ----------
    standardise : bool
        Whether the features are brought to mean 0 and variance 1, over all rows, before any are
        held out; the target never is.
    """

    name: ClassVar[str] = "boston"
    default_test: ClassVar[float] = 0.2

    standardise: bool = True

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows, in the order of the file."""
        numbers = np.array(read(FILE, source.home).split(), dtype=np.float64)
        rows = numbers.reshape(-1, len(FEATURES) + 1)
        X = standardise(rows[:, :-1]) if self.standardise else rows[:, :-1].copy()
        return Table(X, rows[:, -1].copy(), names=FEATURES)
