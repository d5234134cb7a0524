"""The bare loop of a network: what one writes in PyTorch in ten minutes, client after client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.bare import Array, Model


def lenet(channels: int = 3, classes: int = 10) -> nn.Module:
    """Return LeNet-5 for images of 32 x 32: 6 and 16 convolutions of 5 x 5, 120-84-10."""
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, classes),
    )  # fmt: skip


@dataclass
class Network:
    """Minibatch steps on the cross-entropy of a network, for a random cohort.

    Parameters
    ----------
    X : (N, n, d) array
    y : (N, n) array of int
    shape : tuple of int
        Shape of a row as the network takes it.
    make : callable
        Returns the network.
    """

    X: Array
    y: Array
    shape: tuple[int, ...]
    make: Callable[[], nn.Module]
    cohort: int
    steps: int
    batch: int
    lr: float

    def __post_init__(self) -> None:
        torch.set_num_threads(1)
        self.rng = np.random.default_rng(0)
        self.images = torch.from_numpy(self.X).reshape(*self.X.shape[:2], *self.shape)
        self.labels = torch.from_numpy(self.y)
        self.net = self.make()

    def to(self, device: str) -> None:
        """Compute on a device from now on, where all rows are."""
        self.images, self.labels = self.images.to(device), self.labels.to(device)
        self.net = self.net.to(device)

    def start(self) -> Model:
        """Return the trained parameters of the network."""
        return [parameter.detach().cpu().numpy().copy() for parameter in self._trained()]

    def _trained(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.net.parameters() if parameter.requires_grad]

    def round(self, model: Model) -> Model:
        """Return the mean of the local models."""
        chosen = self.rng.choice(len(self.X), self.cohort, replace=False)
        local = [self.train(model, int(i)) for i in chosen]
        return [np.mean(arrays, axis=0) for arrays in zip(*local, strict=True)]

    def train(self, model: Model, client: int) -> Model:
        """Take the local steps of one client."""
        with torch.no_grad():
            for parameter, array in zip(self._trained(), model, strict=True):
                parameter.copy_(torch.from_numpy(array))
        optimizer = torch.optim.SGD(self._trained(), lr=self.lr)
        for _ in range(self.steps):
            rows = torch.from_numpy(self.rng.integers(self.X.shape[1], size=self.batch))
            optimizer.zero_grad()
            scores = self.net(self.images[client][rows])
            loss = functional.cross_entropy(scores, self.labels[client][rows])
            loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
            optimizer.step()
        return self.start()
