"""Final models of recorded runs: as an array, as named parameters, as a module, in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from rayfed.core.arrays import Array
from rayfed.core.entries import Damaged, check, entries
from rayfed.core.errors import ScenarioError, clipped, listed
from rayfed.core.files import read_arrays, reading
from rayfed.core.rng import Key
from rayfed.problems.base import STARTS, Problem
from rayfed.problems.network.network import Network
from rayfed.runs.files import store
from rayfed.runs.files.outcome import record as record_of
from rayfed.runs.modules import of_study
from rayfed.study.scenario.invalid import complaint
from rayfed.study.scenario.parts import ProblemSection

MODEL = "model.npz"
"""File of a run with its final model."""
SUFFIXES = (".safetensors", ".npz", ".pt")
"""Kinds of files that `Trained.write` writes."""


@dataclass(frozen=True)
class Trained:
    """The final model of a run.

    Parameters
    ----------
    problem : Problem
        The problem that has met its data.
    features, classes : int
        Columns of its rows, and their classes.
    x : (p,) array
        The model.
    """

    problem: Problem
    features: int
    classes: int
    x: Array

    @classmethod
    def read(cls, run: Path, trust: bool = False) -> Trained:
        """Read the model of a run folder; its data are not needed.

        Parameters
        ----------
        run : Path
            The run folder.
        trust : bool
            See `rayfed.runs.modules.of_study`.

        Raises
        ------
        ScenarioError
            If the run has no final model, was recorded by an older version, or names a module that
            is not trusted.
        """
        record, x = record_of(run), read_model(run)
        data, scenario = record.get("data"), record.get("scenario")
        if data is None or scenario is None:
            text = "does not say of which shape its rows are; run it again with this version"
            raise ScenarioError(str(run), text)
        key = Key(record["seed"], "init")
        with of_study(run.parent, trust):
            task = _task(scenario["problem"])
            init = None if task.init in (None, *STARTS) else Path(str(task.init))
            problem = task.kernels.bound(tuple(data["shape"]), data["classes"], key, init)
        return cls(problem, data["features"], data["classes"], x)

    @property
    def parameters(self) -> Mapping[str, Array]:
        """The parameters by name; of a network its state dict, frozen parameters included."""
        return self.problem.named(self.x, self.features, self.classes)

    @property
    def module(self) -> Any:
        """The ``torch.nn.Module`` of a network with the final weights; None for other problems."""
        return self.problem.module(self.x)

    def write(self, path: Path) -> None:
        """Write the parameters by name to a file, whole or not at all.

        Raises
        ------
        ScenarioError
            If the ending names none of `SUFFIXES`, or a package is missing.
        """
        if path.suffix not in SUFFIXES:
            text = f"found '{clipped(path.suffix, 20)}'; give a file that ends in"
            raise ScenarioError(str(path), f"{text} {listed(SUFFIXES)}")
        values = {name: np.ascontiguousarray(value) for name, value in self.parameters.items()}
        try:
            store.publish(path, lambda file: _write(file, path.suffix, values))
        except ImportError as error:
            text = f"needs {error.name}; install it with: pip install 'rayfed[torch]'"
            raise ScenarioError(str(path), text) from error
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise ScenarioError(str(path), f"cannot be written ({why})") from error


def _task(problem: Mapping[str, Any]) -> ProblemSection:
    """Return the recorded problem; what is wrong with it is one line."""
    try:
        return ProblemSection.model_validate(problem, context={"root": ""})
    except ValidationError as error:
        raise complaint(error, problem) from None


def final_model(run: Path, trust: bool = False) -> Any:
    """Return the final model of a run folder: a network's module, an array (p,) of others.

    Raises
    ------
    ScenarioError
        If there is none.
    """
    x = read_model(run)
    problem = (record_of(run).get("scenario") or {}).get("problem") or {}
    if problem.get("name") != Network.name:
        return x
    return Trained.read(run, trust).module


def read_model(run: Path) -> Array:
    """Read the final model (p,) of a run folder.

    Raises
    ------
    ScenarioError
        If it has none, or not as it was written.
    """
    path, record = run / MODEL, record_of(run)
    entry = (record.get("files") or {}).get(MODEL)
    try:
        if entry is not None:
            check(run, entries({MODEL: entry}))
    except Damaged as error:
        raise ScenarioError(str(path), f"damaged: {error}; rayfed resume mends it") from error
    if not path.is_file():
        why = f" ({record['reason']})" if record.get("reason") else ""
        status = record.get("status", "not there")
        raise ScenarioError(str(path), f"is not there; the run is {status}{why}")
    with reading(path, "a model"):
        return read_arrays(path)["x"]


def _write(file: Any, suffix: str, values: Mapping[str, Array]) -> None:
    if suffix == ".npz":
        np.savez(file, allow_pickle=False, **values)
    elif suffix == ".safetensors":
        from safetensors.numpy import save

        file.write(save(dict(values)))
    else:
        import torch

        torch.save({name: torch.from_numpy(value) for name, value in values.items()}, file)
