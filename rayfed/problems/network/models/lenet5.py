"""LeNet-5 with the activations and the pooling of today."""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from rayfed.core.errors import ScenarioError
from rayfed.problems.network.models.base import ImageNetwork, image, margins


class LeNet5(ImageNetwork):
    """Two convolutions, each with max pooling, and two hidden layers.

    LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition",
    Proceedings of the IEEE 86, 1998: 5 x 5 convolutions of 6 and 16 channels, 120 and 84 units.
    ReLU, max pooling and a linear output in place of the paper's, and all channels are connected,
    as in most code since. Smaller images get a margin of zeros up to 32 x 32, as the paper's digits
    had. 62,006 parameters for images of 3 x 32 x 32 and ten classes, 61,706 for grey values.

    Parameters
    ----------
    inputs : (C, H, W)
        Shape of one image.
    outputs : int
        Number of classes.
    groups : int
        Groups of channels that GroupNorm (Wu, He, ECCV 2018, https://arxiv.org/abs/1803.08494)
        normalises together after each convolution, 1 or 2; 0 for none, as in the paper. 44
        parameters more.
    """

    name: ClassVar[str] = "lenet5"

    def __init__(self, inputs: tuple[int, ...], outputs: int, groups: int = 0) -> None:
        super().__init__()
        if groups not in (0, 1, 2):
            raise ScenarioError("problem.model.groups", f"found {groups}; give 0, 1 or 2")
        channels, height, width = image(self.name, inputs)
        rows, columns = (((max(side, 32) - 4) // 2 - 4) // 2 for side in (height, width))
        margin = margins(height, width, 32)
        self.features = nn.Sequential(
            nn.ZeroPad2d(margin) if any(margin) else nn.Identity(),
            nn.Conv2d(channels, 6, 5), *_normalised(groups, 6),
            nn.MaxPool2d(2), nn.ReLU(),  # in this order four times less
            nn.Conv2d(6, 16, 5), *_normalised(groups, 16), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * rows * columns, 120), nn.ReLU(),
            nn.Linear(120, 84), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(84, outputs)


def _normalised(groups: int, channels: int) -> list[nn.Module]:
    return [nn.GroupNorm(groups, channels)] if groups else []
