"""Images in the cells of tables, as data sets of the Hugging Face Hub have them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rayfed.core.arrays import Array
from rayfed.core.errors import RayfedError, ScenarioError, listed
from rayfed.datasets.pixels import Form, Size, check_pillow

if TYPE_CHECKING:
    import pandas as pd


def column_of_images(frame: pd.DataFrame, names: Sequence[str], place: str) -> str:
    """Return the column of encoded images; empty without one.

    Cells are the bytes of a file, or structs of ``bytes`` and ``path``. Of each column the first
    cell that is not empty is looked at.

    Raises
    ------
    ScenarioError
        If there are several.
    """
    found = [name for name in names if _content(_first(frame[name])) is not None]
    if len(found) > 1:
        text = f"has images in the columns {listed(found)}"
        raise ScenarioError(place, f"{text}; leave one in the file")
    return found[0] if found else ""


def decoded(
    cells: Sequence[Any], size: Size | None, error: Callable[[int, str], ScenarioError]
) -> tuple[Array, float]:
    """Return the images of a column (n, C, H, W) and their largest possible value.

    They have three channels if one of them has colours, and one else.

    Parameters
    ----------
    cells : sequence
        None of them is empty.
    size : (height, width), optional
        Size that images are brought to; if None, all must have one size.
    error : callable
        Returns the error of a row, counted from 0, of which it is given the problem.

    Raises
    ------
    ScenarioError
        If a cell is no image, or they do not fit each other or the memory.
    """
    check_pillow("a column of images")

    @contextmanager
    def opened(row: int) -> Iterator[Any]:
        from PIL import Image  # imported late: an extra

        content = _content(cells[row])
        if not content:
            raise error(row, "holds no bytes of an image; put the files' bytes into the table")
        try:
            with Image.open(io.BytesIO(content)) as image:
                yield image
        except RayfedError:
            raise
        except Exception as problem:  # readers of damaged images raise what the damage makes them
            text = f"is no image ({type(problem).__name__})"
            raise error(row, f"{text}; replace it, or leave the column out") from problem

    return Form(None, size).stacked(len(cells), error, opened)


def _first(column: pd.Series) -> Any:
    """Return the first cell that is not empty; None if all are, or the column holds no objects."""
    if column.dtype != object:
        return None
    at = column.first_valid_index()
    return None if at is None else column.loc[at]


def _content(cell: Any) -> bytes | None:
    """Return the bytes of an image; empty if it has but a path, None if it is none."""
    if isinstance(cell, Mapping) and "bytes" in cell:
        return cell["bytes"] or b""
    return cell if isinstance(cell, bytes) else None
