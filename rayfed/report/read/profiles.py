"""Profiles: where the wall-clock time of rounds went, as in ``profile.json``."""

from __future__ import annotations

import pandas as pd

from rayfed.core.files import read_json
from rayfed.report.read.results import Results, RunRecord

COMPUTING, MEAN_ACTOR = "computing", "mean actor"
TOTAL = "round"


def of_run(run: RunRecord) -> pd.Series | None:
    """Return the milliseconds that each step of a run's rounds took on average.

    Returns
    -------
    Series or None
        By step, in the order of a round, the whole `TOTAL` last. Where clients were in actors,
        `MEAN_ACTOR`, which is part of `COMPUTING`, follows it. None if the run was not profiled or
        began no round.
    """
    try:
        held = read_json(run.folder / "profile.json")
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
    known = {
        name: [found for run in results.usable(name) if (found := of_run(run)) is not None]
        for name in results.names
    }
    every = [found.index for runs in known.values() for found in runs]
    if not every:
        return pd.DataFrame()
    order = max(every, key=len).drop(TOTAL)  # not all runs need have had actors
    means = {name: pd.concat(runs, axis=1).mean(axis=1) for name, runs in known.items() if runs}
    return pd.DataFrame(means).reindex(order)
