"""CNN: the convolutional network of the paper that introduced federated averaging."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from rayfed.problems.network.models.base import ImageNetwork, image


class CNN(ImageNetwork):
    """Two convolutions, each with max pooling, and a hidden layer.

    McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-Efficient Learning of Deep
    Networks from Decentralized Data", AISTATS 2017, https://arxiv.org/abs/1602.05629: 5 x 5
    convolutions of 32 and 64 channels, 2 x 2 max pooling, 512 units. 1,663,370 parameters for
    images of 28 x 28 grey values and ten classes, as in the paper.

    Parameters
    ----------
    inputs : (C, H, W)
        Shape of one image.
    outputs : int
        Number of classes.
    """

    name: ClassVar[str] = "cnn"

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        channels, height, width = image(self.name, inputs, least=4)
        self.features = nn.Sequential(  # pooling comes first: a quarter is left for ReLU
            nn.Conv2d(channels, 32, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(32, 64, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * (height // 4) * (width // 4), 512), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(512, outputs)
