"""Modules: found by name, made under a key, and checked against the data."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeAlias, get_type_hints

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from rayfed.core import own, plugins
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.rng import Key
from rayfed.problems.network.kernels.flat import freeze_norms
from rayfed.problems.network.kernels.outputs import Outputs, tensor_of
from rayfed.problems.network.settings import MODELS, NetworkSettings

_BATCH_NORM = nn.modules.batchnorm._BatchNorm
_PLACE = "problem.model"
Needed: TypeAlias = Callable[[tuple[int, ...], int], str]


def loaded(network: NetworkSettings) -> Any:
    """Return the model of a network with the class or function in place of its name.

    A user's class then travels to client actors with the problem.
    """
    found, settings = network.choice
    if isinstance(found, str):
        found = _load(found)
    return {"name": found, **settings} if settings else found


def _load(name: str) -> Any:
    """Return the class or function that a name stands for."""
    if ":" in name:
        try:
            found = plugins.load(name)
            _judge(name, found)
            return found
        except ScenarioError as error:
            raise error.under(_PLACE) from error
    items = vars(importlib.import_module(f"{MODELS}.{name}")).values()
    return next(item for item in items if isinstance(item, type) and vars(item).get("name") == name)


def _judge(name: str, found: Any) -> None:
    """Refuse a named object before it is called, unless it makes a module.

    Of the user's modules that is a subclass, or a function, whose result `make` looks at; of a
    library a function has to declare that it returns a module.
    """
    place = clipped(name, 60)
    is_class = isinstance(found, type) and issubclass(found, nn.Module)
    if not (is_class or isinstance(found, FunctionType)):
        raise ScenarioError(place, "is no torch.nn.Module, nor a function that makes one")
    if not own.is_defined(name, found):
        raise ScenarioError(place, f"was only imported there, from '{found.__module__}'")
    if not is_class and own.is_installed(name) and not _returns_module(found):
        text = "is a function of a library that does not say `-> torch.nn.Module`"
        raise ScenarioError(place, f"{text}; call it in a module of yours")


def _returns_module(function: Any) -> bool:
    """Return whether a function is annotated as returning a module."""
    try:
        returned = get_type_hints(inspect.unwrap(function)).get("return")
    except Exception:  # annotations may name what is not there
        return False
    return isinstance(returned, type) and issubclass(returned, nn.Module)


def make(network: NetworkSettings, shape: tuple[int, ...], outputs: int, key: Key) -> nn.Module:
    """Return the module of a network in its own initialisation, which the key decides.

    Parameters
    ----------
    network : NetworkSettings
        With a class or function as its model; see `loaded`.

    Raises
    ------
    ScenarioError
        If it cannot be made, or holds a layer that clients cannot share.
    """
    with seeded(int(key.bits([0], 1)[0, 0])):
        try:
            found, settings = network.choice
            if isinstance(found, nn.Module):
                text = f"found a module of class '{type(found).__name__}'; give the class"
                raise ScenarioError(_PLACE, f"{text}, or a function that returns a new module")
            offered = {"inputs": shape, "outputs": outputs}
            named = inspect.signature(found).parameters
            given = {name: offered[name] for name in offered if name in named} | settings
            module = found(**given)
            if isinstance(module, nn.Module) and _is_lazy(module):
                _initialise(module, shape)
        except ScenarioError:
            raise
        except Exception as error:
            text = f"{shown(network)} cannot be made: {plugins.raised(error)}"
            raise ScenarioError(_PLACE, text) from error
    if not isinstance(module, nn.Module):
        text = f"{shown(network)} makes a {type(module).__name__}; give a torch.nn.Module"
        raise ScenarioError(_PLACE, text)
    _check_numbers(network, module)
    _check_batch_norm(network, module)
    if network.normalisation == "frozen":
        freeze_norms(module)
    return module


def _is_lazy(module: nn.Module) -> bool:
    """Return whether the first row decides the shape of a parameter."""
    return any(is_lazy(parameter) for parameter in module.parameters())


def _initialise(module: nn.Module, shape: tuple[int, ...]) -> None:
    """Run rows of zeros through a module with lazy layers, so that these draw their parameters."""
    module.eval()
    with torch.no_grad():
        try:
            module(torch.zeros(2, *shape))
        except (RuntimeError, IndexError, TypeError):  # it may take integers
            module(torch.zeros(2, *shape, dtype=torch.int64))
    module.train()


def _check_numbers(network: NetworkSettings, module: nn.Module) -> None:
    """Refuse parameters that are no real numbers of full precision."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_complex():
            text = f"{shown(network)} has complex numbers ('{name}'), and a model is real ones"
            raise ScenarioError(_PLACE, f"{text}; keep real and imaginary parts apart")
        if tensor.dtype in (torch.float16, torch.bfloat16):
            kind = str(tensor.dtype).removeprefix("torch.")
            text = f"{shown(network)} has numbers of {kind} ('{name}'), and models are float32"
            raise ScenarioError(_PLACE, f"{text} or float64; give problem.precision: bfloat16")


