"""Values by part: drift by layer, accuracy by class, labels by client, time by step of a round."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rayfed.core.files import read_json
from rayfed.report.read.results import Results, RunRecord

LAYER_DRIFT = "layer_drift."
"""What the names of columns of ``rounds`` begin with that hold the drift of a layer."""
COMPUTING, MEAN_ACTOR = "computing", "mean actor"
TOTAL = "round"


def layers(results: Results) -> pd.DataFrame:
    """Return the last recorded drift of each layer, mean over seeds.

    Returns
    -------
    DataFrame
        Indexed by layer in the order of the model, one column per algorithm that has any.
    """
    return results.means(_last)


def _last(run: RunRecord) -> pd.Series | None:
    """Return the last row of a run with any drift, by layer; None if there is none."""
    frame = run.rounds.filter(regex=f"^{LAYER_DRIFT}".replace(".", r"\."))
    frame = frame.rename(columns=lambda column: str(column).removeprefix(LAYER_DRIFT))
    recorded = frame.dropna(how="all")
    return recorded.iloc[-1] if len(recorded) else None


def classes(results: Results) -> pd.DataFrame:
    """Return the share of each class that final models put into it, mean over seeds.

    Returns
    -------
    DataFrame
        Indexed by the name of the class, one column per algorithm with a picture of its classes;
        NaN for a class that has no drawn rows.
    """
    return results.means(_of_classes)


def _of_classes(run: RunRecord) -> pd.Series | None:
    """Return the share of each class that a run's final model puts into it, if it has classes."""
    if run.fit is None or run.fit.kind != "classes":
        return None
    counts = run.fit.counts
    rows = counts.sum(axis=1)
    shares = np.divide(np.diag(counts), rows, out=np.full(len(rows), np.nan), where=rows > 0)
    return pd.Series(shares, index=class_names(run, len(rows)))


def class_names(run: RunRecord, number: int) -> list[str]:
    """Return the names of a run's classes in the data, or their numbers."""
    named = [str(label) for label in run.info.get("classes") or ()]
    return named if len(named) == number else [str(k) for k in range(number)]


def labels(run: RunRecord) -> pd.DataFrame:
    """Return the training rows of each client and class, from ``labels.npz``.

    Returns
    -------
    DataFrame
        Indexed by client, one column per class; empty if the run has none.
    """
    if run.held is None:
        return pd.DataFrame()
    names = class_names(run, run.held.counts.shape[1])
    return pd.DataFrame(run.held.counts, index=run.held.clients, columns=names)


def profile_of(run: RunRecord) -> pd.Series | None:
    """Return the milliseconds that each step of a run's rounds took on average.

    Returns
    -------
    Series or None
        By step, in the order of a round, the whole `TOTAL` last. Where clients were in actors,
        `MEAN_ACTOR`, which is part of `COMPUTING`, follows it. None if the run was not profiled or
        began no round.
    """
    try:
        held = read_json(run.folder / "profile.json", results=True)
        rounds, seconds = int(held["rounds"]), pd.Series(held["seconds"], dtype=float)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not rounds:
        return None
    total = seconds.sum()
    if "computing_mean_actor" in held:
        place = list(seconds.index).index(COMPUTING) + 1
        mean = pd.Series({MEAN_ACTOR: float(held["computing_mean_actor"])})
        seconds = pd.concat([seconds.iloc[:place], mean, seconds.iloc[place:]])
    seconds[TOTAL] = total
    return 1e3 * seconds / rounds


def steps(results: Results) -> pd.DataFrame:
    """Return the milliseconds that each step of a round took, mean over seeds.

    Returns
    -------
    DataFrame
        Indexed by step, in the order of a round, one column per algorithm that was profiled. The
        whole is not among the steps.
    """
    found = {run.folder: profile_of(run) for run in results.runs_found}
    every = (known.index.drop(TOTAL) for known in found.values() if known is not None)
    order = max(every, key=len, default=pd.Index([]))  # not all runs need have had actors
    return results.means(lambda run: found[run.folder]).reindex(order)
