"""LEAF's data sets: rows by user in JSON files, in folders ``train`` and ``test``."""

from __future__ import annotations

import string
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
        """Return rows and labels with their properties."""
        raise NotImplementedError

    def load(self, source: Source, seed: int) -> Table:
        """Return all rows, each with the number of its user as its writer, and the users' names."""
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


_CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)


@dataclass(frozen=True, kw_only=True)
class FEMNIST(Leaf):
    """FEMNIST: digits and letters of 28 x 28 grey values in 62 classes, with their writers.

    Paper is 1 and ink 0. Partition ``writers`` makes a client of every writer.
    """

    name: ClassVar[str] = "femnist"
    address: ClassVar[str] = "https://github.com/TalwalkarLab/leaf/tree/master/data/femnist"

    def features(self, x: list[Any]) -> Array:
        """Return the grey values (n, 784) as bytes, to be divided by 255."""
        values = np.asarray(x, dtype=np.float64)
        if values.shape[1:] != (784,) or not np.all((values >= 0) & (values <= 1)):
            raise ValueError(f"rows of shape {values.shape[1:]}; they have 784 values from 0 to 1")
        return np.rint(values * 255).astype(np.uint8)

    def targets(self, y: list[Any]) -> Ints:
        """Return the labels (n,)."""
        labels = np.asarray(y, dtype=np.int64)
        if not np.all((labels >= 0) & (labels < len(_CLASSES))):
            raise ValueError(f"labels up to {labels.max()}; they are 0 to {len(_CLASSES) - 1}")
        return labels

    def table(self, X: Array, y: Ints) -> Table:
        """Return images and labels."""
        shape = (1, 28, 28)
        return Table(X, y, classes=len(_CLASSES), labels=_CLASSES, scale=255.0, shape=shape)


CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's alphabet of 80 characters, in its order."""
_NUMBER = {character: number for number, character in enumerate(CHARACTERS)}


@dataclass(frozen=True, kw_only=True)
class Shakespeare(Leaf):
    """The Complete Tasks of Shakespeare: 80 characters of a speaker, and the one that follows.

    McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep
    Networks from Decentralized Data", AISTATS 2017, https://arxiv.org/abs/1602.05629, in the form
    of LEAF. A row holds the numbers of its characters, 0 to 79, the target is the number of the
    next; model `charlstm` takes them. Partition ``writers`` makes a client of every speaker.
    """

    name: ClassVar[str] = "shakespeare"
    address: ClassVar[str] = "https://github.com/TalwalkarLab/leaf/tree/master/data/shakespeare"

    def features(self, x: list[Any]) -> Array:
        """Return the numbers of the characters (n, 80)."""
        lengths = sorted({len(text) for text in x})
        if lengths not in ([], [80]):
            raise ValueError(f"texts of {lengths[0]} characters; they have 80")
        return _numbers("".join(x)).reshape(-1, 80)

    def targets(self, y: list[Any]) -> Ints:
        """Return the numbers of the characters that follow (n,)."""
        if any(len(character) != 1 for character in y):
            raise ValueError("targets that are no single characters")
        return _numbers("".join(y)).astype(np.int64)

    def table(self, X: Array, y: Ints) -> Table:
        """Return texts and the characters that follow."""
        return Table(X, y, classes=len(CHARACTERS), labels=tuple(CHARACTERS), shape=(80,))


def _numbers(text: str) -> Array:
    """Return the number of each character as a byte."""
    unknown = sorted(set(text) - set(CHARACTERS))
    if unknown:
        raise ValueError(f"the character {unknown[0]!r}, which is not in LEAF's alphabet")
    return np.fromiter((_NUMBER[character] for character in text), np.uint8, len(text))
