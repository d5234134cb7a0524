"""The first model of a run, from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import read_arrays, reading


def read_model(path: Path, p: int) -> Array:
    """Read the first model (p,) from ``model.npz`` of another run, or from an ``.npy`` file.

    Raises
    ------
    ScenarioError
        If the file holds no p finite real numbers.
    """
    name = f"'{clipped(path.name, 60)}'"
    remedy = "give zeros, normal, or a model.npz or .npy file"
    with reading(path, "a model", remedy, "problem.init"):
        x = read_arrays(path)["x"]
    if x.dtype.kind not in "fiu":
        text = f"{name} holds values of type {clipped(x.dtype, 40)}; give real numbers"
        raise ScenarioError("problem.init", text)
    if x.size != p:
        raise ScenarioError("problem.init", f"{name} has {x.size} numbers, not {p}")
    if not np.isfinite(x).all():
        text = f"{name} holds NaN or infinite numbers; give the model of a run that did not diverge"
        raise ScenarioError("problem.init", text)
    return x.ravel()
