"""EMNIST: handwritten digits and letters with their writers, from the published MATLAB files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from rayfed.core.errors import DataMissing
from rayfed.core.files import reading
from rayfed.datasets.base import Source, Table
from rayfed.datasets.images import Images

_ADDRESS = "https://www.nist.gov/itl/products-and-services/emnist-dataset"


@dataclass(frozen=True, kw_only=True)
class EMNIST(Images):
    """EMNIST: digits and letters of 28 x 28 grey values, with the ids of their writers.

    Cohen, Afshar, Tapson, van Schaik, "EMNIST: an extension of MNIST to handwritten letters", 2017,
    https://arxiv.org/abs/1702.05373. The MATLAB files, which alone have the writers, are read from
    folder ``emnist`` of ``RAYFED_DATA``; they are not downloaded. Images stand upright, as MNIST's
    do. Partition ``writers`` makes a client of every writer.

    Parameters
    ----------
    split : str
        "byclass" (814,255 images in 62 classes), "bymerge" (47 classes, unbalanced), "balanced"
        (47), "letters" (26), "digits" or "mnist" (10).
    """

    name: ClassVar[str] = "emnist"

    split: Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"] = "byclass"

    def parts(self, source: Source) -> tuple[Table, Table]:
        """Return training and test images as bytes (n, 784), to be divided by 255."""
        path = self._path(source.home)
        from scipy.io import loadmat  # imported late: slow, and rarely needed

        with reading(path, "EMNIST's MATLAB file"):
            held = loadmat(path, squeeze_me=True, struct_as_record=False)["dataset"]
            train, test = _table(held.train, held.mapping), _table(held.test, held.mapping)
            writers = np.atleast_1d(held.train.writers).astype(np.int64)
        return replace(train, writer=writers), test

    def _path(self, home: Path | None) -> Path:
        name = f"emnist-{self.split}.mat"
        for folder in ("emnist", "emnist/matlab") if home else ():
            path = Path(home or "") / folder / name
            if path.is_file():
                return path
        text = f"file 'emnist/{name}' is not available; get matlab.zip from {_ADDRESS} and unpack"
        raise DataMissing("problem.dataset", f"{text} it in the folder that RAYFED_DATA names")


def _table(part: Any, mapping: Any) -> Table:
    """Return the images of a part; a row of the mapping holds a label and its character code."""
    mapping = np.atleast_2d(mapping)
    labels = tuple(chr(code) for code in mapping[:, 1])
    y = np.searchsorted(mapping[:, 0], np.atleast_1d(part.labels)).astype(np.int64)
    columns_first = np.atleast_2d(part.images).reshape(-1, 28, 28)
    X = np.ascontiguousarray(columns_first.swapaxes(1, 2)).reshape(-1, 784).astype(np.uint8)
    if len(X) != len(y) or not np.array_equal(mapping[y, 0], np.atleast_1d(part.labels)):
        raise ValueError("labels that fit no images")
    return Table(X, y, classes=len(labels), labels=labels, scale=255.0, shape=(1, 28, 28))
