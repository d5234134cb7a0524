"""The labels that clients hold, counted for the page.

They are counted after the run, by the process that submitted the study and has the data: a
simulated server could not see these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from rayfed.core.arrays import Ints
from rayfed.datasets.shards import label_counts
from rayfed.engine.run import Run
from rayfed.runs.files.fit import last_round
from rayfed.runs.files.records import log
from rayfed.runs.files.store import publish_npz

LABELS = "labels.npz"
MOST = 1000
"""The labels of at most so many clients are counted, those with the lowest ids."""


def count(run: Run, tables: Mapping[str, Any], folder: Path) -> bool:
    """Write ``labels.npz`` where targets are labels, of who took part; return whether it was.

    It holds ``clients`` (K,) and ``counts`` (K, classes) of their training rows, as they are at the
    end. What cannot be counted is a line in the run's log and never the end of a study.

    Parameters
    ----------
    run : Run
        A finished run; one that puts all rows in one place has no clients to tell of.
    tables : mapping of str to Rows
        The tables that its views lack.
    folder : Path
        Of the run.
    """
    view = run.federation.views.evaluation
    if not view.shards.classes or run.training.algorithm.centralised:
        return False
    try:
        ids = _clients(folder)
        shards = view.with_table(tables).shards.at(last_round(folder))
        if len(ids):
            counts = label_counts(shards, ids).astype(np.int32)
            publish_npz(folder / LABELS, {"clients": ids, "counts": counts})
        return len(ids) > 0
    except Exception as error:
        with suppress(OSError):  # the disk may be full
            log(folder, f"the labels could not be counted: {type(error).__name__}: {error}")
    return False


def _clients(folder: Path) -> Ints:
    """Return the ids of the clients that took part, the first of them (K,)."""
    table = pq.read_table(folder / "clients.parquet", columns=["client"])
    return np.asarray(table["client"].to_numpy()[:MOST], dtype=np.int64)
