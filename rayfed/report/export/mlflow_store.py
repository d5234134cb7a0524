"""Runs in a database of MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayfed.report.export.series import chunks, make, missing, series, settings, started_s
from rayfed.report.read.results import Results, RunRecord

FILE = "mlflow.db"
_STATES = {"finished": "FINISHED", "failed": "FAILED"}
_MOST = {"metrics": 1000, "params": 100}  # of a request
_LONGEST = 500  # characters of a parameter


def write(results: Results, folder: Path) -> str:
    """Add an experiment of the study's name to ``mlflow.db`` in a folder, with a run for each run.

    Columns of the rounds are metrics, whose step is the round and whose time is the simulated time
    after the start; settings are parameters.

    Raises
    ------
    RayfedError
        If MLflow or the database's library is missing.
    """
    try:
        import sqlalchemy  # noqa: F401
        from mlflow import MlflowClient
    except ImportError as error:
        raise missing("MLflow", "mlflow") from error
    make(folder)
    place = f"sqlite:///{(folder / FILE).resolve()}"
    client = MlflowClient(tracking_uri=place)
    study = results.study
    known = client.get_experiment_by_name(study)
    experiment = known.experiment_id if known else client.create_experiment(study)
    for run in results.runs_found:
        _add(client, experiment, run)
    return f"see it by: mlflow ui --backend-store-uri {place}"


def _add(client: Any, experiment: str, run: RunRecord) -> None:
    from mlflow.entities import Metric, Param

    began = round(1000 * started_s(run))
    tags = {"algorithm": run.name, "status": run.status, "folder": str(run.folder)}
    made = client.create_run(experiment, began, tags=tags, run_name=run.folder.name)
    name = made.info.run_id
    for params in chunks(settings(run).items(), _MOST["params"]):
        client.log_batch(name, params=[Param(key, value[:_LONGEST]) for key, value in params])
    points = (
        Metric(each.name, float(value), round(1000 * second), int(number))
        for each in series(run)
        for value, second, number in zip(each.values, each.seconds, each.rounds, strict=True)
    )
    for metrics in chunks(points, _MOST["metrics"]):
        client.log_batch(name, metrics=list(metrics))
    last = float(run.rounds["time_s"].iloc[-1]) if len(run.rounds) else 0.0
    client.set_terminated(name, _STATES.get(run.status, "RUNNING"), began + round(1000 * last))
