"""The convolutional network of PyTorch's example on MNIST, with dropout."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import nn

from rayfed.core.errors import ScenarioError
from rayfed.problems.network.models.base import ImageNetwork, image


class DropoutCNN(ImageNetwork):
    """Two convolutions, max pooling and a hidden layer, with dropout before both linear layers.

    The network of PyTorch's example on MNIST
    (https://github.com/pytorch/examples/blob/main/mnist/main.py), which papers on robust
    aggregation use: 3 x 3 convolutions of 32 and 64 channels without a margin, 2 x 2 max pooling,
    128 units. A quarter of the channels is dropped in training, as the example first had it (later
    a quarter of their values), and half of the units. 1,199,882 parameters for images of 28 x 28
    grey values and ten classes.

    Parameters
    ----------
    inputs : (C, H, W)
        Shape of one image.
    outputs : int
        Number of classes.
    relu : "both" or "first"
        After which convolutions there are ReLU: both, as in the example, or the first alone, as in
        the authors' code of Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous
        Datasets via Bucketing", ICLR 2022. Then fewer coordinates of gradients are 0, which a
        median of unlike clients keeps at 0.
    """

    name: ClassVar[str] = "dropoutcnn"

    def __init__(
        self,
        inputs: tuple[int, ...],
        outputs: int,
        relu: Literal["both", "first"] = "both",
    ) -> None:
        super().__init__()
        if relu not in ("both", "first"):
            raise ScenarioError("problem.model.relu", f"found {relu!r}; give both or first")
        channels, height, width = image(self.name, inputs, least=6)
        self.features = nn.Sequential(  # pooling comes first: a quarter is left for ReLU
            nn.Conv2d(channels, 32, 3), nn.ReLU(),
            nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU() if relu == "both" else nn.Identity(),
            nn.Dropout2d(0.25), nn.Flatten(),
            nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128), nn.ReLU(),
            nn.Dropout(0.5),
        )  # fmt: skip
        self.head = nn.Linear(128, outputs)
