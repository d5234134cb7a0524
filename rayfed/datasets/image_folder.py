"""A folder of images of one's own, by class or by client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from rayfed.core.arrays import Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.files import reading
from rayfed.core.plugins import FilePath
from rayfed.datasets.base import Dataset, Source, Table
from rayfed.datasets.layout import entries, files, folders, split_folders
from rayfed.datasets.pixels import Form, Size, check_pillow
from rayfed.datasets.shards import PARTS

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


class _File(NamedTuple):
    """An image: its class, its client ("" where folders are classes), its part and its path."""

    label: str
    client: str
    part: str
    path: Path


@dataclass(frozen=True, kw_only=True)
class ImageFolder(Dataset):
    """A folder of images: a folder for each class, or for each client one of its classes.

    Files ``<path>/<class>/<image>``, or ``<path>/<client>/<class>/<image>``, of the formats bmp,
    gif, jpeg, png, ppm, tiff and webp. Folders of splits, called ``train``, ``val`` (or ``valid``,
    ``validation``) and ``test``, may lie above the classes, or above or below the clients. A
    client's images in ``test`` are its own held-out rows, and those in ``val`` the rows that it
    chooses settings by. Without clients, images in ``test`` are test rows at the server, and those
    in ``val`` are assigned to clients as those in ``train`` are.

    Values are divided by 255; those of 16-bit images, which are grey, by 65535. Classes and clients
    are numbered in sorted order. Hidden files, and others than images, are left out; links are
    followed. Needs the extra ``images``.

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
    size: Size | None = None
    colour: bool = True

    def load(self, source: Source, seed: int) -> Table:
        """Return all images as bytes or 16-bit numbers, with the server's test images if any."""
        check_pillow("'image-folder'")
        folder = source.folder / self.path
        splits = split_folders(folder)
        held = sorted(self._files(folder, splits), key=lambda file: (file.client, file.label))
        return self._table(held, folder, self._layout(splits))

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Write two classes of small grey images, for the checks of plug-ins."""
        for row in range(24):
            path = folder / f"class {row % 2}" / f"{row:02}.ppm"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"P5 2 2 255\n" + bytes(range(row, row + 4)))
        return cls(path=str(folder))

    def _files(self, folder: Path, splits: dict[str, Path] | None) -> Iterator[_File]:
        """Yield every image."""
        for part, inner in (splits or {"train": folder}).items():
            if self.by == "class" or (part == "test" and splits and _holds_classes(inner)):
                yield from self._classes(inner, "", part)
                continue
            for client in folders(inner):
                if _images(client):
                    text = "holds images, but the folder of a client holds folders of classes"
                    raise ScenarioError(str(client), f"{text}; move them, or set by: class")
                own = split_folders(client) if splits is None else None
                for each, classes in (own or {part: client}).items():
                    yield from self._classes(classes, client.name, each)

    def _classes(self, folder: Path, client: str, part: str) -> Iterator[_File]:
        """Yield the images of a folder of classes, sorted."""
        for inner in folders(folder):
            yield from (_File(inner.name, client, part, path) for path in _images(inner))
            deeper = next((path for f in folders(inner) for path in files(f, SUFFIXES)), None)
            if deeper is not None:
                text = f"lies below the folder '{inner.name}', which is taken for a class"
                remedy = "move it up" + ", or set by: client" * (self.by == "class")
                raise ScenarioError(str(deeper), f"{text}; {remedy}")

    def _layout(self, splits: dict[str, Path] | None) -> str:
        split = "<split>/" * (splits is not None)
        return f"{split}{'<client>/' * (self.by == 'client')}<class>/<image>"

    def _table(self, held: list[_File], folder: Path, layout: str) -> Table:
        labels = tuple(sorted({file.label for file in held if file.part == "train"}))
        if len(labels) < 2:
            text = f"holds images of {len(labels)} classes; files {layout} of at least 2 are needed"
            raise ScenarioError(str(folder), text)
        y = self._labels(held, labels)
        form = Form(self.colour, self.size)
        X, scale = form.stacked(
            len(held),
            lambda row, problem: ScenarioError(str(held[row].path), problem),
            lambda row: _open(held[row]),
        )
        table = Table(
            X.reshape(len(X), -1), y, len(labels), labels=labels, scale=scale, shape=X.shape[1:],
            part=np.array([PARTS.index(file.part) for file in held], dtype=np.int8),
            files=len(held),
        )  # fmt: skip
        own = table.apart(np.array([not file.client for file in held]))
        names = tuple(sorted({file.client for file in held} - {""}))
        if not names:
            return own
        number = {name: client for client, name in enumerate(names)}
        client = [number[file.client] for file in held if file.client]
        return replace(own, client=np.array(client), client_names=names)

    def _labels(self, held: list[_File], labels: tuple[str, ...]) -> Ints:
        number = {label: index for index, label in enumerate(labels)}
        for file in held:
            if file.label not in number:
                text = f"is of class '{file.label}', of which there is no training image"
                raise ScenarioError(str(file.path), text)
        return np.array([number[file.label] for file in held], dtype=np.int64)


@contextmanager
def _open(file: _File) -> Iterator[Any]:
    from PIL import Image  # imported late: an extra

    with reading(file.path, "an image"), Image.open(file.path) as image:
        yield image


def _images(folder: Path) -> list[Path]:
    """Return the images in a folder, sorted."""
    return [path for path in entries(folder) if _is_image(path)]


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def _holds_classes(folder: Path) -> bool:
    """Whether images lie in the folders of a folder, and not deeper."""
    return any(_images(inner) for inner in folders(folder))
