"""CIFAR-10 and CIFAR-100: colour images of 32 x 32 in the published Python layout."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from rayfed.core.errors import ScenarioError
from rayfed.core.files import reading
from rayfed.datasets.base import Source, Table
from rayfed.datasets.fetch import File, read
from rayfed.datasets.images import Images
from rayfed.datasets.unpickle import plain_values

_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_SHAPE = (3, 32, 32)
_COMPLETE = (50_000, 10_000)
"""Published training and test images."""
Opener: TypeAlias = Callable[[str], bytes]
"""Returns the content of a file of the folder."""


@dataclass(frozen=True, kw_only=True)
class _Cifar(Images):
    """Base of CIFAR-10 and CIFAR-100.

    ``RAYFED_DATA`` may hold the unpacked folder, at its top or in a folder that is named as the
    data set or ``<name>-subset``, or the archive, in a folder that is named as the data set.
    """

    folder: ClassVar[str]
    archive: ClassVar[File]
    batches: ClassVar[tuple[str, ...]]
    test_batch: ClassVar[str]
    meta: ClassVar[str]

    @property
    def key(self) -> str:
        """Name of the labels in the files."""
        return "labels"

    def parts(self, source: Source) -> tuple[Table, Table]:
        """Return training and test images as bytes (n, 3072), to be divided by 255."""
        content = self._content(source.home)
        names = self._held(content, self.meta, self.key[:-1] + "_names")
        labels = tuple(bytes(name).decode() for name in names)
        train = self._table(content, self.batches, labels)
        test = self._table(content, (self.test_batch,), labels)
        return replace(train, note=self._note(len(train.y), len(test.y))), test

    def _content(self, home: Path | None) -> Opener:
        """Return a reader for files: from a local folder, or else from the archive."""
        places = (self.name, "", f"{self.name}-subset") if home else ()
        for folder in (Path(home or "") / place / self.folder for place in places):
            if folder.is_dir():
                return lambda name: _read(folder / name)
        return _unpacked(read(self.archive, home), self.folder)

    def _table(self, content: Opener, batches: tuple[str, ...], labels: tuple[str, ...]) -> Table:
        """Return the images of some files, in their order."""
        X = np.concatenate([self._pixels(content, name) for name in batches])
        y = np.concatenate([self._held(content, name, self.key) for name in batches])
        y = np.asarray(y, dtype=np.int64)
        if len(X) != len(y) or not np.all((y >= 0) & (y < len(labels))):
            place = f"{self.folder}/{batches[0]}"
            raise ScenarioError(place, "has labels that fit no images; replace the files")
        return Table(X, y, classes=len(labels), labels=labels, scale=255.0, shape=_SHAPE)

    def _pixels(self, content: Opener, name: str) -> Any:
        X = self._held(content, name, "data")
        if not isinstance(X, np.ndarray) or X.dtype != np.uint8 or X.shape[1:] != (3072,):
            place = f"{self.folder}/{name}"
            raise ScenarioError(place, "holds no images of 3 x 32 x 32 bytes; replace the file")
        return X

    def _held(self, content: Opener, name: str, key: str) -> Any:
        """Return the value of a key in a file."""
        place = f"{self.folder}/{name}"
        held = plain_values(content(name), place)
        if not isinstance(held, dict) or key.encode() not in held:
            raise ScenarioError(place, f"holds no '{key}'; replace the file")
        return held[key.encode()]

    def _note(self, train: int, test: int) -> str:
        """Return that it is a subset, if it is one."""
        if (train, test) == _COMPLETE:
            return ""
        text = (
            f"'{self.name}' is a subset here, {train:,} of {_COMPLETE[0]:,} training and {test:,}"
        )
        return (
            f"{text} of {_COMPLETE[1]:,} test images; compare no number with the whole data set's"
        )


@dataclass(frozen=True, kw_only=True)
class CIFAR10(_Cifar):
    """CIFAR-10: 50000 + 10000 colour images of 32 x 32 in ten classes, values / 255.

    Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009,
    https://www.cs.toronto.edu/~kriz/cifar.html. A subset in the same layout is used as it is, and
    the runs warn about it.
    """

    name: ClassVar[str] = "cifar10"
    folder: ClassVar[str] = "cifar-10-batches-py"
    archive: ClassVar[File] = File(
        "cifar10/cifar-10-python.tar.gz",
        _TORONTO + "cifar-10-python.tar.gz",
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    )
    batches: ClassVar[tuple[str, ...]] = tuple(f"data_batch_{k}" for k in range(1, 6))
    test_batch: ClassVar[str] = "test_batch"
    meta: ClassVar[str] = "batches.meta"


@dataclass(frozen=True, kw_only=True)
class CIFAR100(_Cifar):
    """CIFAR-100: 50000 + 10000 colour images of 32 x 32 in a hundred classes, values / 255.

    Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009,
    https://www.cs.toronto.edu/~kriz/cifar.html. A subset in the same layout is used as it is, and
    the runs warn about it.

    Parameters
    ----------
    classes : "fine" or "coarse"
        A hundred classes, or the twenty groups that they belong to.
    """

    name: ClassVar[str] = "cifar100"
    folder: ClassVar[str] = "cifar-100-python"
    archive: ClassVar[File] = File(
        "cifar100/cifar-100-python.tar.gz",
        _TORONTO + "cifar-100-python.tar.gz",
        "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    )
    batches: ClassVar[tuple[str, ...]] = ("train",)
    test_batch: ClassVar[str] = "test"
    meta: ClassVar[str] = "meta"

    classes: Literal["fine", "coarse"] = "fine"

    @property
    def key(self) -> str:
        """Name of the labels in the files."""
        return f"{self.classes}_labels"


def _read(path: Path) -> bytes:
    with reading(path, "a batch of images", "complete the folder"):
        return path.read_bytes()


def _unpacked(archive: bytes, folder: str) -> Opener:
    """Return a reader for the files of an archive, without unpacking it to the disk."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        files = {member.name: packed.extractfile(member) for member in packed if member.isfile()}
        held = {name: file.read() for name, file in files.items() if file is not None}
    return lambda name: held[f"{folder}/{name}"]
