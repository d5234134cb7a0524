"""MNIST, Fashion-MNIST and EMNIST: handwritten digits and letters, and pieces of clothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import DataMissing
from rayfed.core.files import reading
from rayfed.datasets.base import Source, Table
from rayfed.datasets.fetch import File, available_locally, read
from rayfed.datasets.images import Images

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
_QMNIST = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"

TYPES = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def parse_idx(data: bytes) -> Array:
    """Return the array of an idx file.

    The format: two zero bytes, a type code, the number of dimensions, each dimension as a
    big-endian 32-bit integer, the values.

    Examples
    --------
    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])).tolist()
    [7, 8, 9]
    """
    dimensions = data[3]
    shape = np.frombuffer(data, ">i4", dimensions, offset=4)
    values = np.frombuffer(data, TYPES[data[2]], offset=4 + 4 * dimensions)
    return values.reshape(shape)


@dataclass(frozen=True)
class Pair:
    """The image and label files of one part of the data."""

    images: File
    labels: File

    def load(self, home: Path | None) -> Table:
        """Return the pixels as bytes (n, 784), to be divided by 255, and the labels."""
        pixels = parse_idx(read(self.images, home)).reshape(-1, 784)
        names = tuple(f"pixel{row}-{column}" for row in range(28) for column in range(28))
        labels = parse_idx(read(self.labels, home)).astype(np.int64)
        return Table(pixels, labels, classes=10, names=names, scale=255.0, shape=(1, 28, 28))


def _pair(place: str, url: str, *sha256: str) -> Pair:
    """Return the files of a part from the prefixes of their paths and addresses.

    Parameters
    ----------
    *sha256 : str
        Of the images, compressed and not, then of the labels.
    """
    names = ("-images-idx3-ubyte.gz", "-labels-idx1-ubyte.gz")
    sums = (sha256[:2], sha256[2:])
    return Pair(*(File(place + n, url + n, *both) for n, both in zip(names, sums, strict=True)))


@dataclass(frozen=True, kw_only=True)
class _Digits(Images):
    """Base of MNIST and Fashion-MNIST."""

    train_files: ClassVar[Pair]
    test_files: ClassVar[Pair]

    def parts(self, source: Source) -> tuple[Table, Table]:
        """Return training and test images as bytes (n, 784), to be divided by 255."""
        return self.train_files.load(source.home), self.test_files.load(source.home)


@dataclass(frozen=True, kw_only=True)
class MNIST(_Digits):
    """MNIST: 60000 + 10000 handwritten digits, pixels / 255, with the ids of their writers.

    LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition",
    Proceedings of the IEEE 86, 1998. Writers: Yadav, Bottou, "Cold Case: The Lost MNIST Digits",
    NeurIPS 2019, https://arxiv.org/abs/1905.10498.

    Parameters
    ----------
    writers : bool
        Whether the ids of the 539 writers of the training images are required, as for partition
        ``writers``; otherwise they are read if the file is available locally.
    """

    name: ClassVar[str] = "mnist"
    train_files: ClassVar[Pair] = _pair(
        "mnist/train", _MNIST + "train",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    )  # fmt: skip
    test_files: ClassVar[Pair] = _pair(
        "mnist/t10k", _MNIST + "t10k",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    )  # fmt: skip
    qmnist: ClassVar[File] = File(
        "mnist-writers/qmnist-train-labels-idx2-int.gz",
        _QMNIST + "qmnist-train-labels-idx2-int.gz",
        "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
        "bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
    )

    writers: bool = False

    def parts(self, source: Source) -> tuple[Table, Table]:
        """Return training and test images, with the writers of the training images."""
        train, test = super().parts(source)
        if not self.writers and not available_locally(self.qmnist, source.home):
            return train, test
        return replace(train, writer=self._writer(source.home)), test

    def _writer(self, home: Path | None) -> Ints:
        # columns of QMNIST: class, series, writer, ...; row i belongs to MNIST image i
        return parse_idx(read(self.qmnist, home))[:, 2].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class FashionMNIST(_Digits):
    """Fashion-MNIST: 60000 + 10000 pictures of clothes, pixels / 255.

    Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
    Algorithms", 2017, https://arxiv.org/abs/1708.07747.
    """

    name: ClassVar[str] = "fashion-mnist"
    train_files: ClassVar[Pair] = _pair(
        "fashion-mnist/train", _FASHION + "train",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    )  # fmt: skip
    test_files: ClassVar[Pair] = _pair(
        "fashion-mnist/t10k", _FASHION + "t10k",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    )  # fmt: skip


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
