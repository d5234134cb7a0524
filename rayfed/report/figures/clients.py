"""What figures of clients share: their order by speed, and words for what they do."""

from __future__ import annotations

import numpy as np
import pandas as pd

MOST_DOTS = 200  # clients beyond this are taken together
TENTHS = [str(k) for k in range(1, 11)]
WORDS = {
    "computing": "computing",
    "communicating": "communicating",
    "finished": "waiting for the round to end",
    "idle": "not asked",
    "away": "away",
}


def tenths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the sums over ten bands of a table's rows, which hold as many rows as possible each.

    Examples
    --------
    >>> tenths(pd.DataFrame({"a": [1] * 25}))["a"].tolist()
    [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    """
    band = np.arange(len(frame)) * 10 // len(frame)
    return frame.groupby(band).sum(min_count=1)


def fifth(number: int) -> int:
    """Return how many clients are the slowest fifth: at least one."""
    return max(1, round(number / 5))
