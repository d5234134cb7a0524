"""Values and gradients of many clients at once by `torch.func.vmap`, as GPUs need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from rayfed.problems.layers import Layer
from rayfed.problems.network.kernels.losses import Loss
from rayfed.problems.network.kernels.outputs import tensor_of


def stacked(
    module: nn.Module, layers: Sequence[Layer], loss: Loss, forward: Callable[[Tensor], Tensor]
) -> Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return a function of models, rows, targets and weights of K clients.

    It maps x (K, p) or (1, p), X (K, B, *shape), y (K, B, ...) and w (K, B) to gradients (K, p) and
    values (K,) of ``sum_b w_b loss_b``.

    Parameters
    ----------
    module : nn.Module
        Whose parameters are replaced by parts of x, and whose others stay.
    layers : sequence of Layer
        The parts of x.
    loss : callable
    forward : callable
        Applied to rows before they enter the module.
    """
    shapes = {name: parameter.shape for name, parameter in module.named_parameters()}

    def value(x: Tensor, X: Tensor, y: Tensor, w: Tensor) -> Tensor:
        parts = {layer.name: x[layer.slice].view(shapes[layer.name]) for layer in layers}
        scores = tensor_of(functional_call(module, parts, (forward(X),)))
        return (w * loss(scores, y)).sum()

    both = grad_and_value(value)

    def run(x: Tensor, X: Tensor, y: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        if len(x) == 1:
            return vmap(both, in_dims=(None, 0, 0, 0))(x[0], X, y, w)
        return vmap(both)(x, X, y, w)

    return run


def device_of(name: str) -> torch.device | None:
    """Return a device by its name, None if it is not there."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):  # unknown; built without it; no such hardware
        return None
    return device
