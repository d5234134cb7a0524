"""Experiment trackers: TensorBoard, MLflow and Weights & Biases, with late imports of each.

Exports of ended runs and live logs send the same points through the same trackers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from glob import escape
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import pandas as pd

from rayfed.core.errors import RayfedError, ScenarioError, listed, unknown
from rayfed.core.extras import install
from rayfed.report.read.differences import own_facts, scenario_facts, shown
from rayfed.report.read.run import RunRecord
from rayfed.report.writing import make

_T = TypeVar("_T")
_KEYS = ["seed", "round"]
"""Numeric columns that identify a row."""
_POINT = ("name", "round", "seconds", "value")
_DATABASE = "mlflow.db"
_STATES = {"finished": "FINISHED", "failed": "FAILED", "running": "RUNNING"}  # else KILLED
_KILLED = 255  # exit code of wandb's runs after Ctrl-C
_CODES = {"finished": 0, "failed": 1, "running": 0}
_MOST = {"metrics": 1000, "params": 100}  # of a request
_LONGEST = 500  # characters of a parameter
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20"}
_LIBRARIES = {
    "tensorboard": ("tensorboardX",),
    "mlflow": ("mlflow", "sqlalchemy"),
    "wandb": ("wandb",),
}


@dataclass(frozen=True)
class Entry:
    """A run as it is listed in a tracker.

    Parameters
    ----------
    run : RunRecord
    began : float
        The time of its simulated second 0, in seconds since the epoch.
    id : str
        Its name in the tracker.
    """

    run: RunRecord
    began: float
    id: str


class Tracker:
    """A tool that displays runs.

    Parameters
    ----------
    study : str
        Name of the study.
    folder : Path
        Folder for local files.
    local : bool
        Whether nothing is sent over the network, whatever the tool's own settings.

    Attributes
    ----------
    hint : str
        The next step for the user, in a line.
    """

    hint: str

    def __init__(self, study: str, folder: Path, local: bool = False) -> None:
        make(folder)
        self.study, self.folder, self.local = study, folder, local

    def begin(self, run: RunRecord, began: float) -> Entry:
        """Add a run with its settings."""
        raise NotImplementedError

    def restarts(self, entry: Entry) -> bool:
        """Return whether a run that another process has begun needs all of its rows again."""
        return False

    def add(self, entry: Entry, points: pd.DataFrame) -> None:
        """Add the `scalars` of some rounds; a run may have got others from another process."""
        raise NotImplementedError

    def end(self, entry: Entry) -> None:
        """Close a run that has ended."""
        raise NotImplementedError

    def close(self) -> None:
        """Close runs that have not ended; another process may continue them."""


class TensorBoard(Tracker):
    """Event files, a folder for each run; relative time is simulated time."""

    def __init__(self, study: str, folder: Path, local: bool = False) -> None:
        super().__init__(study, folder, local)
        self.writers: dict[str, Any] = {}
        self.hint = f"see it by: tensorboard --logdir {folder}"

    def begin(self, run: RunRecord, began: float) -> Entry:
        """Add a run, with its settings as a text.

        Raises
        ------
        RayfedError
            If its folder exists already: TensorBoard would show the events of both.
        """
        from tensorboardX.summary import text as text_summary

        entry = Entry(run, began, run.folder.name)
        if (self.folder / entry.id).exists():
            text = "already exists; remove it or give another --to"
            raise RayfedError(f"{self.folder / entry.id}: {text}")
        rows = "\n".join(f"| {key} | {value} |" for key, value in settings(run).items())
        table = f"| key | value |\n|---|---|\n{rows}"
        self._write(entry, text_summary("settings", table), 0, began)
        self._writer(entry).flush()
        return entry

    def add(self, entry: Entry, points: pd.DataFrame) -> None:
        """Add points as scalars, which are on the disk when this returns."""
        from tensorboardX.summary import scalar

        for name, number, second, value in _rows(points):
            self._write(entry, scalar(name, value), number, second)
        self._writer(entry).flush()

    def end(self, entry: Entry) -> None:
        """Close the files."""
        self._writer(entry).close()
        del self.writers[entry.id]

    def close(self) -> None:
        """Close the files of all runs."""
        while self.writers:
            self.writers.popitem()[1].close()

    def _write(self, entry: Entry, summary: Any, number: int, second: float) -> None:
        from tensorboardX.proto.event_pb2 import Event

        event = Event(step=number, wall_time=second, summary=summary)
        self._writer(entry).write_event(event)

    def _writer(self, entry: Entry) -> Any:
        # a SummaryWriter has a queue that its flush() does not wait for: a kill loses points
        from tensorboardX.event_file_writer import EventsWriter

        if entry.id not in self.writers:
            own = f".{uuid4().hex[:8]}"  # names hold seconds, and a file of the same is replaced
            folder = self.folder / entry.run.folder.name  # an id of a note may lead elsewhere
            make(folder)
            self.writers[entry.id] = EventsWriter(str(folder / "events"), own)
        return self.writers[entry.id]


class MLflow(Tracker):
    """An experiment with a run for each run: in a database, or where ``MLFLOW_TRACKING_URI`` names.

    Columns of the rounds are metrics, with the round as step and the simulated time as time after
    the start; settings are parameters.
    """

    def __init__(self, study: str, folder: Path, local: bool = False) -> None:
        super().__init__(study, folder, local)
        for name, value in _PATIENCE.items():  # otherwise an absent server takes minutes
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it reports each table that it makes
        given = None if local else os.environ.get("MLFLOW_TRACKING_URI")
        place = given or f"sqlite:///{(folder / _DATABASE).resolve()}"
        self.hint = f"see it by: mlflow ui --backend-store-uri {place}"
        self.client: Any = MlflowClient(tracking_uri=place)
        known = self.client.get_experiment_by_name(study)
        self.experiment = known.experiment_id if known else self.client.create_experiment(study)
        self.open: dict[str, Entry] = {}

    def begin(self, run: RunRecord, began: float) -> Entry:
        """Add a run, with its settings as parameters."""
        from mlflow.entities import Param

        tags = {"algorithm": run.name, "folder": str(run.folder)}
        made = self.client.create_run(
            self.experiment, round(1000 * began), tags=tags, run_name=run.folder.name
        )
        entry = Entry(run, began, made.info.run_id)
        for params in chunks(settings(run).items(), _MOST["params"]):
            parameters = [Param(key, value[:_LONGEST]) for key, value in params]
            self.client.log_batch(entry.id, params=parameters)
        self.open[entry.id] = entry
        return entry

    def add(self, entry: Entry, points: pd.DataFrame) -> None:
        """Add points as metrics; a run that another process has begun runs again."""
        from mlflow.entities import Metric

        if entry.id not in self.open:
            self.client.update_run(entry.id, status="RUNNING")
        self.open[entry.id] = entry
        metrics = (
            Metric(name, value, round(1000 * second), number)
            for name, number, second, value in _rows(points)
        )
        for some in chunks(metrics, _MOST["metrics"]):
            self.client.log_batch(entry.id, metrics=some)

    def end(self, entry: Entry) -> None:
        """Set the status of a run, and its end."""
        self._end(entry, entry.run.status)
        self.open.pop(entry.id, None)

    def close(self) -> None:
        """Set the status of runs that have not ended to KILLED."""
        while self.open:
            self._end(self.open.popitem()[1], "interrupted")

    def _end(self, entry: Entry, status: str) -> None:
        rounds = entry.run.rounds
        last = float(rounds["time_s"].iloc[-1]) if len(rounds) else 0.0
        state = _STATES.get(status, "KILLED")
        self.client.set_tag(entry.id, "status", status)
        self.client.set_terminated(entry.id, state, round(1000 * (entry.began + last)))


class WandB(Tracker):
    """A run for each run, in the project of the study's name.

    Columns of the rounds are logged by round, ``time_s`` among them; settings are the
    configuration. It is offline where that is wandb's mode, by ``WANDB_MODE`` or ``wandb offline``.
    """

    def __init__(self, study: str, folder: Path, local: bool = False) -> None:
        super().__init__(study, folder, local)
        self.logged: dict[str, Any] = {}
        self.hint = f"send it by: wandb sync {folder / 'wandb'}/offline-run-*"

    def begin(self, run: RunRecord, began: float) -> Entry:
        """Add a run, with its settings."""
        entry = Entry(run, began, uuid4().hex)
        self._logged(entry)
        return entry

    def restarts(self, entry: Entry) -> bool:
        """Remove the offline files of a run that another process has begun.

        A process that is killed leaves fewer rows in them than were sent, or more than it noted.
        """
        if entry.id in self.logged or self._mode != "offline":
            return False
        for folder in self.folder.glob(f"wandb/offline-run-*-{escape(entry.id)}"):
            rmtree(folder)
        return True

    def add(self, entry: Entry, points: pd.DataFrame) -> None:
        """Log points by round."""
        logged = self._logged(entry)
        for _, rows in points.groupby("round"):
            values = dict(zip(rows["name"], rows["value"], strict=True))
            logged.log(values, step=int(rows["round"].iloc[0]))

    def end(self, entry: Entry) -> None:
        """Finish a run."""
        self._logged(entry).finish(exit_code=_CODES.get(entry.run.status, _KILLED))
        del self.logged[entry.id]

    def close(self) -> None:
        """Finish all runs; one that continues later has the same id."""
        while self.logged:
            self.logged.popitem()[1].finish(exit_code=_KILLED)

    def _logged(self, entry: Entry) -> Any:
        """Return a run of wandb, which another process may have begun.

        Raises
        ------
        RayfedError
            If nobody is logged in: wandb would ask for a key in the terminal.
        """
        import wandb

        if entry.id not in self.logged:
            mode = self._mode
            if mode == "online" and not wandb.api.api_key:
                raise RayfedError("not logged in; run wandb login, or set WANDB_MODE=offline")
            quiet = wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, symlink=False
            )
            logged = wandb.init(
                id=entry.id, resume=None if mode == "offline" else "allow", reinit="create_new",
                mode=mode, dir=str(self.folder), project=self.study, group=entry.run.name,
                name=entry.run.folder.name, config=settings(entry.run), settings=quiet,
            )  # fmt: skip
            for path in Path(logged.dir).parent.rglob("*"):
                if path.is_symlink():  # to its log elsewhere; results with links are refused
                    path.unlink()
            self.logged[entry.id] = logged
        return self.logged[entry.id]

    @property
    def _mode(self) -> Any:
        import wandb

        return "offline" if self.local else self._mode_of(wandb.setup().settings)

    def _mode_of(self, found: Any) -> str:
        """Return wandb's mode; refuse its settings in the result folder, maybe somebody else's."""
        place = Path(found.settings_workspace).resolve()
        if place.is_file() and self.folder.parent.resolve() in place.parents:
            text = "names a server in a result folder; remove it, or run in another folder"
            raise RayfedError(f"{place}: {text}")
        return str(found.mode)


TRACKERS: dict[str, type[Tracker]] = {"mlflow": MLflow, "tensorboard": TensorBoard, "wandb": WandB}


def check_installed(name: str) -> None:
    """Check a tracker's libraries, without importing them.

    Raises
    ------
    ScenarioError
        If there is no such tracker.
    RayfedError
        If a library is missing.
    """
    if name not in TRACKERS:
        raise ScenarioError("--log", unknown("tracker", name, TRACKERS))
    missing = [library for library in _LIBRARIES[name] if find_spec(library) is None]
    if missing:
        text = f"needs {listed(missing)}; install with: {install(name)}"
        raise RayfedError(f"{name}: {text}")


def scalars(run: RunRecord, began: float, since: int = 0) -> pd.DataFrame:
    """Return the measurements of a run: every finite number of its rounds.

    Parameters
    ----------
    run : RunRecord
    began : float
        The time of its simulated second 0, in seconds since the epoch.
    since : int
        The first round.

    Returns
    -------
    DataFrame
        A row a number, those of a column together: ``name`` of the column, ``round``, ``seconds``
        and ``value``. Seconds are since the epoch, so that time since the start is simulated time.
    """
    if not len(run.rounds):  # of a damaged run
        return pd.DataFrame(columns=[*_POINT])
    rounds = run.rounds[run.rounds["round"] >= since]
    values = rounds.select_dtypes(["number", "bool"]).drop(columns=_KEYS, errors="ignore")
    when = {"round": rounds["round"], "seconds": began + rounds["time_s"]}
    long = values.astype(float).assign(**when).melt([*when], var_name="name")
    known: pd.DataFrame = long[np.isfinite(long["value"])]
    return known


def _rows(found: pd.DataFrame) -> Iterator[tuple[str, int, float, float]]:
    """Return `scalars` one by one, as plain values."""
    return zip(*(found[name].tolist() for name in _POINT), strict=True)


def settings(run: RunRecord) -> dict[str, str]:
    """Return all settings of a run by dotted key: of the scenario, the algorithm and the seed."""
    own = {f"algorithm.{key}": value for key, value in own_facts(run.info).items()}
    facts = {"label": run.label, "seed": run.seed} | own | scenario_facts(run.info)
    return {key: shown(value) for key, value in facts.items() if value is not None}


def started_s(run: RunRecord) -> float:
    """Return the start of a run, in seconds since the epoch; 0 if that is not recorded."""
    try:
        return datetime.fromisoformat(str(run.info.get("started"))).timestamp()
    except ValueError:
        return 0.0


def chunks(items: Iterable[_T], most: int) -> Iterator[list[_T]]:
    """Return items in lists of limited length.

    Examples
    --------
    >>> list(chunks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    left = iter(items)
    while chunk := list(islice(left, most)):
        yield chunk
