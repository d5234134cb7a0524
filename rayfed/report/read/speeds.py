"""The clients of one run in the order of the figures: the fastest first."""

from __future__ import annotations

import numpy as np
import pandas as pd

COLUMNS = ("samples", "speed_s", "selected", "used", "loss", "accuracy")


def by_speed(clients: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """Return a row a client that is known of, the fastest first.

    Stragglers come after all others, then the order is that of the recorded seconds per step, and
    among equals that of the seconds per step seen in the events.

    Parameters
    ----------
    clients, events : DataFrame
        Tables of the run.

    Returns
    -------
    DataFrame
        Indexed by client, with `COLUMNS` (NaN where not recorded; ``speed_s`` is then taken from
        the events).
    """
    known = clients.set_index("client") if "client" in clients else _from_events(events)
    frame = known.reindex(columns=list(COLUMNS)).astype(float)
    seen = _speeds(events).reindex(frame.index) if len(events) else frame["speed_s"]
    if frame["speed_s"].isna().all():
        frame["speed_s"] = seen
    slow = known["straggler"].to_numpy(bool) if "straggler" in known else np.zeros(len(frame))
    last = np.inf  # a speed that is not known
    order = np.lexsort((seen.fillna(last), frame["speed_s"].fillna(last), slow))
    return frame.iloc[order]


def _from_events(events: pd.DataFrame) -> pd.DataFrame:
    if not len(events):
        return pd.DataFrame(columns=list(COLUMNS))
    asked = events.groupby("client")
    used = events["status"].astype(str).eq("used").groupby(events["client"]).sum()
    return pd.DataFrame({"selected": asked["round"].nunique(), "used": used})


def _speeds(events: pd.DataFrame) -> pd.Series:
    seconds = events["compute_s"] / events["steps"].clip(lower=1)
    return seconds.groupby(events["client"]).mean()
