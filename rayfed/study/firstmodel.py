"""The first model of a run, from a file."""

from __future__ import annotations

import zlib
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError, clipped
from rayfed.study.yamlfile import check_regular


def read_model(path: Path, p: int) -> Array:
    """Read the first model (p,) from ``model.npz`` of another run, or from an ``.npy`` file.

    Raises
    ------
    ScenarioError
        If the file holds no p finite real numbers.
    """
    name = f"'{clipped(path.name, 60)}'"
    try:
        check_regular(path)
        x = _array(path)
    except (
        OSError, ValueError, KeyError, EOFError, MemoryError, BadZipFile, zlib.error, TypeError,
        ScenarioError,
    ) as error:  # fmt: skip
        text = f"{name} is not a model; give zeros, normal, or a model.npz or .npy file"
        raise ScenarioError("problem.init", text) from error
    if x.dtype.kind not in "fiu":
        text = f"{name} holds values of type {clipped(x.dtype, 40)}; give real numbers"
        raise ScenarioError("problem.init", text)
    if x.size != p:
        raise ScenarioError("problem.init", f"{name} has {x.size} numbers, not {p}")
    if not np.isfinite(x).all():
        text = f"{name} holds NaN or infinite numbers; give the model of a run that did not diverge"
        raise ScenarioError("problem.init", text)
    return x.ravel()


def _array(path: Path) -> Array:
    held = np.load(path, allow_pickle=False)
    if isinstance(held, np.ndarray):
        return held
    with held:
        x = held["x"]
    if not isinstance(x, np.ndarray):  # a member that is no array comes as bytes
        raise ValueError("x is no array")
    return x
