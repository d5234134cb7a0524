"""The fit: predictions of a run's final model on some of the rows that it is scored on.

It is computed after the run, by the process that submitted the study and has the data: a simulated
server could not see these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rayfed.core.announced import read_table
from rayfed.core.arrays import Array
from rayfed.core.parquet import values
from rayfed.core.rng import Key
from rayfed.engine.run import Run
from rayfed.runs.files.outcome import record
from rayfed.runs.files.records import log
from rayfed.runs.files.store import publish_npz

FIT = "fit.npz"
MOST = 2000
"""At most so many rows are in a picture."""


def draw(run: Run, tables: Mapping[str, Any], folder: Path) -> bool:
    """Write ``fit.npz`` beside ``model.npz``, where the problem has a picture; return whether.

    A picture that fails is a line in the run's log and never the end of a study.

    Parameters
    ----------
    run : Run
        A finished run; one without a global model has none to draw.
    tables : mapping of str to Rows
        The tables that its views lack.
    folder : Path
        Of the run.
    """
    if not run.training.algorithm.has_global:
        return False
    try:
        with np.load(folder / "model.npz", allow_pickle=False) as arrays:
            x = arrays["x"]
        rows = some_rows(run, tables, last_round(folder))
        picture = None if rows is None else run.training.problem.picture(x, *rows)
        if picture is not None:
            publish_npz(folder / FIT, picture.arrays())
        return picture is not None
    except Exception as error:
        with suppress(OSError):  # the disk may be full
            log(folder, f"the fit could not be drawn: {type(error).__name__}: {error}")
    return False


def last_round(folder: Path) -> int:
    """Return the number of the last round of a run that has ended."""
    rounds = read_table(folder, "rounds", record(folder), ["round"])
    assert rounds is not None
    return int(values(rounds, "round")[-1])


def some_rows(run: Run, tables: Mapping[str, Any], round: int = 0) -> tuple[Array, Array] | None:
    """Return at most `MOST` of the rows that accuracy is measured on, X (n, d) and y (n,).

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
    chosen = np.sort(order(np.arange(min(MOST, total))))
    owners = np.searchsorted(ends, chosen, side="right")
    rows = [_of_client(shards, int(ids[i]), part, chosen[owners == i] - ends[i])
            for i in np.unique(owners)]  # fmt: skip
    return np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows])


def _of_client(shards: Any, client: int, part: str, index: Array) -> tuple[Array, Array]:
    """Return some rows of one client, counted from its last."""
    ids = np.array([client])
    X, y = shards.rows(ids, int(shards.sizes(ids, part)[0]), part)
    return X[0, index], y[0, index]
