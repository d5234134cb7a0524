"""Base of LEAF's data sets: rows by user in JSON files, in folders ``train`` and ``test``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import DataMissing, ScenarioError
from rayfed.core.files import read_json, reading
from rayfed.core.plugins import FilePath
from rayfed.datasets.base import Dataset, Source, Table


@dataclass(frozen=True, kw_only=True)
class Leaf(Dataset):
    """Base of LEAF's data sets.

    Caldas, Duddu, Wu, Li, Konecny, McMahan, Smith, Talwalkar, "LEAF: A Benchmark for Federated
    Settings", 2018, https://arxiv.org/abs/1812.01097. Their scripts download and split the data and
    write ``train/*.json`` and ``test/*.json``, each with ``users`` and, in ``user_data``, ``x`` and
    ``y`` of every user. Users are numbered in the order of the training files and keep their names;
    the rows of the test files are at the server.

    Parameters
    ----------
    path : str, optional
        Folder that holds ``train`` and ``test``, relative to the scenario; a folder that is named
        as the data set in ``RAYFED_DATA`` if None.
    """

    address: ClassVar[str]
    """Where the scripts are."""

    path: FilePath | None = None

    def features(self, x: list[Any]) -> Array:
        """Return the features (n, d) of a user's rows.

        Raises
        ------
        ValueError
            If they are not what the data set holds.
        """
        raise NotImplementedError

    def targets(self, y: list[Any]) -> Ints:
        """Return the labels (n,) of a user's rows.

        Raises
        ------
        ValueError
            If they are not what the data set holds.
        """
        raise NotImplementedError

    def table(self, X: Array, y: Ints) -> Table:
        """Return rows and labels with what is known of them."""
        raise NotImplementedError

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows, each with the number of its user as its writer, who has a name."""
        folder = self._folder(source)
        X, y, user, names = self._read(folder / "train")
        train = replace(self.table(X, y), writer=user, writer_names=dict(enumerate(names)))
        if not (folder / "test").is_dir():
            return train
        X, y, _, _ = self._read(folder / "test")
        return replace(train, test=self.table(X, y))

    def _folder(self, source: Source) -> Path:
        given = source.folder / self.path if self.path is not None else None
        folder = given or (source.home / self.name if source.home else None)
        if folder is not None and (folder / "train").is_dir():
            return folder
        text = f"folder '{folder or self.name}' with 'train' in it is not available; make it with"
        raise DataMissing(
            "problem.dataset", f"{text} the scripts at {self.address} and give its path"
        )

    def _read(self, folder: Path) -> tuple[Array, Ints, Ints, list[str]]:
        """Return features, labels and user of all rows of a folder, and the users' names."""
        rows, labels, sizes, names = [], [], [], []
        for path in sorted(folder.glob("*.json")):
            for name, data in _users(path):
                try:
                    rows.append(self.features(data["x"]))
                    labels.append(self.targets(data["y"]))
                    if len(rows[-1]) != len(labels[-1]):
                        raise ValueError(f"{len(rows[-1])} rows and {len(labels[-1])} labels")
                except (KeyError, TypeError, ValueError, OverflowError) as error:
                    text = f"user '{name}': found {error}; replace the file"
                    raise ScenarioError(str(path), text) from error
                sizes.append(len(labels[-1]))
                names.append(str(name))
        if not rows:
            raise ScenarioError(str(folder), "holds no users; give LEAF's JSON files")
        user = np.repeat(np.arange(len(sizes)), sizes)
        return np.concatenate(rows), np.concatenate(labels), user, names


def _users(path: Path) -> list[tuple[str, Any]]:
    """Return the users of a file, in its order, and their data."""
    with reading(path, "LEAF's JSON"):
        held = read_json(path)
        return [(name, held["user_data"][name]) for name in held["users"]]
