"""The summary of a run as frames: what the run has written, or the same made from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rayfed.core.summary import CLOCKS, NEEDED, STATUS, Summary, summarised

FILES = ("usage.parquet", "density.parquet")
"""The tables of a summary, in a run's folder."""


class Summed(NamedTuple):
    """What clients did.

    Parameters
    ----------
    usage : DataFrame
        A row for each client; see ``USAGE`` in `rayfed.engine.columns`.
    density : DataFrame
        A row for each cell of the heat maps; see ``DENSITY`` there.
    """

    usage: pd.DataFrame
    density: pd.DataFrame


def summed(
    rounds: pd.DataFrame,
    events: pd.DataFrame,
    clients: pd.DataFrame,
    away: pd.DataFrame | None = None,
    network: Mapping[str, Any] | None = None,
) -> Summed | None:
    """Return the summary of a run from its tables; None if there are no rounds or no events.

    Parameters are those of `rayfed.core.summary.summarised`, as frames.
    """
    if not len(events) or "time_s" not in rounds:
        return None
    tables = {"rounds": rounds, "events": events, "clients": clients}
    arrays = {
        name: {c: frame[c].to_numpy() for c in NEEDED[name] if c in frame}
        for name, frame in tables.items()
    }
    texts = events["status"].astype(str)
    arrays["events"]["status"] = texts.map({text: k for k, text in enumerate(STATUS)}).to_numpy()
    gone = None if away is None else {c: away[c].to_numpy() for c in NEEDED["away"]}
    found = summarised(arrays["rounds"], arrays["events"], arrays["clients"], gone, network)
    return _framed(found)


def _framed(found: Summary) -> Summed:
    clocks = np.array(CLOCKS, dtype=object)[found.density["clock"]]
    return Summed(pd.DataFrame(found.usage), pd.DataFrame({**found.density, "clock": clocks}))
