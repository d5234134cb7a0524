"""Losses of rows: from the outputs of a module and targets to one number a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from rayfed.core import own, plugins
from rayfed.core.errors import ScenarioError, clipped
from rayfed.problems.network.settings import NetworkSettings

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Maps outputs (B, outputs) and targets (B,) to losses (B,)."""


def loss_of(network: NetworkSettings) -> Loss:
    """Return the loss of a network."""
    smoothing = network.label_smoothing
    named: dict[str, Loss] = {
        "cross-entropy": partial(
            functional.cross_entropy, reduction="none", label_smoothing=smoothing
        ),
        "squared-error": _squared,
        "binary-cross-entropy": _binary,
    }
    found: Any = network.loss
    if not isinstance(found, str):
        return found  # type: ignore[no-any-return]
    if found in named:
        return named[found]
    try:
        return _loaded(found)
    except ScenarioError as error:
        raise error.under("problem.loss") from error


def _loaded(name: str) -> Loss:
    """Return the loss that a name leads to, a function or a module; others are not called."""
    found = plugins.load(name)
    if isinstance(found, nn.Module):
        return found
    if not isinstance(found, FunctionType):
        text = "is no function, and no module of PyTorch's"
        raise ScenarioError(clipped(name, 60), f"{text}; give one of outputs and targets")
    if not own.is_defined(name, found) or name.startswith("rayfed."):
        text = f"was only imported there, from '{found.__module__}'"
        raise ScenarioError(clipped(name, 60), f"{text}; define a function of outputs and targets")
    return found


def _squared(outputs: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (outputs.reshape(y.shape) - y) ** 2


def _binary(outputs: Tensor, y: Tensor) -> Tensor:
    z = outputs.reshape(y.shape)
    return functional.binary_cross_entropy_with_logits(z, y.to(z.dtype), reduction="none")


def check_loss(loss: Loss, outputs: int, classes: int) -> None:
    """Refuse a loss of the user's that does not return a number for each row.

    Raises
    ------
    ScenarioError
        If it raises, or returns something of another shape.
    """
    scores = torch.zeros(2, outputs)
    y = torch.zeros(2, dtype=torch.int64 if classes else scores.dtype)
    try:
        found = tuple(loss(scores, y).shape)
    except Exception as error:
        text = f"cannot take outputs {tuple(scores.shape)} and targets (2,)"
        raise ScenarioError("problem.loss", f"{text}: {plugins.raised(error)}") from error
    if found != (2,):
        text = f"returns {found} for 2 rows; return a loss for each row, (2,)"
        raise ScenarioError("problem.loss", text)
