"""Pictures of a model: predictions or a curve, as drawn on the result page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rayfed.core.arrays import Array


@dataclass(frozen=True)
class Picture:
    """A model together with rows of data.

    Parameters
    ----------
    kind : "curve", "numbers" or "classes"
        Points and a curve; targets and predictions; or a confusion matrix.
    points : (n, 2) array of float
        The points, or (target, prediction) of every row; empty for classes.
    curve : (m, 2) array of float
        The curve of the model; empty for the other kinds.
    counts : (c, c) array of int
        Rows of class i that are predicted as class j; empty for the other kinds.
    text : str
        Description of the curve, as the object of a sentence.
    square : bool
        Whether both axes have the same scale.
    """

    kind: Literal["curve", "numbers", "classes"]
    points: Array
    curve: Array
    counts: Array
    text: str = ""
    square: bool = False

    @classmethod
    def of_curve(cls, points: Array, curve: Array, text: str, *, square: bool = False) -> Picture:
        """Return a picture of points (n, 2) and a curve (m, 2)."""
        return cls("curve", points, curve, np.empty((0, 0), np.int64), text, square)

    @classmethod
    def of_numbers(cls, y: Array, predicted: Array) -> Picture:
        """Return a picture of targets (n,) against predictions (n,)."""
        points = np.stack([y, predicted], axis=1)
        return cls("numbers", points, np.empty((0, 2)), np.empty((0, 0), np.int64))

    @classmethod
    def of_classes(cls, y: Array, predicted: Array) -> Picture:
        """Return the confusion matrix of classes (n,) and predictions (n,).

        Examples
        --------
        >>> Picture.of_classes(np.array([0, 0, 1]), np.array([0, 1, 1])).counts.tolist()
        [[1, 1], [0, 1]]
        """
        classes = int(max(y.max(initial=0), predicted.max(initial=0))) + 1
        pairs = np.bincount(y * classes + predicted, minlength=classes * classes)
        none = np.empty((0, 2))
        return cls("classes", none, none, pairs.reshape(classes, classes))

    def arrays(self) -> Mapping[str, Array]:
        """Return all fields as named arrays, for a file without pickles."""
        return {
            "kind": np.array(self.kind), "text": np.array(self.text),
            "square": np.array(self.square), "points": np.asarray(self.points, np.float64),
            "curve": np.asarray(self.curve, np.float64), "counts": self.counts,
        }  # fmt: skip
