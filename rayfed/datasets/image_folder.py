"""A folder of images of one's own, by class or by client."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import LibraryMissing, ScenarioError
from rayfed.core.files import check_room, reading
from rayfed.core.plugins import FilePath
from rayfed.datasets.base import Dataset, Source, Table

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
_Pixels: TypeAlias = Annotated[int, Ge(1)]
_File: TypeAlias = tuple[str, str, Path]
"""Class, client and path of an image; the client is empty where folders are classes."""


@dataclass(frozen=True, kw_only=True)
class ImageFolder(Dataset):
    """A folder of images: a folder for each class, or for each client one of its classes.

    Files ``<path>/<class>/<image>``, or ``<path>/<client>/<class>/<image>``, of the formats bmp,
    gif, jpeg, png, ppm, tiff and webp. Where ``<path>`` holds the folders ``train`` and ``test``
    alone, the images in ``test`` are test rows at the server, sorted by class. Values are divided
    by 255. Classes and clients are numbered in sorted order. Needs the extra ``rayfed[images]``.

    Parameters
    ----------
    path : str
        The folder, relative to the scenario.
    by : "class" or "client"
        Whether folders are classes, or clients that hold folders of classes.
    size : (height, width), optional
        Size that images are brought to, bilinearly; if None, all must have one size.
    colour : bool
        Whether images have three channels, or one of grey values.
    """

    name: ClassVar[str] = "image-folder"

    path: FilePath
    by: Literal["class", "client"] = "class"
    size: tuple[_Pixels, _Pixels] | None = None
    colour: bool = True

    def load(self, source: Source, seed: int) -> Table:
        """Return all images as bytes, to be divided by 255, with the test images at the server."""
        if find_spec("PIL") is None:
            text = "'image-folder' needs Pillow; install it with: pip install 'rayfed[images]'"
            raise LibraryMissing("problem.dataset", text)
        folder = source.folder / self.path
        parts = [child.name for child in _folders(folder)]
        if parts != ["test", "train"]:
            return self._table(list(self._files(folder)), folder)
        test = [(label, "", path) for label, path in _classes(folder / "test")]
        return self._table(list(self._files(folder / "train")), folder / "train", test)

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Write two classes of small grey images, for the checks of plug-ins."""
        for row in range(24):
            path = folder / f"class {row % 2}" / f"{row:02}.ppm"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"P5 2 2 255\n" + bytes(range(row, row + 4)))
        return cls(path=str(folder))

    def _files(self, folder: Path) -> Iterator[_File]:
        """Yield class, client and path of every image."""
        if self.by == "class":
            yield from ((label, "", path) for label, path in _classes(folder))
            return
        for client in _folders(folder):
            yield from ((label, client.name, path) for label, path in _classes(client))

    def _table(self, files: list[_File], folder: Path, test: list[_File] | None = None) -> Table:
        labels = tuple(sorted({label for label, _, _ in files}))
        if len(labels) < 2:
            layout = "<class>/<image>" if self.by == "class" else "<client>/<class>/<image>"
            text = f"holds images of {len(labels)} classes; files {layout} of at least 2 are needed"
            raise ScenarioError(str(folder), text)
        held = self._part(test, labels) if test else None
        train = self._part(files, labels, held)
        if held is not None and held.shape != train.shape:
            text = f"holds images of shape {train.shape}, test images of {held.shape}; give a size"
            raise ScenarioError(str(folder), text)
        return train

    def _part(
        self, files: list[_File], labels: tuple[str, ...], test: Table | None = None
    ) -> Table:
        self._check_room(files)
        images = [self._image(path) for _, _, path in files]
        for image, (_, _, path) in zip(images, files, strict=True):
            if image.shape != images[0].shape:
                height, width = images[0].shape[1:]
                text = f"is {image.shape[1]} x {image.shape[2]}, others are {height} x {width}"
                raise ScenarioError(str(path), f"{text}; give 'size'")
        y = self._labels(files, labels)
        names, number = np.unique([client for _, client, _ in files], return_inverse=True)
        client = None if names[0] == "" else number.astype(np.int64)
        X = np.stack(images)
        return Table(
            X.reshape(len(X), -1), y, len(labels), client=client, test=test, labels=labels,
            scale=255.0, shape=X.shape[1:],
            client_names=() if client is None else tuple(names.tolist()),
        )  # fmt: skip

    def _labels(self, files: list[_File], labels: tuple[str, ...]) -> Ints:
        number = {label: index for index, label in enumerate(labels)}
        for label, _, path in files:
            if label not in number:
                text = f"is of class '{label}', of which there is no training image"
                raise ScenarioError(str(path), text)
        return np.array([number[label] for label, _, _ in files], dtype=np.int64)

    def _check_room(self, files: list[_File]) -> None:
        """Refuse more images than the memory holds, by the size of the first."""
        from PIL import Image  # imported late: an extra

        path, size = files[0][2], self.size
        if size is None:
            with reading(path, "an image"), Image.open(path) as file:
                size = file.size
        what = f"{len(files):,} images of {size[0]} x {size[1]}"
        needed = 2 * len(files) * math.prod(size) * (3 if self.colour else 1)
        check_room(needed, str(path.parent), what, "give a smaller 'size'")

    def _image(self, path: Path) -> Array:
        """Return an image (C, H, W) as bytes."""
        from PIL import Image  # imported late: an extra

        with reading(path, "an image"), Image.open(path) as file:
            image: Any = file.convert("RGB" if self.colour else "L")
            if self.size is not None:
                image = image.resize(self.size[::-1], Image.Resampling.BILINEAR)
        values = np.asarray(image, dtype=np.uint8)
        return np.moveaxis(values, 2, 0) if self.colour else values[None]


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted; hidden ones are left out."""
    try:
        inner = [path for path in folder.iterdir() if path.is_dir()]
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ScenarioError(str(folder), f"cannot be read ({why})") from error
    return sorted(path for path in inner if not path.name.startswith("."))


def _classes(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield class and path of the images of a folder of classes, sorted."""
    for inner in _folders(folder):
        for path in sorted(inner.iterdir()):
            if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
                yield inner.name, path
