"""Models of own training code: PyTorch modules or named arrays, as flat vectors."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from rayfed.core.arrays import Array, Floats
from rayfed.core.errors import ScenarioError, clipped
from rayfed.problems.layers import Layer, Normalisation
from rayfed.problems.own_code.functions import refuse


class Arrays:
    """A mapping of names to arrays of floats as a model.

    Parameters
    ----------
    values : mapping of str to array
        As ``model()`` returns it.

    Attributes
    ----------
    layers : tuple of Layer
        Coordinates of each array, in the order of the mapping.

    Raises
    ------
    ScenarioError
        If a name is no string, a value no array of floats, or there are no numbers.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values: dict[str, Array] = {}
        for name, value in values.items():
            shown = clipped(name, 40)
            if not isinstance(name, str):
                raise ScenarioError("problem.model", f"found the name {shown}; give strings")
            try:
                self.values[name] = np.asarray(value)
            except (TypeError, ValueError, RuntimeError) as error:
                text = (
                    f"'{shown}' is no NumPy array ({clipped(error, 60)}); give an array of floats"
                )
                raise ScenarioError("problem.model", text) from error
            if self.values[name].dtype.kind != "f":
                text = f"'{shown}' holds {self.values[name].dtype}; give an array of floats"
                raise ScenarioError("problem.model", text)
        if not any(value.size for value in self.values.values()):
            raise ScenarioError("problem.model", "has no numbers to train; give an array of floats")
        ends = list(accumulate((v.size for v in self.values.values()), initial=0))
        self.layers = tuple(
            Layer(name, ends[k], ends[k + 1], shape=value.shape)
            for k, (name, value) in enumerate(self.values.items())
        )

    @property
    def x(self) -> Floats:
        """The first model (p,)."""
        return np.concatenate([v.ravel() for v in self.values.values()]).astype(np.float64)

    def load(self, x: Array, device: str) -> dict[str, Any]:
        """Return the arrays of a model (p,), which may be written to."""
        return {layer.name: x[layer.slice].reshape(layer.shape).copy() for layer in self.layers}

    def named(self, model: dict[str, Any]) -> Mapping[str, Any]:
        """Return the trained arrays of a model by name."""
        return model


class Module:
    """A PyTorch module as a model: its parameters that need gradients, and running statistics.

    Parameters
    ----------
    module : torch.nn.Module
        As ``model()`` returns it.
    normalisation : "average", "local" or "frozen"
        Whether running statistics are part of the model, or fixed.

    Attributes
    ----------
    layers : tuple of Layer
        Coordinates of each tensor; see `rayfed.problems.network.kernels.flat.layers_of`.
    """

    def __init__(self, module: Any, normalisation: Normalisation = "average") -> None:
        from rayfed.problems.network.kernels.flat import freeze_norms, layers_of

        if normalisation == "frozen":
            freeze_norms(module)
        for name, part in module.named_modules():
            counted = getattr(part, "running_var", None) is not None
            cumulative = counted and getattr(part, "momentum", 0) is None
            if cumulative and normalisation != "frozen":
                text = f"BatchNorm ('{name}') has no momentum, so that its statistics need a count"
                raise ScenarioError("problem.model", f"{text} of batches; give it one")
        check_parameters(module)
        self.module, self.layers = module, layers_of(module, ())
        self._made: dict[tuple[Any, str], Any] = {}

    @property
    def x(self) -> Floats:
        """The first model (p,)."""
        from rayfed.problems.network.kernels.flat import vector

        return np.asarray(vector(self.module.state_dict(), self.layers).double().cpu())

    def load(self, x: Array, device: str) -> Any:
        """Return a new module with a model (p,); other tensors are as ``model()`` made them."""
        import torch

        flat = torch.from_numpy(np.array(x))
        pristine = self._made.get((flat.dtype, device))
        if pristine is None:
            pristine = copy.deepcopy(self.module).to(device=device, dtype=flat.dtype)
            self._made[flat.dtype, device] = pristine
        named, memo = self.named(pristine), {}
        for layer in self.layers:  # in places of their own, since bits may depend on where they are
            old, new = named[layer.name], flat[layer.slice].view(layer.shape).to(device, copy=True)
            memo[id(old)] = torch.nn.Parameter(new) if isinstance(old, torch.nn.Parameter) else new
        made, first = copy.deepcopy(pristine, memo), dict(self.module.named_parameters())
        for name, parameter in made.named_parameters():  # copies lack what else a user gave them
            vars(parameter).update(copy.deepcopy(vars(first[name])))
        return made

    def named(self, model: Any) -> Mapping[str, Any]:
        """Return the trained tensors of a module by name."""
        return dict(model.named_parameters()) | dict(model.named_buffers())


def check_parameters(module: Any) -> None:
    """Refuse parameters of a module that a copy would not be like.

    Raises
    ------
    ScenarioError
        If one has no shape yet, or calls a hook with its gradient.
    """
    from torch.nn.parameter import is_lazy

    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            text = f"'{name}' has no shape before the first row; call the module once in model()"
            raise ScenarioError("problem.model", text)
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            text = f"'{name}' has a hook on its gradient, which copies of the model lack"
            raise ScenarioError("problem.model", f"{text}; register it in train")


def template(made: Any, normalisation: Normalisation = "average") -> Arrays | Module:
    """Return the flat form of the result of ``model()``; `normalisation` is that of `Module`.

    Raises
    ------
    ScenarioError
        If it is neither a module nor named arrays.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(made, torch.nn.Module):
        return Module(made, normalisation)
    if isinstance(made, Mapping) and made:
        return Arrays(made)
    text = f"returns {clipped(repr(made), 60)}; return a torch.nn.Module or a dict of arrays"
    raise ScenarioError("problem.model", text)


def flat(known: Arrays | Module, model: Any, x: Array, train: Callable[..., Any]) -> Array:
    """Return a trained model as a vector (p,) of the type of x.

    Raises
    ------
    OwnCodeError
        If an array is missing, new, or has another shape.
    """
    named, out = known.named(model), np.empty_like(x)
    if isinstance(known, Arrays) and named.keys() != known.values.keys():
        odd = sorted(named.keys() ^ known.values.keys())
        refuse(train, f"adds or removes '{clipped(odd[0], 40)}'; keep the names of the model")
    for layer in known.layers:
        if layer.name not in named:
            refuse(train, f"removes '{clipped(layer.name, 40)}' from the model; keep its names")
        value = named[layer.name]
        value = value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
        if value.dtype.kind not in "fiub":
            shown = clipped(layer.name, 40)
            refuse(train, f"leaves {value.dtype} in '{shown}'; leave an array of floats")
        if value.shape != layer.shape:
            text = f"changes '{clipped(layer.name, 40)}' from shape {layer.shape} to {value.shape}"
            refuse(train, f"{text}; train in place")
        out[layer.slice] = value.ravel()
    return out