def _check_batch_norm(network: NetworkSettings, module: nn.Module) -> None:
    """Refuse BatchNorm whose running statistics are no values of a model."""
    for name, part in module.named_modules():
        if isinstance(part, _BATCH_NORM):
            if not part.track_running_stats or part.momentum is None:
                text = f"{shown(network)} has BatchNorm ('{name}') without running statistics"
                raise ScenarioError(_PLACE, f"{text} or a momentum; leave PyTorch's defaults")
            if network.l2 and network.normalisation != "frozen":
                text = f"covers the running statistics of BatchNorm ('{name}')"
                raise ScenarioError("problem.l2", f"{text}; give local.weight_decay in its place")


def takes_integers(network: NetworkSettings, module: nn.Module, shape: tuple[int, ...]) -> bool:
    """Return whether a module takes rows of integers and none of floats, as embeddings do."""
    try:
        _scores(network, module, shape, 2)
    except ScenarioError:
        try:
            _scores(network, module, shape, 2, torch.int64)
        except ScenarioError:
            return False  # `check_rows` explains why floats fail
        return True
    return False


def check_rows(
    network: NetworkSettings, module: nn.Module, shape: tuple[int, ...], needed: Needed
) -> tuple[bool, torch.Tensor, Outputs | None]:
    """Run rows of zeros through a module.

    Parameters
    ----------
    needed : callable
        From the shape of outputs and the number of rows to the shape that the loss needs in its
        place, as text; empty if it fits.

    Returns
    -------
    random : bool
        Whether training draws random numbers.
    scores : (2, ...) tensor
        Outputs for two rows, side by side if there are several.
    several : Outputs, optional
        Description of several outputs.

    Raises
    ------
    ScenarioError
        If it cannot take them, returns something of another shape than the loss needs, draws from
        another generator than PyTorch's, or draws in evaluation mode.
    """
    module.eval()
    with preserved(torch.default_generator), torch.no_grad():
        before = torch.get_rng_state()
        evaluated = Outputs.of(_returned(network, module, shape, 2))
        if not torch.equal(before, torch.get_rng_state()):
            text = f"{shown(network)} draws random numbers in evaluation mode"
            raise ScenarioError(_PLACE, f"{text}; draw them if self.training alone")
    module.train()
    with preserved(torch.default_generator), torch.no_grad():
        returned = _returned(network, module, shape, 2)
        scores, several = tensor_of(returned), Outputs.of(returned)
        if evaluated != several:
            text = f"{shown(network)} returns {evaluated or 'one tensor'} in evaluation mode"
            text += f" after {several or 'one tensor'}; return the same outputs in both modes"
            raise ScenarioError(_PLACE, text)
        if several is not None and not network.own_loss and network.task == "multiclass":
            text = f"{shown(network)} returns {several}; return the scores alone, a tensor"
            raise ScenarioError(_PLACE, f"{text}, or give a loss of your own")
        torch.default_generator.manual_seed(0)
        before = torch.get_rng_state()
        again = _scores(network, module, shape, 2)
        random = not torch.equal(before, torch.get_rng_state())
        _check_scores(network, scores, several, shape, needed, 2)
        torch.default_generator.manual_seed(0)
        third = _scores(network, module, shape, 2)
        if not torch.equal(again.nan_to_num(), third.nan_to_num()):
            text = f"{shown(network)} returns other scores for the same rows and random numbers"
            raise ScenarioError(_PLACE, f"{text}; draw by torch, and keep nothing between batches")
        norms = (part for part in module.modules() if isinstance(part, _BATCH_NORM))
        if not any(part.training for part in norms):  # it cannot train on one row
            one = _scores(network, module, shape, 1)
            _check_scores(network, one, several, shape, needed, 1)
    return random, scores, several


