"""The clients of one run in the order of the figures: the fastest first."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.read import Run

COLUMNS = ("samples", "speed_s", "selected", "used", "loss", "accuracy")


def people(run: Run) -> pd.DataFrame:
    """Return a row a client that is known of, the fastest first.

    Returns
    -------
    DataFrame
        Indexed by client, with `COLUMNS` (NaN where not recorded). A client's speed is its
        seconds per step; where it is not recorded it is taken from the events.
    """
    frame = run.clients.set_index("client") if "client" in run.clients else _from_events(run)
    frame = frame.reindex(columns=list(COLUMNS)).astype(float)
    if frame["speed_s"].isna().all() and len(run.events):
        frame["speed_s"] = _speeds(run.events).reindex(frame.index)
    frame["order"] = frame["speed_s"].fillna(np.inf)
    return frame.sort_values(["order"], kind="stable").drop(columns="order")


def _from_events(run: Run) -> pd.DataFrame:
    if not len(run.events):
        return pd.DataFrame(columns=list(COLUMNS))
    asked = run.events.groupby("client")
    used = run.events["status"].astype(str).eq("used").groupby(run.events["client"]).sum()
    return pd.DataFrame({"selected": asked["round"].nunique(), "used": used})


def _speeds(events: pd.DataFrame) -> pd.Series:
    seconds = events["compute_s"] / events["steps"].clip(lower=1)
    return seconds.groupby(events["client"]).mean()
