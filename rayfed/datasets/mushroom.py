"""The UCI mushroom data, shipped with the package."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import ClassVar, Literal

import numpy as np

from rayfed.core.arrays import Array, Texts
from rayfed.datasets.base import Dataset, Source, Table, standardise

ATTRIBUTES = (
    *("cap-shape", "cap-surface", "cap-color"),
    *("bruises", "odor"),
    *("gill-attachment", "gill-spacing", "gill-size", "gill-color"),
    *("stalk-shape", "stalk-root"),
    *("stalk-surface-above-ring", "stalk-surface-below-ring"),
    *("stalk-color-above-ring", "stalk-color-below-ring"),
    *("veil-type", "veil-color"),
    *("ring-number", "ring-type"),
    *("spore-print-color", "population", "habitat"),
)


@dataclass(frozen=True, kw_only=True)
class Mushroom(Dataset):
    """UCI mushroom: is it poisonous (1) or edible (0)? 8124 rows of 22 categorical attributes.

    Mushroom [Dataset] (1981), UCI Machine Learning Repository, https://doi.org/10.24432/C5959T,
    licensed under CC BY 4.0.

    Parameters
    ----------
    missing : "keep", "drop" or "leave-out"
        Rows whose stalk-root is missing (``?``, 2480 of them): keep them, with ``?`` as a
        separate value, drop them as FedHybrid's set-up does, or leave the attribute out as LIBSVM's
        file does.
    encoding : "one-hot" or "label"
        One column of 0 and 1 for each value that occurs (117 columns, 98 after dropping, 112
        without stalk-root), or one
        column for each attribute with its values numbered in alphabetical order.
    standardise : bool
        Whether columns are brought to mean 0 and variance 1.
    """

    name: ClassVar[str] = "mushroom"
    default_test: ClassVar[float] = 0.2

    missing: Literal["keep", "drop", "leave-out"] = "keep"
    encoding: Literal["one-hot", "label"] = "one-hot"
    standardise: bool = False

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows, in the order of the file."""
        cells = _cells()
        if self.missing == "drop":
            cells = cells[cells[:, 1 + ATTRIBUTES.index("stalk-root")] != "?"]
        names: tuple[str, ...] = ATTRIBUTES
        if self.missing == "leave-out":
            names = tuple(name for name in ATTRIBUTES if name != "stalk-root")
        encode = _one_hot if self.encoding == "one-hot" else _numbered
        X, columns = encode(names, cells[:, [1 + ATTRIBUTES.index(name) for name in names]])
        y = (cells[:, 0] == "p").astype(np.int64)
        if self.standardise:
            X = standardise(X)
        return Table(X, y, classes=2, names=columns, labels=("edible", "poisonous"))


def _cells() -> Texts:
    """Return the file as single letters (8124, 23)."""
    packed = resources.files("rayfed.datasets") / "files" / "agaricus-lepiota.data.xz"
    text = lzma.decompress(packed.read_bytes()).decode("ascii")
    return np.array([line.split(",") for line in text.split()])


def _one_hot(attributes: Sequence[str], cells: Texts) -> tuple[Array, tuple[str, ...]]:
    columns, names = [], []
    for attribute, column in zip(attributes, cells.T, strict=True):
        values = np.unique(column)
        columns.append(column[:, None] == values)
        names += [f"{attribute}={value}" for value in values]
    return np.concatenate(columns, axis=1).astype(np.float64), tuple(names)


def _numbered(attributes: Sequence[str], cells: Texts) -> tuple[Array, tuple[str, ...]]:
    columns = [np.unique(column, return_inverse=True)[1] for column in cells.T]
    return np.stack(columns, axis=1).astype(np.float64), tuple(attributes)
