"""Exports of recorded runs: CSV files, and the formats of experiment trackers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed
from functools import partial
from pathlib import Path

from rayfed.core.errors import ScenarioError, unknown
from rayfed.report.read.results import Results
from rayfed.report.summary import FRAMES, by_run, by_setting, frame
from rayfed.report.trackers import TRACKERS, check_installed, scalars, started_s
from rayfed.report.writing import check_own, make, replace


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


def _track(name: str, results: Results, folder: Path) -> str:
    """Send all rows of the runs to a tracker; see `rayfed.report.trackers`.

    Raises
    ------
    RayfedError
        If a library is missing.
    """
    check_installed(name)
    sink = TRACKERS[name](results.study, folder, local=True)
    for run in results.runs_found:
        began = started_s(run)
        entry = sink.begin(run, began)
        sink.add(entry, scalars(run, began))
        sink.end(entry)
    return sink.hint


FORMATS: dict[str, Callable[[Results, Path], str]] = {
    "csv": _write_csv,
    "tensorboard": partial(_track, "tensorboard"),
    "mlflow": partial(_track, "mlflow"),
    "wandb-offline": partial(_track, "wandb"),
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
