"""VGG-11 for small images, with dropout and without normalisation."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from rayfed.core.errors import ScenarioError
from rayfed.problems.network.models.base import ImageNetwork, image, margins

_WIDTHS = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)
"""Channels of each convolution; 0 stands for pooling."""


class VGG11(ImageNetwork):
    """Eight convolutions, five times max pooling, and two hidden layers with dropout.

    Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR
    2015, https://arxiv.org/abs/1409.1556, configuration A, with two hidden layers of 512 units for
    small images, as in the code of FedNova. Smaller images get a margin of zeros up to 32 x 32.
    9,750,922 parameters for images of 3 x 32 x 32 and ten classes.

    Parameters
    ----------
    inputs : (C, H, W)
        Shape of one image.
    outputs : int
        Number of classes.
    dropout : float
        Share of the inputs of each hidden layer that are dropped in training.
    """

    name: ClassVar[str] = "vgg11"

    def __init__(self, inputs: tuple[int, ...], outputs: int, dropout: float = 0.5) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            text = f"found {dropout}; give a share from 0 to below 1"
            raise ScenarioError("problem.model.dropout", text)
        channels, height, width = image(self.name, inputs)
        rows, columns = (max(side, 32) // 32 for side in (height, width))
        self.features = nn.Sequential(
            nn.ZeroPad2d(margins(height, width, 32)),
            *_convolutions(channels),
            nn.Flatten(),
            nn.Dropout(dropout), nn.Linear(512 * rows * columns, 512), nn.ReLU(),
            nn.Dropout(dropout), nn.Linear(512, 512), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(512, outputs)


def _convolutions(channels: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in _WIDTHS:
        if width:
            layers += [_convolution(channels, width), nn.ReLU()]
            channels = width
        else:
            layers.insert(-1, nn.MaxPool2d(2))  # before ReLU, which then has a quarter
    return layers


def _convolution(channels: int, width: int) -> nn.Conv2d:
    """Return a convolution that starts as He et al. propose, which eight in a row need.

    With torch's own start, and nothing that normalises, the scores hardly depend on the image.
    """
    layer = nn.Conv2d(channels, width, 3, padding=1)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
