"""Label swaps: pairs of classes change their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Len

from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError
from rayfed.datasets.drift.base import Drift, changed_rows
from rayfed.datasets.shards import Shards

Pair = Annotated[tuple[Annotated[int, Ge(0)], ...], Len(2, 2)]


@dataclass(frozen=True, kw_only=True)
class LabelsSwap(Drift):
    """Rows of one class get the label of another, and the other way round.

    The features stay, so the best prediction for them changes (real drift). A gradual change swaps
    the rows one by one, in an order that is drawn once.

    Parameters
    ----------
    pairs : list of pairs of int
        Classes that change places.

    Raises
    ------
    ScenarioError
        If a class is in two pairs, or in one twice.

    Examples
    --------
    >>> swap = LabelsSwap(pairs=((0, 2),))
    >>> swap.change(np.zeros((1, 3, 1)), np.array([[0, 1, 2]]), 1.0, (1,), None)[1].tolist()
    [[2, 1, 0]]
    """

    name: ClassVar[str] = "labels-swap"
    by_row: ClassVar[bool] = True

    pairs: Annotated[tuple[Pair, ...], Len(1)] = ((0, 1),)

    def __post_init__(self) -> None:
        super().__post_init__()
        classes = [label for pair in self.pairs for label in pair]
        if len(set(classes)) < len(classes):
            raise ScenarioError("pairs", "has a class twice; put each in one pair")

    def check(self, shards: Shards) -> None:
        """Refuse targets that are numbers, and classes that do not exist."""
        largest = max(label for pair in self.pairs for label in pair)
        if not shards.classes:
            raise ScenarioError("name", "found 'labels-swap', but the targets are numbers")
        if largest >= shards.classes:
            text = f"found class {largest}; the data has classes 0 to {shards.classes - 1}"
            raise ScenarioError("pairs", text)

    def change(
        self, X: Array, y: Array, level: float, shape: tuple[int, ...], u: Floats | None
    ) -> tuple[Array, Array]:
        """Return rows with the labels of a level; see `Drift.change`."""
        swapped = y
        for one, other in self.pairs:
            swapped = np.where(y == one, other, np.where(y == other, one, swapped))
        return X, np.where(changed_rows(y, level, u), swapped, y)
