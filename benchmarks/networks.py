"""The networks of the benchmarks: what a scenario names, and what the bare loop trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class NetworkCase:
    """A network, its data, and the work of a round.

    Parameters
    ----------
    name, text : str
    model : str
        As in ``problem.model``.
    shape : tuple of int
        Of a row.
    bare : callable
        Makes the module of the bare loop.
    ratio : float
        Rounds of one process that are wanted for one of the bare loop.
    classes, symbols : int
        As for `benchmarks.data.Noise`.
    clients, samples, cohort, steps, batch, rounds : int
    problem : mapping
        Further settings of the problem.
    """

    name: str
    text: str
    model: str
    shape: tuple[int, ...]
    bare: Callable[[], nn.Module]
    ratio: float = 1.0
    classes: int = 10
    symbols: int = 0
    clients: int = 20
    samples: int = 100
    cohort: int = 4
    steps: int = 5
    batch: int = 20
    rounds: int = 8
    problem: Mapping[str, Any] = field(default_factory=dict)


def _lenet() -> nn.Module:
    from benchmarks.bare_torch import lenet

    return lenet()


def _perceptron() -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def _cnn() -> nn.Module:
    from rayfed.problems.network.models.cnn import CNN

    return CNN((1, 28, 28), 10)


def _resnet() -> nn.Module:
    from rayfed.problems.network.models.resnet18 import ResNet18

    return ResNet18((3, 32, 32), 10)


def _charlstm() -> nn.Module:
    from rayfed.problems.network.models.charlstm import CharLSTM

    return CharLSTM((80,), 80)


def _adapters() -> nn.Module:
    from benchmarks.adapters import Adapted

    return Adapted((32,), 80).frozen()


PERCEPTRON = NetworkCase(
    "W3", "MLP 784-128-10, 100 x 600, cohort 10, 20 x batch 32", "mlp", (784,), _perceptron,
    ratio=1.05, clients=100, samples=600, cohort=10, steps=20, batch=32, rounds=24,
)  # fmt: skip
"""What W3 trains, as a module; rayfed and its bare loop have NumPy's perceptron for it."""
NETWORKS = (
    NetworkCase(
        "W4", "LeNet-5 3x32x32, 100 x 100, cohort 10, 10 x batch 32", "lenet5", (3, 32, 32),
        _lenet, ratio=1.1, clients=100, cohort=10, steps=10, batch=32, rounds=12,
    ),
    NetworkCase("cnn", "CNN 1x28x28, 20 x 100, cohort 4, 5 x batch 20", "cnn", (1, 28, 28), _cnn),
    NetworkCase(
        "resnet18", "ResNet-18 3x32x32, 4 x 32, cohort 2, 2 x batch 32", "resnet18", (3, 32, 32),
        _resnet, clients=4, samples=32, cohort=2, steps=2, batch=32, rounds=4,
    ),
    NetworkCase(
        "charlstm", "char-LSTM of 80 characters, 20 x 100, cohort 4, 5 x batch 10", "charlstm",
        (80,), _charlstm, classes=80, symbols=80, batch=10,
    ),
    NetworkCase(
        "adapters", "transformer of two blocks with adapters, 20 x 100, cohort 4, 5 x batch 20",
        "benchmarks.adapters:Adapted", (32,), _adapters, classes=80, symbols=80,
        problem={"frozen": ["base.*"]},
    ),
)  # fmt: skip
