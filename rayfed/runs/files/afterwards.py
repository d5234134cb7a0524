"""Files written after a run, by the process that submitted the study and has the data.

The fit shows predictions of the final model on some of the rows that it is scored on; the labels
are those that clients hold. A simulated server could not see these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rayfed.core.announced import read_table
from rayfed.core.arrays import Array
from rayfed.core.entries import Entry, described
from rayfed.core.files import read_arrays
from rayfed.core.needs import MODEL, ROWS
from rayfed.core.parquet import read, values
from rayfed.core.rng import Key
from rayfed.core.run_state import read_record
from rayfed.datasets.shards import label_counts
from rayfed.engine.run import Run
from rayfed.runs.files.run_json import log, status
from rayfed.runs.files.store import publish_npz

MOST_ROWS = 2000
"""At most so many rows are in a picture."""
MOST_CLIENTS = 1000
"""The labels of at most so many clients are counted, those with the lowest ids."""

Made: TypeAlias = Mapping[str, Array] | None
"""Arrays for a file by name; None where a run has nothing to show."""


def complete(run: Run, tables: Mapping[str, Any], folder: Path) -> None:
    """Write the files that the record of a finished run does not list yet, and list them.

    What cannot be made is a line in the run's log and never the end of a study.

    Parameters
    ----------
    run : Run
    tables : mapping of str to Rows
        The tables that its views lack.
    folder : Path
        Of the run.
    """
    held = read_record(folder)
    files = held.get("files") or {}
    made = [name for name in _MADE if name not in files and _write(name, run, tables, folder)]
    if made:
        fresh = described({name: Entry.of(folder / name) for name in made})
        with suppress(OSError):  # the disk is full: a resume makes them again
            status(folder, {**held, "files": {**files, **fresh}})


def _write(name: str, run: Run, tables: Mapping[str, Any], folder: Path) -> bool:
    """Write one of the files, and return whether it was written."""
    make, failed = _MADE[name]
    try:
        arrays = make(run, tables, folder)
        if arrays is not None:
            publish_npz(folder / name, arrays)
        return arrays is not None
    except Exception as error:
        with suppress(OSError):  # the disk may be full
            log(folder, f"{failed}: {type(error).__name__}: {error}")
    return False


def fit(run: Run, tables: Mapping[str, Any], folder: Path) -> Made:
    """Return the picture of a model that a problem has; without a global model or rows, none."""
    if MODEL not in run.training.algorithm.gives or ROWS not in run.training.problem.gives:
        return None
    x = read_arrays(folder / "model.npz", results=True)["x"]
    rows = some_rows(run, tables, _last_round(folder))
    picture = None if rows is None else run.training.problem.picture(x, *rows)
    return None if picture is None else picture.arrays()


def labels(run: Run, tables: Mapping[str, Any], folder: Path) -> Made:
    """Return the labels of participants, where targets are labels.

    ``clients`` (K,) and ``counts`` (K, classes) of their training rows, as they are at the end. A
    run that puts all rows in one place has no clients to tell of.
    """
    view = run.federation.views.evaluation
    if not view.shards.classes or run.training.algorithm.centralised:
        return None
    ids = values(read(folder / "clients.parquet", ["client"]), "client")[:MOST_CLIENTS]
    shards = view.with_table(tables).shards.at(_last_round(folder))
    if not len(ids):
        return None
    return {"clients": ids, "counts": label_counts(shards, ids).astype(np.int32)}


_MADE: dict[str, tuple[Callable[[Run, Mapping[str, Any], Path], Made], str]] = {
    "fit.npz": (fit, "the fit could not be drawn"),
    "labels.npz": (labels, "the labels could not be counted"),
}
"""By file what makes it, and what the log says where that fails."""


def _last_round(folder: Path) -> int:
    """Return the number of the last round of a run that has ended."""
    rounds = read_table(folder, "rounds", read_record(folder), ["round"])
    assert rounds is not None
    return int(values(rounds, "round")[-1])


def some_rows(run: Run, tables: Mapping[str, Any], round: int = 0) -> tuple[Array, Array] | None:
    """Return at most `MOST_ROWS` of the rows that accuracy is measured on, X (n, d) and y (n,).

    Which rows depends on the seed and the data alone, so that all algorithms show the same. They
    are as they are in a round, where rows change. None if those who are evaluated hold none.
    """
    part = "train" if run.measuring.scored == "training" else "test"
    views, ids = run.federation.views, run.measuring.evaluated
    view = views.evaluation
    if views.server is not None:
        view, ids = views.server, np.arange(views.server.shards.clients)
    shards = view.with_table(tables).shards.at(round)
    ends = np.cumsum(shards.sizes(ids, part))
    total = int(ends[-1])
    if not total:
        return None
    order = Key(run.seed, "fit").permutation(total)
    chosen = np.sort(order(np.arange(min(MOST_ROWS, total))))
    owners = np.searchsorted(ends, chosen, side="right")
    rows = [_of_client(shards, int(ids[i]), part, chosen[owners == i] - ends[i])
            for i in np.unique(owners)]  # fmt: skip
    return np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows])


def _of_client(shards: Any, client: int, part: str, index: Array) -> tuple[Array, Array]:
    """Return some rows of one client, counted from its last."""
    ids = np.array([client])
    X, y = shards.rows(ids, int(shards.sizes(ids, part)[0]), part)
    return X[0, index], y[0, index]
