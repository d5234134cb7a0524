"""The Python interface: run a scenario, resume one, read what it recorded."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from rayfed.core.errors import ScenarioError
from rayfed.runs.backend import ProgressDisplay, Silent
from rayfed.runs.fit import draw
from rayfed.runs.records import write_text
from rayfed.study import Study, apply_overrides, expand, load, slug
from rayfed.study.dotted import Overrides, pairs
from rayfed.study.plan import Plan, make

if TYPE_CHECKING:
    import pandas as pd

    from rayfed.runs.backend import Backend

LOCK = ".lock"
"""File of a result folder that a process holds while it runs the study."""


@dataclass(frozen=True)
class Result:
    """What a study recorded.

    Parameters
    ----------
    folder : Path
        The result folder.
    outcome : dict of str to str
        "finished" or "failed" for every run folder.
    """

    folder: Path
    outcome: Mapping[str, str]

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row a round of every run (see DESIGN.md, "What a row means")."""
        return self._read("rounds.parquet")

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row a client and Ask of every run."""
        return self._read("events.parquet")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """A row a touched client of every finished run."""
        return self._read("clients.parquet")

    def model(self, run: str) -> Any:
        """Return the final model (p,) of a run folder such as ``"fedavg-seed0"``."""
        import numpy as np

        with np.load(self.folder / run / "model.npz", allow_pickle=False) as arrays:
            return arrays["x"]

    def comparison(self) -> pd.DataFrame:
        """Return the table that compares the algorithms."""
        from rayfed.report.read.results import Results
        from rayfed.report.tables import comparison

        return comparison(Results.read(self.folder))

    def report(self) -> Path:
        """Write ``report.html`` and ``summary.csv`` and return the path of the page."""
        from rayfed.report.page.report import write

        return write(self.folder)

    def _read(self, name: str) -> pd.DataFrame:
        """Return the tables of all runs, each row with its run's label, seed and setting."""
        import pandas as pd

        frames = []
        for run in sorted(self.outcome):
            path = self.folder / run / name
            if path.exists():
                frame = pd.read_parquet(path)
                told = json.loads((self.folder / run / "run.json").read_text("utf-8"))
                for k, key in enumerate(("label", "seed", "setting")):
                    if key not in frame:
                        frame.insert(k, key, told[key])
                frames.append(frame)
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def run(
    scenario: str | Path | Mapping[str, Any] | Study,
    *,
    out: str | Path | None = None,
    overrides: Overrides = (),
    address: str | None = None,
    watch: ProgressDisplay | None = None,
) -> Result:
    """Run a scenario and return what it recorded.

    Parameters
    ----------
    scenario : path, mapping or Study
        A scenario file, or what one holds. In a mapping an algorithm, a problem and so on may
        be a class or a value of the user's own.
    out : path, optional
        Result folder; ``results/<name>`` if None. Earlier results there are moved aside.
    overrides : mapping, or iterable of str
        Values for dotted keys, or texts ``dotted.key=value``.
    address : str, optional
        Address of an existing Ray cluster that this machine belongs to.
    watch : ProgressDisplay, optional
        Looks on; silent if None.

    Raises
    ------
    ScenarioError
        If anything is wrong with the scenario or its data; nothing was started then.

    Examples
    --------
    >>> result = run(  # doctest: +SKIP
    ...     "scenarios/quickstart.yaml", overrides=["rounds=10", "executor.name=serial"]
    ... )
    >>> result.rounds.groupby("label").loss.last()  # doctest: +SKIP
    """
    study = read(scenario, overrides, address)
    return start(prepare(study), out, watch or Silent())


def start(plan: Plan, out: str | Path | None, watch: ProgressDisplay) -> Result:
    """Run a plan in a new result folder."""
    return execute(plan, begin(plan, out), watch=watch)


def begin(plan: Plan, out: str | Path | None = None) -> Path:
    """Make the result folder of a plan, with its scenario, and return its path.

    Raises
    ------
    ScenarioError
        If the folder cannot be written or holds something else.
    """
    folder = Path(out) if out is not None else Path("results") / slug(plan.study.name)
    fresh(folder)
    write_text(folder / "scenario.yaml", plan.study.to_yaml())
    return folder


def read(
    scenario: str | Path | Mapping[str, Any] | Study,
    overrides: Overrides = (),
    address: str | None = None,
) -> Study:
    """Return the study of a scenario, with changes."""
    if isinstance(scenario, Study):
        scenario = scenario.given()
    if address is not None:
        overrides = [*pairs(overrides), ("executor.address", address)]
    if isinstance(scenario, Mapping):
        return Study.parse(apply_overrides(scenario, overrides))
    folder = Path(scenario).resolve().parent
    for home in (str(Path.cwd()), str(folder)):  # the user's own modules
        if home not in sys.path:
            sys.path.insert(0, home)
    return load(scenario, overrides)


def resume(folder: str | Path, *, watch: ProgressDisplay | None = None) -> Result:
    """Go on with the runs of a result folder that have not ended.

    Raises
    ------
    ScenarioError
        If the folder holds no scenario.
    """
    folder = Path(folder)
    return execute(recorded(folder), folder, resume=True, watch=watch or Silent())


def recorded(folder: Path) -> Plan:
    """Return the plan of a result folder.

    Raises
    ------
    ScenarioError
        If the folder holds no scenario.
    """
    if not (folder / "scenario.yaml").is_file():
        raise ScenarioError(str(folder), "is no result folder; it has no scenario.yaml")
    return prepare(read(folder / "scenario.yaml"))


def prepare(study: Study) -> Plan:
    """Load and check everything; nothing is started or written."""
    plan = make(study, expand(study))
    plan.cost(cpus()).check()
    return plan


