"""Convolutions of few channels on a CPU, which would leave most of a vector unit idle.

oneDNN computes 16 channels of a convolution at once with AVX-512 and 8 with AVX2, and PyTorch pools
so; LeNet-5 begins with 6. A convolution with max pooling of 2 x 2 after it is therefore computed as
one of twice the channels and half the columns: the first half of the channels has the even columns,
the second half the odd ones. The pooling is then two maxima of whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Step: TypeAlias = Callable[[Tensor], Tensor]
FEW = 8
"""Channels that are few."""
_slopes = torch.ops.aten.convolution_backward


def quicken(module: nn.Module) -> bool:
    """Let the sequences in a module compute convolutions of few channels faster.

    Submodules and parameters stay what they are. Sequences of a user's own class are left alone,
    and so are convolutions and poolings with hooks.

    Returns
    -------
    bool
        Whether the first convolution of the module takes images with their channels first.
    """
    paired: set[nn.Module] = set()
    for part in module.modules():
        if type(part) is nn.Sequential:
            steps, found = _steps(part)
            paired |= found
            if any(isinstance(step, partial) for step in steps):
                part.forward = partial(_in_turn, steps)  # type: ignore[method-assign]
    first = next((part for part in module.modules() if isinstance(part, nn.Conv2d)), None)
    return first in paired


def _in_turn(steps: list[Step], x: Tensor) -> Tensor:
    for step in steps:
        x = step(x)
    return x


def _steps(sequence: nn.Sequential) -> tuple[list[Step], set[nn.Module]]:
    """Return the operations of a sequence, and the convolutions fused with their pooling."""
    parts: list[Any] = [*sequence, None]
    steps: list[Step] = []
    paired: set[nn.Module] = set()
    while len(parts) > 1:
        part, after = parts.pop(0), parts[0]
        if not (_plain(part, nn.Conv2d) and _dense(part)):
            steps.append(part)
        elif part.out_channels <= FEW and _halves(after):
            steps.append(partial(_pooled, part, parts.pop(0)))
            paired.add(part)
        else:
            steps.append(partial(_convolved, part) if part.in_channels <= FEW else part)
    return steps, paired


def _plain(part: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module is of PyTorch's own class and without hooks."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return type(part) is kind and not any(getattr(part, name) for name in hooks)


def _dense(conv: Any) -> bool:
    """Whether a convolution connects all channels, at every place, with zeros around."""
    every = conv.stride == (1, 1) and conv.dilation == (1, 1) and conv.groups == 1
    return every and conv.padding_mode == "zeros" and not isinstance(conv.padding, str)


def _halves(part: Any) -> bool:
    """Whether a module is max pooling of 2 x 2."""
    if not _plain(part, nn.MaxPool2d) or part.ceil_mode or part.return_indices:
        return False
    wanted = ((part.kernel_size, 2), (part.stride, 2), (part.padding, 0), (part.dilation, 1))
    return all(found in (number, (number, number)) for found, number in wanted)


def _pooled(conv: nn.Conv2d, pool: nn.MaxPool2d, x: Tensor) -> Tensor:
    """Return the max pooling of a convolution."""
    if _usual(conv, x) and _plain(pool, nn.MaxPool2d):
        sides = zip(x.shape[2:], conv.kernel_size, strict=True)
        if all((side - kernel) % 2 for side, kernel in sides):  # nothing is left over
            return _applied(_Pooled, x, conv)
    pooled: Tensor = pool(conv(x))
    return pooled


def _convolved(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Return a convolution."""
    if _usual(conv, x) and x.requires_grad and torch.is_grad_enabled():
        return _applied(_Convolution, x, conv)
    convolved: Tensor = conv(x)
    return convolved


def _usual(conv: nn.Conv2d, x: Tensor) -> bool:
    """Whether x is a batch of images in single precision, also within, and without hooks now."""
    single = x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return single and x.ndim == 4 and _plain(conv, nn.Conv2d)


def _applied(function: Any, x: Tensor, conv: nn.Conv2d) -> Tensor:
    out: Tensor = function.apply(x, conv.weight, conv.bias, conv.padding)
    return out


class _Pooled(torch.autograd.Function):
    """The max pooling of a convolution.

    As in PyTorch the first of equal numbers gets the slope, in the order of the image.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: Any) -> Tensor:
        biases = None if bias is None else torch.cat((bias, bias))
        z = functional.conv2d(x, _twice(weight), biases, (1, 2), padding).contiguous()
        left, right = z.chunk(2, 1)
        columns = torch.maximum(left, right)
        upper, lower = columns[:, :, ::2], columns[:, :, 1::2]
        ctx.save_for_backward(x, weight, right - left, lower - upper)
        ctx.padding = padding
        return torch.maximum(upper, lower)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, across, down = ctx.saved_tensors
        lower = _where(slope, down)
        columns = torch.stack((slope - lower, lower), 3).flatten(2, 3)
        right = _where(columns, across)
        z = torch.cat((columns - right, right), 1)
        rest = (None, (1, 2), ctx.padding, (1, 1), False, (0, 0), 1)
        wanted = (ctx.needs_input_grad[0], True, False)
        by_x, by_twice, _ = _slopes(z, x, _twice(weight), *rest, wanted)
        even, odd = by_twice.chunk(2)
        by_bias = slope.sum((0, 2, 3)) if ctx.needs_input_grad[2] else None
        return by_x, even[..., :-1] + odd[..., 1:], by_bias, None


def _twice(weight: Tensor) -> Tensor:
    """Return weights (2 c, C, h, w + 1): those (c, C, h, w) at even columns, then at odd ones."""
    zero = weight.new_zeros(*weight.shape[:-1], 1)
    return torch.cat((torch.cat((weight, zero), 3), torch.cat((zero, weight), 3)))


def _where(slope: Tensor, difference: Tensor) -> Tensor:
    """Return a slope where a difference is positive, 0 elsewhere, in the time of a product."""
    masked: Tensor = torch.ops.aten.threshold_backward(slope.contiguous(), difference, 0)
    return masked


class _Convolution(torch.autograd.Function):
    """A convolution that computes its slope by x with channels first.

    oneDNN takes half as long again for it with the few channels last.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, padding: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.padding, ctx.biases = padding, None if bias is None else bias.shape
        return functional.conv2d(_last(x), weight, bias, padding=padding)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        by_x, *by_others, _ = ctx.needs_input_grad
        rest = (weight, ctx.biases, (1, 1), ctx.padding, (1, 1), False, (0, 0), 1)
        first = _slopes(slope.contiguous(), x.contiguous(), *rest, (by_x, False, False))
        last = _slopes(slope, _last(x), *rest, (False, *by_others))
        return first[0], last[1], last[2], None


def _last(x: Tensor) -> Tensor:
    """Return x with its channels last."""
    return x.contiguous(memory_format=torch.channels_last)
