"""Augmentation: images of a local step are shifted and mirrored, drawn by client and step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rayfed.core.arrays import Ints
from rayfed.problems.base import StepKey
from rayfed.problems.network.settings import Augment


def drawn(how: Augment, key: StepKey, rows: int) -> Ints:
    """Draw for each image of each client its shift down and right, and whether it is mirrored.

    Returns
    -------
    (K, rows, 3) array of int
        Shifts from 0 to twice ``how.crop``, and 0 or 1. What is drawn for a row depends on no
        other client and on no row after it.
    """
    words = key.words(f"augment/{key.stream}/{key.step}", 3 * rows).reshape(len(key.ids), rows, 3)
    bounds = np.array([2 * how.crop + 1, 2 * how.crop + 1, 1 + how.flip], dtype=np.uint64)
    return ((words * bounds) >> np.uint64(32)).astype(np.int64)


def augmented(images: Tensor, how: Augment, draws: Ints) -> Tensor:
    """Return images (B, C, H, W) that are padded with zeros and cut out, and mirrored.

    Parameters
    ----------
    draws : (B, 3) array of int
        As `drawn` returns them for one client.

    Examples
    --------
    A row of two pixels, padded by one on each side and cut out at the right end:

    >>> row = torch.tensor([[[[1.0, 2.0]]]])
    >>> augmented(row, Augment(crop=1), np.array([[1, 2, 0]])).flatten().tolist()
    [2.0, 0.0]
    """
    height, width = images.shape[2:]
    down, right, mirrored = torch.from_numpy(draws).to(images.device).unbind(1)
    rows = down[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(len(images), width)
    columns = torch.where(mirrored[:, None] > 0, columns.flip(1), columns) + right[:, None]
    padded = functional.pad(images, (how.crop,) * 4)
    image = torch.arange(len(images), device=images.device)[:, None, None]
    # the channels come last under these three indices
    cut = padded.movedim(1, -1)[image, rows[:, :, None], columns[:, None, :]]
    return cut.movedim(-1, 1)
