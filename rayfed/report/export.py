"""Exports of runs in the formats of other tools, with late imports of their libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from rayfed.core.errors import RayfedError, ScenarioError, unknown
from rayfed.core.extras import install
from rayfed.report.read.differences import own_facts, scenario_facts, shown
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.summary import FRAMES, by_run, by_setting, frame
from rayfed.report.writing import check_own, make, replace

_T = TypeVar("_T")
_KEYS = ["seed", "round"]
"""Numeric columns that identify a row."""
_MLFLOW = "mlflow.db"
_STATES = {"finished": "FINISHED", "failed": "FAILED"}
_MOST = {"metrics": 1000, "params": 100}  # of a request
_LONGEST = 500  # characters of a parameter


def scalars(run: RunRecord) -> pd.DataFrame:
    """Return the measurements of a run: every finite number of its rounds.

    Returns
    -------
    DataFrame
        A row a number, those of a column together: ``name`` of the column, ``round``, ``seconds``
        and ``value``. Seconds are since the epoch, the start of the run on the wall plus the
        simulated time, so that what a tool shows as time since the start is simulated time.
    """
    if not len(run.rounds):  # of a damaged run
        return pd.DataFrame(columns=["name", "round", "seconds", "value"])
    values = run.rounds.select_dtypes(["number", "bool"]).drop(columns=_KEYS, errors="ignore")
    when = {"round": run.rounds["round"], "seconds": started_s(run) + run.rounds["time_s"]}
    long = values.astype(float).assign(**when).melt([*when], var_name="name")
    known: pd.DataFrame = long[np.isfinite(long["value"])]
    return known


def _rows(found: pd.DataFrame) -> Iterator[tuple[str, int, float, float]]:
    """Return `scalars` one by one, as plain values."""
    names = ("name", "round", "seconds", "value")
    return zip(*(found[name].tolist() for name in names), strict=True)


def settings(run: RunRecord) -> dict[str, str]:
    """Return all settings of a run by dotted key: of the scenario, the algorithm and the seed."""
    own = {f"algorithm.{key}": value for key, value in own_facts(run.info).items()}
    facts = {"label": run.label, "seed": run.seed} | own | scenario_facts(run.info)
    return {key: shown(value) for key, value in facts.items() if value is not None}


def started_s(run: RunRecord) -> float:
    """Return when a run began, in seconds since the epoch; 0 if that is not recorded."""
    try:
        return datetime.fromisoformat(str(run.info.get("started"))).timestamp()
    except ValueError:
        return 0.0


def chunks(items: Iterable[_T], most: int) -> Iterator[list[_T]]:
    """Return items in lists of so many.

    Examples
    --------
    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    left = iter(items)
    while chunk := list(islice(left, most)):
        yield chunk


@contextmanager
def _needs(library: str, extra: str) -> Iterator[None]:
    """Raise an error that names the missing library."""
    try:
        yield
    except ImportError as error:
        text = f"this export needs {library}; install it with: {install(extra)}"
        raise RayfedError(text) from error


def _write_csv(results: Results, folder: Path) -> str:
    """Write each table that has rows, and the summaries by setting and by run.

    Numbers keep all their digits. Files of those names are replaced.
    """
    make(folder)
    tables = {name: frame(results, name) for name in FRAMES}
    tables |= {"summary": by_setting(results), "runs": by_run(results)}
    for name, rows in tables.items():
        if len(rows):
            replace(folder / f"{name}.csv", rows.to_csv(index=False))
    return f"read it by: pandas.read_csv('{folder / 'rounds.csv'}')"


def _write_tensorboard(results: Results, folder: Path) -> str:
    """Write the columns of every run as scalars over the rounds, and its settings as a text.

    What TensorBoard calls relative time is simulated time.

    Raises
    ------
    RayfedError
        If tensorboardX is missing, or a folder of a run exists already: TensorBoard would show the
        events of both.
    """
    with _needs("tensorboardX", "tensorboard"):
        from tensorboardX import SummaryWriter
    make(folder)
    runs = results.runs_found
    there = next((run.folder.name for run in runs if (folder / run.folder.name).exists()), None)
    if there is not None:
        raise RayfedError(f"{folder / there}: already exists; remove it or give another --to")
    for run in runs:
        with SummaryWriter(str(folder / run.folder.name)) as writer:
            rows = "\n".join(f"| {key} | {value} |" for key, value in settings(run).items())
            writer.add_text("settings", f"| key | value |\n|---|---|\n{rows}", 0, started_s(run))
            for name, number, second, value in _rows(scalars(run)):
                writer.add_scalar(name, value, number, second)
    return f"see it by: tensorboard --logdir {folder}"


