"""The first model of a run: zeros, noise, one from the data set, or a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import check_room, read_arrays, reading
from rayfed.core.rng import Key
from rayfed.datasets.shards import Shards
from rayfed.problems.base import Problem

_COPIES = 24  # bytes of a parameter while the first model is made: in float64, and as computed


def first_model(problem: Problem, shards: Shards, of_data: Array | None, key: Key) -> Array:
    """Return the first model (p,) of a problem that has met its rows.

    Parameters
    ----------
    of_data : (q,) array, optional
        A first model that comes with the data.
    key : Key
        Of noise.

    Raises
    ------
    ScenarioError
        If it does not fit the problem, or the memory.
    """
    kind, p = problem.init or problem.default_init, problem.size(shards.features, shards.classes)
    what, remedy = f"copies of {p:,} parameters", "use fewer features, classes or hidden units"
    check_room(_COPIES * p, "problem", what, remedy)
    if problem.init is None and of_data is not None:
        if of_data.size != p:
            text = f"the data comes with a first model of {of_data.size} numbers, but"
            found = f"{text} '{problem.name}' has {p}; give init: zeros"
            raise ScenarioError("problem.init", found)
        return of_data
    if problem.init_file is not None:
        read = problem.read_initial(problem.init_file, key)
        return read_model(problem.init_file, p) if read is None else read
    if kind not in problem.starts:
        text = f"found '{kind}'; '{problem.name}' starts as {' or '.join(problem.starts)}"
        raise ScenarioError("problem.init", f"{text}, or from a file")
    return problem.initial(kind, shards.features, shards.classes, key)


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
    text = ""
    if x.dtype.kind not in "fiu":
        text = f"{name} holds values of type {clipped(x.dtype, 40)}; give real numbers"
    elif x.size != p:
        text = f"{name} has {x.size} numbers, not {p}"
    elif not np.isfinite(x).all():
        text = f"{name} holds NaN or infinite numbers; give the model of a run that did not diverge"
    if text:
        raise ScenarioError("problem.init", text)
    return x.ravel()
