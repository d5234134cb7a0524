"""A module with its trained parameters as views of one flat tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, nn

from rayfed.core.errors import ScenarioError, listed
from rayfed.problems.layers import Kind, Layer
from rayfed.problems.network.kernels.few import quicken

_BatchOrInstance = nn.modules.batchnorm._NormBase
_LINE = 64  # bytes
_FEW = 2**17  # values that are copied faster than parameters are made views of others
_NORMS = (_BatchOrInstance, nn.GroupNorm, nn.LayerNorm)


def layers_of(module: nn.Module, frozen: Sequence[str]) -> tuple[Layer, ...]:
    """Return where each trained parameter is in the flat model.

    They are in the order of ``torch.nn.utils.parameters_to_vector``, without those that are frozen:
    by name, or since the module declares that they need no gradient. The running statistics of
    BatchNorm follow.

    Raises
    ------
    ScenarioError
        If a pattern matches no parameter, or all are frozen.
    """
    every = dict(module.named_parameters())
    check_patterns("problem.frozen", frozen, list(every))
    needed = {name: p for name, p in every.items() if p.requires_grad}
    if not needed:
        text = "no parameter of the module needs a gradient, so there is nothing to train"
        raise ScenarioError("problem.model", f"{text}; leave requires_grad of some as it is")
    trained = {name: p for name, p in needed.items() if not matches(name, frozen)}
    if not trained:
        raise ScenarioError("problem.frozen", "leaves no parameter to train; freeze fewer")
    statistics = _statistics(module)
    tensors = trained | statistics
    norms = {name for name, part in module.named_modules() if isinstance(part, _NORMS)}

    def kind(name: str) -> Kind:
        if name in statistics:
            return "statistics"
        return "normalisation" if name.rpartition(".")[0] in norms else "weights"

    chained = {f"{name}.weight": 0 for name, part in module.named_modules() if _chained(part)}
    if len(trained) < len(every):  # inputs are not those of the layer before
        chained = {}
    ends = list(accumulate((t.numel() for t in tensors.values()), initial=0))
    return tuple(
        Layer(name, ends[i], ends[i + 1], kind(name), tuple(tensor.shape), chained.get(name))
        for i, (name, tensor) in enumerate(tensors.items())
    )


def _chained(part: nn.Module) -> bool:
    """Whether a module is fully connected, or a convolution of all its inputs."""
    return isinstance(part, nn.Linear) or (isinstance(part, nn.Conv2d) and part.groups == 1)


def freeze_norms(module: nn.Module) -> None:
    """Let BatchNorm normalise by its running statistics as they are, in training as well.

    Parameters
    ----------
    module : nn.Module
        Changed in place. Scales and shifts are trained as before.
    """
    for part in module.modules():
        if isinstance(part, _BatchOrInstance):
            part.eval()
            part.train = partial(_unchanged, part)  # type: ignore


def _unchanged(part: nn.Module, mode: bool = True) -> nn.Module:
    return part


def _statistics(module: nn.Module) -> dict[str, Tensor]:
    """Return the running means and variances of a module by name, of those that move."""
    return {
        f"{name}.{buffer}" if name else buffer: tensor
        for name, part in module.named_modules()
        if isinstance(part, _BatchOrInstance) and "train" not in vars(part)  # see `freeze_norms`
        for buffer, tensor in part.named_buffers(recurse=False)
        if buffer in ("running_mean", "running_var")
    }


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether any of some patterns fits a name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_patterns(place: str, patterns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a pattern that fits none of some names."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            inside = any(name.startswith(f"{pattern}.") for name in names)
            hint = f"did you mean '{pattern}.*'?" if inside else f"found {listed(names)}"
            raise ScenarioError(place, f"no parameter is called '{pattern}'; {hint}")


def vector(values: Mapping[str, Tensor], layers: Sequence[Layer]) -> Tensor:
    """Return the flat model (p,) of a state dict."""
    return torch.cat([values[layer.name].detach().reshape(-1) for layer in layers])


class Flat:
    """A module that computes with a flat model.

    Parameters
    ----------
    module : nn.Module
        Becomes part of this object: its trained parameters and running statistics become views of
        `x`.
    layers : sequence of Layer
        What `layers_of` returns.
    dtype, device
        Of the computation.

    Attributes
    ----------
    x : (p,) tensor
        The model; see `load`.
    layout : torch.memory_format
        How images should lie; most convolutions on a CPU are faster with the channels last.
    """

    def __init__(
        self, module: nn.Module, layers: Sequence[Layer], dtype: torch.dtype, device: torch.device
    ) -> None:
        module.requires_grad_(False)
        self.module = module.to(device=device, dtype=dtype)
        first = device.type == "cpu" and dtype == torch.float32 and quicken(self.module)
        self.layout = torch.contiguous_format if first else torch.channels_last
        if device.type == "cpu":
            for part in self.module.modules():
                if isinstance(part, nn.GroupNorm):
                    part.register_forward_pre_hook(_contiguous)
        self.layers = layers
        named = dict(module.named_parameters()) | _statistics(module)
        self._tensors = [named[layer.name] for layer in layers]
        self._own = torch.empty(layers[-1].stop, dtype=dtype, device=device)
        self._compute_with(self._own)
        weights = [layer for layer in layers if layer.kind != "statistics"]
        self.parameters, self.trained = self._tensors[: len(weights)], weights[-1].stop
        for parameter in self.parameters:
            parameter.requires_grad_(True)

    def load(self, model: Tensor, keep: bool) -> None:
        """Compute with a model (p,), within `released`: with a copy, or where it lies.

        It is copied unless it lies at the start of a cache line, since the bits of a result may
        depend on its place.

        Parameters
        ----------
        model : (p,) tensor
        keep : bool
            Whether the module writes to its tensors, which leaves the model as it is.
        """
        apart = model.data_ptr() % _LINE or not model.is_contiguous()
        if keep or apart or len(model) < _FEW:
            self._own.copy_(model)
            model = self._own
        if model.data_ptr() != self.x.data_ptr():
            self._compute_with(model)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Hold no model afterwards, nor the stack that it is part of."""
        try:
            yield
        finally:
            if self.x is not self._own:
                self._compute_with(self._own)

    def _compute_with(self, x: Tensor) -> None:
        self.x = x
        for layer, tensor in zip(self.layers, self._tensors, strict=True):
            tensor.data = x[layer.slice].view(layer.shape)

    def gradient(self, value: Tensor, out: Tensor) -> Tensor:
        """Write the gradient of a value to out (p,), 0 for running statistics, and return that."""
        parts = torch.autograd.grad(value, self.parameters, materialize_grads=True)
        torch.cat([part.reshape(-1) for part in parts], out=out[: self.trained])
        out[self.trained :] = 0
        return out

    def descend(self, value: Tensor, x: Tensor, lr: float) -> None:
        """Subtract lr times the gradient of a value from a model (p,), a layer at a time."""
        parts = torch.autograd.grad(value, self.parameters, materialize_grads=True)
        for layer, part in zip(self.layers, parts, strict=True):
            x[layer.slice] -= (part * lr).reshape(-1)

    def hvp(self, value: Tensor, v: Tensor) -> Tensor:
        """Return the Hessian of a value times v (p,)."""
        parts = torch.autograd.grad(
            value, self.parameters, create_graph=True, materialize_grads=True
        )
        slope = (torch.cat([part.reshape(-1) for part in parts]) * v[: self.trained]).sum()
        if not slope.requires_grad:  # the gradient is constant
            return torch.zeros_like(v)
        return self.gradient(slope, torch.empty_like(v))

    @contextmanager
    def tapped(self, name: str) -> Iterator[list[Tensor]]:
        """Give a list to which every call of a submodule adds its input, flat (B, r)."""
        seen: list[Tensor] = []
        head = self.module.get_submodule(name)
        handle = head.register_forward_pre_hook(lambda _, given: seen.append(given[0].flatten(1)))
        try:
            yield seen
        finally:
            handle.remove()

    def take_statistics(self, model: Tensor) -> None:
        """Load the running statistics of a model (p,), which the rows before have changed."""
        self.x[self.trained :] = model[self.trained :]

    def add_moved_statistics(self, model: Tensor, out: Tensor) -> None:
        """Write to out (p,) the change of a model's running statistics (p,), negated."""
        out[self.trained :] = model[self.trained :] - self.x[self.trained :]


def _contiguous(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Lay images anew that GroupNorm learns from and nothing before it does.

    With the channels last PyTorch 2.13 would crash: it writes to their gradient, of which there is
    none.
    """
    if not torch.is_grad_enabled():
        return given
    anew = torch.contiguous_format  # by strides; images of one pixel are contiguous either way
    return tuple(x if x.requires_grad else x.clone(memory_format=anew) for x in given)
