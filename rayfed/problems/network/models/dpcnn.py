"""DPCNN: the small convolutional network of tutorials on private training."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from rayfed.problems.network.models.base import ImageNetwork, image


class DPCNN(ImageNetwork):
    """Two convolutions, each with max pooling that overlaps, and a hidden layer of 32.

    The network of the MNIST examples of TensorFlow Privacy and of Opacus
    (https://github.com/pytorch/opacus/blob/main/examples/mnist.py): 16 channels of 8 x 8 and 32 of
    4 x 4, both with stride 2, 2 x 2 max pooling with stride 1. 26,010 parameters for images of 28 x
    28 grey values and ten classes.

    Parameters
    ----------
    inputs : (C, H, W)
        Shape of one image.
    outputs : int
        Number of classes.
    """

    name: ClassVar[str] = "dpcnn"

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        channels, height, width = image(self.name, inputs, least=14)
        self.features = nn.Sequential(
            nn.Conv2d(channels, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
            nn.Flatten(),
            nn.Linear(32 * _side(height) * _side(width), 32), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(32, outputs)


def _side(length: int) -> int:
    """Return the side length after convolutions and pooling."""
    pooled = (length + 6 - 8) // 2
    return (pooled - 4) // 2