def check_writes(network: NetworkSettings, module: nn.Module, shape: tuple[int, ...]) -> bool:
    """Run rows of zeros through a module, and return whether it writes to its own parameters.

    So do embeddings with a largest norm. Their values, which decide whether there is anything to
    write, are made large before; a module that cannot compute with them is taken to write.

    Raises
    ------
    ScenarioError
        If it puts other tensors in their places, which no gradient would reach.
    """
    parameters = list(module.parameters())
    with preserved(torch.default_generator), torch.no_grad():
        for parameter in parameters:
            parameter.mul_(1000)
        # Views keep the memory of the parameters, which new tensors could get otherwise.
        before = [(p.detach(), p._version, p.clone()) for p in parameters]
        for training in (True, False):
            module.train(training)
            try:
                _scores(network, module, shape, 2)
            except ScenarioError:
                return True
    after = list(zip(parameters, before, strict=True))
    if any(p.data_ptr() != view.data_ptr() for p, (view, _, _) in after):
        text = f"{shown(network)} puts other tensors in the place of its parameters"
        raise ScenarioError(_PLACE, f"{text} as it computes; compute with new tensors")
    return any(p._version != version or not p.equal(value) for p, (_, version, value) in after)


def _scores(
    network: NetworkSettings,
    module: nn.Module,
    shape: tuple[int, ...],
    rows: int,
    dtype: torch.dtype | None = None,
) -> Any:
    """Return the outputs of a module for some rows of zeros, several ones side by side."""
    return tensor_of(_returned(network, module, shape, rows, dtype))


def _returned(
    network: NetworkSettings,
    module: nn.Module,
    shape: tuple[int, ...],
    rows: int,
    dtype: torch.dtype | None = None,
) -> Any:
    """Return the outputs of a module for some rows of zeros.

    Raises
    ------
    ScenarioError
        If it cannot take them.
    """
    try:
        if dtype is None and getattr(network, "integers", False):
            dtype = torch.int64
        return module(torch.zeros(rows, *shape, dtype=dtype))
    except Exception as error:
        text = f"{shown(network)} cannot take {rows} rows of shape {shape}"
        raise ScenarioError(_PLACE, f"{text}: {plugins.raised(error)}") from error


def _check_scores(
    network: NetworkSettings, scores: Any, several: Outputs | None, shape: tuple[int, ...],
    needed: Needed, rows: int,
) -> None:  # fmt: skip
    """Refuse scores of another shape than the loss needs."""
    if not isinstance(scores, torch.Tensor):
        text = f"{shown(network)} returns a {type(scores).__name__}; return the scores, a tensor"
        raise ScenarioError(_PLACE, f"{text}, or a tuple or dict of float tensors (B, ...)")
    if several is not None and network.task == "multiclass":
        scores = several.first(scores)
    found = tuple(scores.shape)
    if wanted := needed(found, rows):
        loss = clipped(network.loss, 40) if isinstance(network.loss, str) else "the loss"
        text = f"{shown(network)} returns {found} for {rows} rows of shape {shape}"
        raise ScenarioError(_PLACE, f"{text}; {loss} of this data needs {wanted}")


def shown(network: NetworkSettings) -> str:
    """Return the name of the model for messages."""
    found = network.choice[0]
    name = found if isinstance(found, str) else getattr(found, "__qualname__", repr(found))
    return f"'{clipped(name, 60)}'"


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch's own generator draw from a seed, and leave it as it was."""
    with preserved(torch.default_generator):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def preserved(generator: torch.Generator | None) -> Iterator[None]:
    """Leave a generator as it was, if there is one."""
    before = None if generator is None else generator.get_state()
    try:
        yield
    finally:
        if generator is not None and before is not None:
            generator.set_state(before)


def generator_of(device: torch.device) -> torch.Generator:
    """Return torch's own generator of a device."""
    if device.type == "cuda":
        return torch.cuda.default_generators[device.index or 0]
    return torch.default_generator
