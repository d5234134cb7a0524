"""The clients of one run in the order of the figures: the fastest first."""

from __future__ import annotations

import numpy as np
import pandas as pd

COLUMNS = ("samples", "speed_s", "selected", "used", "loss", "accuracy")
_SEEN = ["rounds", "used", "step_s"]


def by_speed(clients: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Return a row a client that is known of, the fastest first.

    Stragglers come after all others, then the order is that of the recorded seconds per step, and
    among equals that of the seconds per step that were seen.

    Parameters
    ----------
    clients : DataFrame
        Table of the run.
    asked : DataFrame
        `Usage.asked`.

    Returns
    -------
    DataFrame
        Indexed by client, with `COLUMNS` (NaN where not recorded; ``speed_s`` is then what was
        seen).
    """
    seen = asked.set_index("client") if len(asked) else pd.DataFrame(columns=_SEEN)
    counts = seen.rename(columns={"rounds": "selected"})
    known = clients.set_index("client") if "client" in clients else counts
    frame = known.reindex(columns=list(COLUMNS)).astype(float)
    paces = seen["step_s"].reindex(frame.index).astype(float)
    if frame["speed_s"].isna().all():
        frame["speed_s"] = paces
    slow = known["straggler"].to_numpy(bool) if "straggler" in known else np.zeros(len(frame))
    last = np.inf  # a speed that is not known
    order = np.lexsort((paces.fillna(last), frame["speed_s"].fillna(last), slow))
    return frame.iloc[order]
