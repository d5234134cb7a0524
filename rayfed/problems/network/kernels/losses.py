"""Losses: from the outputs of a module and targets to one number a row, or one for a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias
from warnings import catch_warnings, filterwarnings

from torch import Tensor, nn
from torch.nn import functional

from rayfed.core import plugins
from rayfed.core.errors import ScenarioError
from rayfed.core.targets import IGNORED
from rayfed.problems.network.settings import NetworkSettings

Loss: TypeAlias = Callable[[Any, Tensor], Tensor]
"""Maps outputs (B, ...) and targets (B, ...) to losses (B,), or one loss () of the batch.

A loss of the user's own gets several outputs as the module returns them, in a tuple or a dict.
"""


def loss_of(network: NetworkSettings) -> Loss:
    """Return the loss of a network."""
    smoothing = network.label_smoothing
    named: dict[str, Loss] = {
        "cross-entropy": partial(_cross_entropy, label_smoothing=smoothing),
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
    return found if isinstance(found, nn.Module) else plugins.load_function(name)


def _cross_entropy(outputs: Tensor, y: Tensor, label_smoothing: float) -> Tensor:
    scores = classes_second(outputs, y.shape[1:])
    losses = functional.cross_entropy(
        scores, y, reduction="none", label_smoothing=label_smoothing, ignore_index=IGNORED
    )
    if y.ndim == 1:
        return losses
    return losses.flatten(1).sum(1) / (y != IGNORED).flatten(1).sum(1)


def classes_second(outputs: Tensor, target: tuple[int, ...]) -> Tensor:
    """Return scores (B, C, *target), given those or (B, *target, C)."""
    return outputs if outputs.shape[2:] == target else outputs.movedim(-1, 1)


def _squared(outputs: Tensor, y: Tensor) -> Tensor:
    return _by_row(0.5 * (outputs.reshape(y.shape) - y) ** 2)


def _binary(outputs: Tensor, y: Tensor) -> Tensor:
    z = outputs.reshape(y.shape)
    losses = functional.binary_cross_entropy_with_logits(z, y.to(z.dtype), reduction="none")
    return _by_row(losses)


def _by_row(losses: Tensor) -> Tensor:
    """Return the mean loss of each row (B,)."""
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)


def of_batches(loss: Loss, scores: Tensor, y: Tensor, shown: str) -> bool:
    """Return whether a loss is one number for all rows of a batch.

    Parameters
    ----------
    loss : callable
    scores : (2, ...) tensor
        Outputs of the module for two rows.
    y : (2, ...) tensor
        Targets as those of the data.
    shown : str
        Shapes of the outputs, for errors.

    Raises
    ------
    ScenarioError
        If it raises, or returns neither that nor a number for each row.
    """
    try:
        with catch_warnings():
            filterwarnings("error", "Using a (input|target) size")  # it would mix all rows
            found = tuple(loss(scores, y).shape)
    except Exception as error:
        text = f"cannot take outputs {shown} and targets {tuple(y.shape)}"
        raise ScenarioError("problem.loss", f"{text}: {plugins.raised(error)}") from error
    if found not in ((2,), ()):
        text = f"returns {found} for 2 rows; return a loss for each row, (2,), or one of all, ()"
        raise ScenarioError("problem.loss", text)
    return not found
