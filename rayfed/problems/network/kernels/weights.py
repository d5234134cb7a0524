"""Weights of a module from files: safetensors, state dicts, and models that rayfed wrote."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from rayfed.core.errors import ScenarioError, clipped, listed
from rayfed.core.extras import install
from rayfed.core.files import check_room, read_arrays, reading
from rayfed.problems.layers import Layer
from rayfed.problems.network.kernels.flat import check_patterns, matches

_PLACE = "problem.init"
FLAT = "x"
"""Name of the flat model in a ``model.npz``."""
_HOLDERS = ("state_dict", "model_state_dict", "model")  # of training scripts' checkpoints
_REMEDY = "give torch, a model.npz, a .safetensors file or a state dict (.pt)"
_COUNT = "n_averaged"  # an entry of averaged models besides their module


def with_file(
    values: Mapping[str, Tensor], path: Path, layers: Sequence[Layer], wanted: Sequence[str]
) -> dict[str, Tensor]:
    """Return a state dict with the values of a file in place of some of its own, in float64.

    Parameters
    ----------
    values : mapping of str to tensor
        The state dict of the module.
    path : Path
    layers : sequence of Layer
        The trained parameters, which a flat model holds.
    wanted : sequence of str
        Patterns of the names that the file gives; empty for all.

    Raises
    ------
    ScenarioError
        If the file holds no weights, or not those of this module.
    """
    name = f"'{clipped(path.name, 60)}'"
    found = _bare(_read(path, name), values)
    if set(found) == {FLAT} and FLAT not in values:
        found = _unflattened(found[FLAT], values, layers, name)
        given = {layer.name for layer in layers}
    else:
        given = set(values)
    check_patterns("problem.init_layers", wanted, list(values))
    if wanted:
        given = {key for key in given if matches(key, wanted)}
        found = {key: value for key, value in found.items() if matches(key, wanted)}
    _check(found, values, given, name)
    return dict(values) | {  # with all of their digits: a study rounds them to its own type, once
        key: value.double() if values[key].is_floating_point() else value.to(values[key].dtype)
        for key, value in found.items()
    }


def _read(path: Path, name: str) -> dict[str, Tensor]:
    """Return the tensors of a file by name."""
    with reading(path, "weights", _REMEDY, _PLACE):
        found = _loaded(path, name)
    held = _inside(found)
    if held is None:
        text = f"{name} holds no weights; {_REMEDY}"
        if isinstance(found, Mapping):
            text += f"; it holds {listed(map(str, found), 60)}"
        raise ScenarioError(_PLACE, text)
    return held


def _loaded(path: Path, name: str) -> Any:
    """Return the content of a file; each format has errors of its own."""
    if path.suffix in (".npz", ".npy"):
        return {key: torch.from_numpy(value) for key, value in read_arrays(path).items()}
    packed = zipfile.is_zipfile(path)
    size = path.stat().st_size
    if packed:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    check_room(size, _PLACE, f"the tensors of {name}", "give fewer")
    if path.suffix == ".safetensors":
        return _safetensors(path, name)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        if not packed:
            raise ValueError("it is no archive of PyTorch's") from error
        text = f"{name} holds objects other than tensors, which could run code when they are loaded"
        remedy = "save the state dict alone: torch.save(module.state_dict(), file)"
        raise ScenarioError(_PLACE, f"{text}; {remedy}") from error


def _safetensors(path: Path, name: str) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        text = f"{name} needs safetensors; install it with: {install('torch')}"
        raise ScenarioError(_PLACE, text) from error
    held: dict[str, Tensor] = load_file(path)
    return held


def _inside(found: Any, depth: int = 0) -> dict[str, Tensor] | None:
    """Return the state dict that a file is, or that a checkpoint holds among other entries.

    What lies deeper than checkpoints have it is not looked for: a mapping may hold itself.
    """
    if not isinstance(found, Mapping) or depth > len(_HOLDERS):
        return None
    if all(isinstance(k, str) and isinstance(value, Tensor) for k, value in found.items()):
        return dict(found)
    return next((held for key in _HOLDERS if (held := _inside(found.get(key), depth + 1))), None)


def _bare(found: dict[str, Tensor], values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return values without the common prefix that wrappers add to all names."""
    found = {key: value for key, value in found.items() if key != _COUNT or key in values}
    while found and not found.keys() & values.keys():
        first = {key.partition(".")[0] for key in found}
        if len(first) > 1 or not all("." in key for key in found):
            break
        found = {key.partition(".")[2]: value for key, value in found.items()}
    return found


def _plain(value: Tensor) -> bool:
    """Return whether a tensor holds real numbers, each of them in memory."""
    dense = value.layout == torch.strided and not (value.is_quantized or value.is_meta)
    return dense and not value.is_complex()


def _unflattened(
    x: Tensor, values: Mapping[str, Tensor], layers: Sequence[Layer], name: str
) -> dict[str, Tensor]:
    """Return the parts of a flat model by name."""
    p = layers[-1].stop
    if x.numel() != p:
        raise ScenarioError(_PLACE, f"{name} has {x.numel()} numbers, not {p}")
    flat = x.reshape(-1)
    return {layer.name: flat[layer.slice].view(values[layer.name].shape) for layer in layers}


def _check(
    found: Mapping[str, Tensor], values: Mapping[str, Tensor], given: set[str], name: str
) -> None:
    """Refuse weights of another module, and weights that are no numbers."""
    missing, foreign = sorted(given - set(found)), sorted(set(found) - set(values))
    if missing or foreign:
        lacks = f"lacks {listed(missing, 80)}" if missing else ""
        holds = f"holds the unknown {listed(foreign, 80)}" if foreign else ""
        text = f"{name} {' and '.join(filter(None, (lacks, holds)))}"
        raise ScenarioError(_PLACE, f"{text}; name what it gives under init_layers")
    for key, value in found.items():
        if not _plain(value):
            text = f"{name} holds '{key}' of {value.dtype}, {value.layout}, on {value.device}"
            raise ScenarioError(_PLACE, f"{text}; save dense tensors of real numbers")
        wanted = tuple(values[key].shape)
        if tuple(value.shape) != wanted:
            text = f"{name} holds '{key}' {tuple(value.shape)}; the model has {wanted}"
            raise ScenarioError(_PLACE, f"{text}; name what is to be taken under init_layers")
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            text = f"{name} holds NaN or infinite numbers in '{key}'"
            remedy = "give the model of a run that did not diverge"
            raise ScenarioError(_PLACE, f"{text}; {remedy}")
