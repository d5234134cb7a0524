"""ResNet-18 for small images, with GroupNorm in place of BatchNorm."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from rayfed.core.errors import ScenarioError
from rayfed.problems.network.models.base import image


class ResNet18(nn.Module):
    """Four stages of two residual blocks each, with GroupNorm.

    He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016,
    https://arxiv.org/abs/1512.03385, with a first convolution of 3 x 3 and no pooling after it, for
    small images. GroupNorm (Wu, He, ECCV 2018, https://arxiv.org/abs/1803.08494) keeps no running
    statistics, which clients with different data could not average; two groups, as in the code of
    FedExP, which pools the last 4 x 4 values as 3 x 3, while all are averaged here. 11,173,962
    parameters for images of 3 x 32 x 32 and ten classes.

    Parameters
    ----------
    inputs : (C, H, W)
        Shape of one image.
    outputs : int
        Number of classes.
    groups : int
        Groups of channels that are normalised together.
    """

    name: ClassVar[str] = "resnet18"

    def __init__(self, inputs: tuple[int, ...], outputs: int, groups: int = 2) -> None:
        super().__init__()
        if groups < 1 or 64 % groups:
            text = f"found {groups}; give a divisor of 64"
            raise ScenarioError("problem.model.groups", text)
        channels = image(self.name, inputs, least=8)[0]
        self.stem = nn.Sequential(
            nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.GroupNorm(groups, 64), nn.ReLU()
        )
        self.stages = nn.Sequential(
            _Block(64, 64, 1, groups), _Block(64, 64, 1, groups),
            _Block(64, 128, 2, groups), _Block(128, 128, 1, groups),
            _Block(128, 256, 2, groups), _Block(256, 256, 1, groups),
            _Block(256, 512, 2, groups), _Block(512, 512, 1, groups),
        )  # fmt: skip
        self.head = nn.Linear(512, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores (B, outputs) of images (B, C, H, W)."""
        features = self.stages(self.stem(x)).mean(dim=(2, 3))
        scores: torch.Tensor = self.head(features)
        return scores


class _Block(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(groups, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(groups, width),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != width:
            self.shortcut.append(nn.Conv2d(channels, width, 1, stride=stride, bias=False))
            self.shortcut.append(nn.GroupNorm(groups, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.residual(x) + self.shortcut(x))