def _write_mlflow(results: Results, folder: Path) -> str:
    """Add an experiment of the study's name to ``mlflow.db`` in a folder, with a run for each run.

    Columns of the rounds are metrics, with the round as step and the simulated time as time after
    the start; settings are parameters.

    Raises
    ------
    RayfedError
        If MLflow or the database's library is missing.
    """
    with _needs("MLflow", "mlflow"):
        import sqlalchemy  # noqa: F401
        from mlflow import MlflowClient
    make(folder)
    place = f"sqlite:///{(folder / _MLFLOW).resolve()}"
    client = MlflowClient(tracking_uri=place)
    study = results.study
    known = client.get_experiment_by_name(study)
    experiment = known.experiment_id if known else client.create_experiment(study)
    for run in results.runs_found:
        _add_to_mlflow(client, experiment, run)
    return f"see it by: mlflow ui --backend-store-uri {place}"


def _add_to_mlflow(client: Any, experiment: str, run: RunRecord) -> None:
    from mlflow.entities import Metric, Param

    began = round(1000 * started_s(run))
    tags = {"algorithm": run.name, "status": run.status, "folder": str(run.folder)}
    made = client.create_run(experiment, began, tags=tags, run_name=run.folder.name)
    name = made.info.run_id
    for params in chunks(settings(run).items(), _MOST["params"]):
        client.log_batch(name, params=[Param(key, value[:_LONGEST]) for key, value in params])
    points = (
        Metric(name, value, round(1000 * second), number)
        for name, number, second, value in _rows(scalars(run))
    )
    for metrics in chunks(points, _MOST["metrics"]):
        client.log_batch(name, metrics=list(metrics))
    last = float(run.rounds["time_s"].iloc[-1]) if len(run.rounds) else 0.0
    client.set_terminated(name, _STATES.get(run.status, "RUNNING"), began + round(1000 * last))


def _write_wandb(results: Results, folder: Path) -> str:
    """Write an offline run for each run, in the project of the study's name.

    Columns of the rounds are logged by round, ``time_s`` among them; settings are the
    configuration.

    Raises
    ------
    RayfedError
        If wandb is missing.
    """
    with _needs("wandb", "wandb"):
        import wandb
    make(folder)
    quiet = wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True)
    for run in results.runs_found:
        with wandb.init(
            mode="offline", dir=str(folder), project=results.study, group=run.name,
            name=run.folder.name, config=settings(run), settings=quiet, reinit="finish_previous",
        ) as logged:  # fmt: skip
            for _, rows in scalars(run).groupby("round"):
                values = dict(zip(rows["name"], rows["value"], strict=True))
                logged.log(values, step=int(rows["round"].iloc[0]))
    return f"send it by: wandb sync {folder / 'wandb'}/offline-run-*"


FORMATS: dict[str, Callable[[Results, Path], str]] = {
    "csv": _write_csv,
    "tensorboard": _write_tensorboard,
    "mlflow": _write_mlflow,
    "wandb-offline": _write_wandb,
}


def write(results: Results, to: str, folder: Path | None = None, run: str | None = None) -> str:
    """Write runs for a tool and return the next step for the user, in a line.

    Parameters
    ----------
    results : Results
        A result folder.
    to : str
        One of `FORMATS`.
    folder : Path, optional
        Where to; a folder of the tool's name in the result folder if None.
    run : str, optional
        The folder of a run; all runs if None.

    Raises
    ------
    ScenarioError
        If there is no such tool or run.
    RayfedError
        If its library is missing, or files cannot be written.
    """
    if to not in FORMATS:
        raise ScenarioError("", unknown("format", to, FORMATS))
    place = results.folder / to if folder is None else folder
    check_own(place, results.folder)
    return FORMATS[to](results if run is None else _only(results, run), place)


def _only(results: Results, name: str) -> Results:
    runs = {run.folder.name: run for run in results.runs_found}
    if name not in runs:
        raise ScenarioError("", unknown("run", name, runs))
    return changed(results, runs_found=(runs[name],))
