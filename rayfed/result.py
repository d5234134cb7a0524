"""Results with the final models of their runs: as arrays, named parameters, modules, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rayfed.core.arrays import Array, Floats
from rayfed.core.entries import Damaged, check, entries
from rayfed.core.errors import ScenarioError, clipped, listed, unknown
from rayfed.core.extras import install
from rayfed.core.files import read_arrays, reading
from rayfed.core.inside import replacing
from rayfed.core.rng import Key
from rayfed.core.run_state import read_record
from rayfed.core.targets import Targets
from rayfed.problems.base import Problem
from rayfed.problems.network.network import Network
from rayfed.problems.own_code.problem import OwnCode
from rayfed.report.result import RecordedResult
from rayfed.runs.modules import of_study
from rayfed.study.scenario.parts import problem_of

if TYPE_CHECKING:
    from rayfed.dashboard import Served

MODEL = "model.npz"
"""The file of a run with its final model."""
SUFFIXES = (".safetensors", ".npz", ".pt")
"""The kinds of files of `Trained.write`."""


class Result(RecordedResult):
    """The records of a study, and its final models.

    It shows itself as a table that compares the algorithms. Frames are read when they are first
    asked for; `load` the folder of a running study again to see its newer records.

    Parameters
    ----------
    folder : Path
        The result folder.
    outcome : dict of str to str
        "finished", "failed" or "running" for every run folder.

    Examples
    --------
    >>> result = rayfed.load("results/quickstart")  # doctest: +SKIP
    >>> result.rounds.groupby("label").loss.last()  # doctest: +SKIP
    >>> result.figure("convergence", x="time_s", y="loss")  # doctest: +SKIP
    """

    def model(self, run: str | None = None, *, trust: bool = False) -> Any:
        """Return the final model of a run.

        Parameters
        ----------
        run : str, optional
            A run folder such as ``"fedavg-seed0"``, or its part before ``-seed`` if there is one
            seed; not needed if there is only one run.
        trust : bool
            Whether a module that the scenario names is imported although the folder was not made
            here by this user.

        Returns
        -------
        torch.nn.Module, dict of str to array, or (p,) array
            The module of a network with the final weights, in evaluation mode; the module or the
            named arrays of own code; an array for all other problems. Layers that clients keep have
            their initial weights.

        Raises
        ------
        ScenarioError
            If there is no such run, it has no final model, or a module would be imported that is
            not trusted.

        Examples
        --------
        >>> result.model("FedAvg-seed0").shape  # doctest: +SKIP
        (118,)
        """
        folder = self._run(run)
        problem = (read_record(folder).get("scenario") or {}).get("problem") or {}
        if problem.get("name") not in (Network.name, OwnCode.name):
            return read_model(folder)
        return Trained.read(folder, trust).module

    def weights(self, run: str | None = None) -> Floats:
        """Return the final model of a run as an array (p,), of a network as well.

        No module of the user's is imported. The other arguments and errors are those of `model`.
        """
        return read_model(self._run(run))

    def export(self, path: str | Path, run: str | None = None, *, trust: bool = False) -> Path:
        """Write the final model of a run by parameter names to a file.

        Parameters
        ----------
        path : path
            A file that ends in .safetensors, .npz or .pt (a state dict).
        run, trust
            As in `model`.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        ScenarioError
            If there is no such run, it has no final model, a module would be imported that is not
            trusted, or the file cannot be written.
        """
        Trained.read(self._run(run), trust).write(Path(path))
        return Path(path)

    def dashboard(self) -> Served:
        """Serve the dashboard of the folder on this machine; a notebook shows it inline.

        Returns
        -------
        Served
            Its ``address``; it ends with ``close()`` or the program.

        Raises
        ------
        RayfedError
            If Starlette or Uvicorn are missing (extra ``dashboard``).
        """
        from rayfed.dashboard import start

        return start([self.folder])

    def _run(self, name: str | None) -> Path:
        """Return the folder of a run, or of the only one."""
        if name is None and len(self.outcome) == 1:
            (name,) = self.outcome
        if name is None:
            text = f"holds {len(self.outcome)} runs; name one: {listed(self.outcome)}"
            raise ScenarioError(str(self.folder), text)
        of_label = [run for run in self.outcome if run.rpartition("-seed")[0] == name]
        if name not in self.outcome and len(of_label) == 1:
            (name,) = of_label
        if name not in self.outcome:
            raise ScenarioError("", unknown("run", name, self.outcome))
        return self.folder / name


@dataclass(frozen=True)
class Trained:
    """The final model of a run.

    Parameters
    ----------
    problem : Problem
        The problem, bound to its data.
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
        record, x = read_record(run), read_model(run)
        data, scenario = record.get("data"), record.get("scenario")
        if data is None or scenario is None:
            text = "has no shape of its rows; run it again with this version"
            raise ScenarioError(str(run), text)
        key = Key(record["seed"], "init")
        with of_study(run.parent, trust):
            problem = problem_of(scenario["problem"])
            held = data.get("target")
            target = [] if held is None else [Targets(**held | {"shape": tuple(held["shape"])})]
            problem = problem.bound(tuple(data["shape"]), data["classes"], key, *target)
        return cls(problem, data["features"], data["classes"], x)

    @property
    def parameters(self) -> Mapping[str, Array]:
        """The parameters by name; of a network its state dict, frozen parameters included."""
        return self.problem.named(self.x, self.features, self.classes)

    @property
    def module(self) -> Any:
        """The module of a network with the final weights, or what own code has; None otherwise."""
        return self.problem.module(self.x)

    def write(self, path: Path) -> None:
        """Write the parameters by name to a file, atomically.

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
            with replacing(path) as file:
                _write(file, path.suffix, values)
        except ImportError as error:
            text = f"needs {error.name}; install it with: {install('torch')}"
            raise ScenarioError(str(path), text) from error
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise ScenarioError(str(path), f"cannot be written ({why})") from error


def read_model(run: Path) -> Array:
    """Read the final model (p,) of a run folder.

    Raises
    ------
    ScenarioError
        If it has none, or the file is damaged.
    """
    path, record = run / MODEL, read_record(run)
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
        return read_arrays(path, results=True)["x"]


def _write(file: Any, suffix: str, values: Mapping[str, Array]) -> None:
    if suffix == ".npz":
        np.savez(file, allow_pickle=False, **values)
    elif suffix == ".safetensors":
        from safetensors.numpy import save

        file.write(save(dict(values)))
    else:
        import torch

        torch.save({name: torch.from_numpy(value) for name, value in values.items()}, file)
