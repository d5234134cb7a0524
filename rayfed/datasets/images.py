"""Base of image data sets: number of images and normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Len

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError
from rayfed.datasets.base import Dataset, Source, Table, standardise

_Positive: TypeAlias = Annotated[float, Gt(0)]
Moments: TypeAlias = (
    tuple[float, _Positive]
    | tuple[Annotated[tuple[float, ...], Len(1)], Annotated[tuple[_Positive, ...], Len(1)]]
)


@dataclass(frozen=True, kw_only=True)
class Images(Dataset):
    """Base of data sets of images of one size, in classes.

    Parameters
    ----------
    limit : int, optional
        Number of training images per class; the first ones are used.
    standardise : bool or (mean, deviation)
        Whether each pixel is brought to mean 0 and variance 1 over the training images; or a mean
        and a standard deviation to use for all pixels, or lists of one for each channel, as in
        published code (``[0.1307, 0.3081]``, the moments of MNIST's pixels).
    """

    limit: Annotated[int, Ge(1)] | None = None
    standardise: bool | Moments = False

    def parts(self, source: Source) -> tuple[Table, Table]:
        """Return training and test images as bytes (n, d), to be divided by 255.

        Raises
        ------
        ScenarioError
            If a file is missing or has unexpected content.
        """
        raise NotImplementedError

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows, with the test images at the server."""
        train, test = self.parts(source)
        if self.limit is not None:
            train = _first(train, self.limit)
        if isinstance(self.standardise, tuple):
            train, test = (_moved(table, *self.standardise) for table in (train, test))
        elif self.standardise:
            test = replace(test, X=standardise(test.X, by=train.X), scale=1.0)
            train = replace(train, X=standardise(train.X), scale=1.0)
        return replace(train, test=test)


def _moved(
    table: Table, mean: float | Sequence[float], deviation: float | Sequence[float]
) -> Table:
    """Return the table with (value - mean) / deviation in place of each value; X stays bytes."""
    if isinstance(mean, float | int) and isinstance(deviation, float | int):
        return replace(table, scale=table.scale * deviation, shift=mean / deviation)
    means, deviations = (_by_pixel(table, moment) for moment in (mean, deviation))
    return replace(table, scale=table.scale * deviations, shift=means / deviations)


def _by_pixel(table: Table, moment: float | Sequence[float]) -> Floats:
    """Return a number for each feature (d,), given one for each channel."""
    channels, *sides = table.shape
    values = np.atleast_1d(np.asarray(moment, dtype=np.float64))
    if len(values) != channels:
        text = f"found {len(values)} numbers for {channels} channels; give one for each"
        raise ScenarioError("problem.dataset.standardise", text)
    return np.repeat(values, int(np.prod(sides)))


def _first(table: Table, limit: int) -> Table:
    """Return the first rows of each class, in the order of the file."""
    rows = np.sort(
        np.concatenate([np.flatnonzero(table.y == c)[:limit] for c in range(table.classes)])
    )
    writer = None if table.writer is None else table.writer[rows]
    return replace(table, X=table.X[rows], y=table.y[rows], writer=writer)
