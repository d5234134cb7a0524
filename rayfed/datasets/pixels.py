"""Images as arrays, in one number of channels, one depth and one size."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, TypeAlias

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array
from rayfed.core.errors import LibraryMissing, ScenarioError
from rayfed.core.extras import install
from rayfed.core.files import check_room

Size: TypeAlias = tuple[Annotated[int, Ge(1)], Annotated[int, Ge(1)]]
"""Height and width."""
_GREY = ("1", "L", "LA", "La")
_DEEPEST = 65535
_DEEP = "I"  # 16 or 32 bits, which Pillow would clip to 8


@dataclass(frozen=True)
class Form:
    """Target size and mode of images.

    Parameters
    ----------
    colour : bool, optional
        Whether images have three channels, or one of grey values; if None, three if any image has.
    size : (height, width), optional
        Size that images are brought to, bilinearly; if None, all must have one size.
    """

    colour: bool | None
    size: Size | None

    def stacked(
        self,
        count: int,
        error: Callable[[int, str], ScenarioError],
        opened: Callable[[int], AbstractContextManager[Any]],
    ) -> tuple[Array, float]:
        """Return images as rows.

        Parameters
        ----------
        count : int
            Number n of images.
        error : callable
            Returns the error of an image, given its number, from 0, and the problem.
        opened : callable
            Returns a context manager of an image of Pillow's, given its number.

        Returns
        -------
        X : (n, C, H, W) array of uint8, or of uint16 if an image has 16 bits
        scale : float
            Their largest possible value.

        Raises
        ------
        ScenarioError
            If sizes differ and none is given, an image has 32 bits, or the memory cannot hold them.
        """
        with opened(0) as first:
            self._check_room(first, count, error)
        made: list[Array] = []
        for number in range(count):
            with opened(number) as image:
                if _is_too_deep(image):
                    raise error(number, "has values of 32 bits; save it with 8 or 16 bits a value")
                made.append(self._pixels(image))
            (height, width), found = made[0].shape[1:], made[-1].shape[1:]
            if found != (height, width):
                text = f"is {found[0]} x {found[1]}, others are {height} x {width}"
                raise error(number, f"{text}; give 'size'")
        channels = max(len(image) for image in made)
        deep = any(image.dtype == np.uint16 for image in made)
        X = np.empty((len(made), channels, *made[0].shape[1:]), np.uint16 if deep else np.uint8)
        for row, image in zip(X, made, strict=True):
            row[...] = image.astype(np.uint16) * 257 if deep > (image.dtype == np.uint16) else image
        return X, float(_DEEPEST) if deep else 255.0

    def _check_room(
        self, image: Any, count: int, error: Callable[[int, str], ScenarioError]
    ) -> None:
        """Refuse more images than the memory holds, by the first."""
        height, width = image.size[::-1] if self.size is None else self.size
        channels = 1 if self.colour is False or (self.colour is None and _is_grey(image)) else 3
        depth = 2 if image.mode.startswith(_DEEP) else 1
        what = f"{count:,} images of {height} x {width}"
        needed = 2 * depth * count * math.prod((height, width, channels))
        check_room(needed, error(0, "").place, what, "give a smaller 'size'")

    def _pixels(self, image: Any) -> Array:
        """Return an image (C, H, W)."""
        from PIL import Image  # imported late: an extra

        if image.mode.startswith(_DEEP):
            grey = self._deep(image)
            return np.repeat(grey[None], 3, axis=0) if self.colour else grey[None]
        colour = not _is_grey(image) if self.colour is None else self.colour
        picture = image.convert("RGB" if colour else "L")
        if self.size is not None:
            picture = picture.resize(self.size[::-1], Image.Resampling.BILINEAR)
        values = np.asarray(picture, dtype=np.uint8)
        return np.moveaxis(values, 2, 0) if colour else values[None]

    def _deep(self, image: Any) -> Array:
        """Return the grey values (H, W) of an image of 16 bits."""
        from PIL import Image  # imported late: an extra

        values = np.asarray(image)
        if self.size is not None:
            exact = Image.fromarray(values.astype(np.float32))
            exact = exact.resize(self.size[::-1], Image.Resampling.BILINEAR)
            values = np.rint(np.asarray(exact))
        return values.astype(np.uint16)


def _is_too_deep(image: Any) -> bool:
    """Whether values of an image are no whole numbers of 16 bits."""
    if image.mode == "F":
        return True
    return image.mode == "I" and not 0 <= image.getextrema()[0] <= image.getextrema()[1] <= _DEEPEST


def _is_grey(image: Any) -> bool:
    return image.mode in _GREY or image.mode.startswith(_DEEP)


def check_pillow(what: str) -> None:
    """Refuse images where Pillow is not installed.

    Raises
    ------
    LibraryMissing
        If it is not.
    """
    if find_spec("PIL") is None:
        text = f"{what} needs Pillow; install it with: {install('images')}"
        raise LibraryMissing("problem.dataset", text)
