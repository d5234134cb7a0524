"""Tables of clients in the order of the figures."""

from __future__ import annotations

import numpy as np
import pandas as pd


def tenths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the sums over ten bands of a table's rows, which hold as many rows as possible each.

    Examples
    --------
    >>> tenths(pd.DataFrame({"a": [1] * 25}))["a"].tolist()
    [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    """
    band = np.arange(len(frame)) * 10 // len(frame)
    return frame.groupby(band).sum(min_count=1)