def execute(plan: Plan, folder: Path, *, resume: bool = False, watch: ProgressDisplay) -> Result:
    """Run what has not ended yet, then write the page."""
    with _alone(folder):
        outcome = ended(plan, folder) if resume else {}
        waiting = [run for run in plan.runs if run.folder not in outcome]
        if waiting:
            outcome |= _run_all(plan, waiting, folder, resume, watch)
        for each in plan.runs:
            if outcome.get(each.folder) == "finished":
                draw(each, plan.tables, folder / each.folder)
        result = Result(folder, outcome)
        result.report()
    return result


def _run_all(
    plan: Plan, runs: Sequence[Any], folder: Path, resume: bool, watch: ProgressDisplay
) -> dict[str, str]:
    with watch:
        backend = _backend(plan, folder)
        try:
            backend.wait(watch.actors)
            return backend.execute(runs, plan.tables, resume, watch.runs)
        finally:
            backend.close()


def _backend(plan: Plan, folder: Path) -> Backend:
    """Return what the scenario's executor names; Ray is imported only here."""
    executor = plan.study.executor
    if executor.name == "serial":
        from rayfed.runs.serial import SerialStudy

        return SerialStudy(folder)
    from rayfed.runs.ray import RayStudy

    return RayStudy(
        plan.clients, executor.clients_per_actor, executor.address, folder, own_modules(plan)
    )


def ended(plan: Plan, folder: Path) -> dict[str, str]:
    """Return the outcome of the runs that have ended, save those that the machine let down."""
    found = {}
    for each in plan.runs:
        path = folder / each.folder / "run.json"
        if path.is_file():
            told = json.loads(path.read_text(encoding="utf-8"))
            if told["status"] != "running" and not told.get("retry"):
                found[each.folder] = told["status"]
    return found


def fresh(folder: Path) -> None:
    """Make the result folder; earlier results there are moved aside, never deleted.

    Raises
    ------
    ScenarioError
        If the folder cannot be written, holds something else, or is in use.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            _move_aside(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
    except OSError as error:
        text = f"cannot be written ({(error.strerror or str(error)).lower()})"
        raise ScenarioError(f"--out {folder}", f"{text}; choose another folder") from error


def _move_aside(folder: Path) -> None:
    here = Path.cwd()
    if folder.resolve() in (here, *here.parents):
        raise ScenarioError(f"--out {folder}", "is where we are; choose another folder")
    if not all((folder / name).is_file() for name in ("scenario.yaml", LOCK)):
        text = "holds files that are no results; choose another folder"
        raise ScenarioError(f"--out {folder}", text)
    with _alone(folder):
        folder.rename(_free(folder))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes out of a result folder."""
    try:
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout as error:
        text = "another process is running this study; wait for it or choose another folder"
        raise ScenarioError(str(folder), text) from error


def _free(folder: Path) -> Path:
    number = 1
    while folder.with_name(f"{folder.name}.{number}").exists():
        number += 1
    return folder.with_name(f"{folder.name}.{number}")


def cpus() -> int:
    """Return the CPUs of this machine."""
    return os.cpu_count() or 1


def own_modules(plan: Plan) -> list[ModuleType]:
    """Return the user's modules that the plug-ins of a plan come from, and their neighbours.

    They are sent to the actors by value, so that the nodes of a cluster need no copy.
    """
    named = {type(value).__module__ for run in plan.runs for value in _values(run)}
    named -= {name for name in named if name.split(".")[0] in ("rayfed", "builtins", "numpy")}
    folders = {Path(sys.modules[n].__file__ or "").parent for n in named if _has_file(n)}
    return [
        module
        for name, module in sorted(sys.modules.items())
        if _has_file(name) and Path(str(module.__file__)).parent in folders
    ]


def _has_file(name: str) -> bool:
    path = getattr(sys.modules.get(name), "__file__", None)
    return name != "__main__" and bool(path) and "site-packages" not in str(path)


def _values(run: Any) -> list[Any]:
    """Return the plug-ins of a run, and those within them."""
    training, population = run.training, run.federation.population
    selection = run.participation.selection
    parts = (training.algorithm, training.problem, selection, *training.solvers, population)
    found = list(parts)
    for part in parts:
        if is_dataclass(part):
            found += [getattr(part, f.name) for f in fields(part)]
    return found


def results_in(folder: Path) -> dict[str, str]:
    """Return the status of every run in a result folder.

    Raises
    ------
    ScenarioError
        If it holds no runs.
    """
    told = sorted(folder.glob("*/run.json"))
    if not told:
        raise ScenarioError(str(folder), "is no result folder; it holds no runs")
    return {path.parent.name: json.loads(path.read_text("utf-8"))["status"] for path in told}


def reason(folder: Path) -> str:
    """Return why a run failed, in one line."""
    path = folder / "run.json"
    told = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    why = told.get("reason") or "its folder cannot be written; is the disk full?"
    return str(why).splitlines()[0]


def warnings(folder: Path) -> list[str]:
    """Return what readers of a finished run should beware of."""
    path = folder / "run.json"
    told = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return [str(text) for text in told.get("warnings", [])]


def differences(plan: Plan, folder: Path) -> list[str]:
    """Return where this machine differs from the one that began: the bits may differ then."""
    from rayfed.runs.run_json import versions

    found = set()
    for each in plan.runs:
        path = folder / each.folder / "run.json"
        if path.is_file():
            told = json.loads(path.read_text(encoding="utf-8"))
            for name, here in {**versions(), "machine": platform.machine()}.items():
                before = told["versions"].get(name, told.get(name))
                if before != here:
                    found.add(f"begun with {name} {before}, now {here}; bytes may differ")
    return sorted(found)
