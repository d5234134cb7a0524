"""Base of image networks, with their requirements on rows."""

from __future__ import annotations

import torch
from torch import nn

from rayfed.core.errors import ScenarioError


class ImageNetwork(nn.Module):
    """A network with scores linear in its features; subclasses make both."""

    features: nn.Module
    head: nn.Module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores (B, outputs) of images (B, C, H, W)."""
        scores: torch.Tensor = self.head(self.features(x))
        return scores


def image(model: str, inputs: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """Return channels, height and width of an image.

    Parameters
    ----------
    model : str
        Name of the network, for the message.
    inputs : tuple of int
        Shape of one row.
    least : int
        Smallest height and width that the network can take.

    Raises
    ------
    ScenarioError
        If the rows are not images, or too small.
    """
    if len(inputs) != 3:
        text = f"'{model}' takes images (C, H, W), but a row of this data has shape {inputs}"
        raise ScenarioError("problem.model", f"{text}; use problem 'mlp' or a model of your own")
    channels, height, width = inputs
    if min(height, width) < least:
        text = f"'{model}' takes images of {least} x {least} or more, but these are"
        raise ScenarioError("problem.model", f"{text} {height} x {width}; use a smaller model")
    return channels, height, width


def margins(height: int, width: int, least: int) -> tuple[int, int, int, int]:
    """Return the columns left and right and the rows above and below that enlarge an image.

    Examples
    --------
    >>> margins(28, 28, 32), margins(31, 40, 32)
    ((2, 2, 2, 2), (0, 0, 0, 1))
    """
    columns, rows = max(0, least - width), max(0, least - height)
    return columns // 2, columns - columns // 2, rows // 2, rows - rows // 2
