"""Summaries of client activity with a size that does not grow with the length of a run.

Runs write two tables as they go: a row for each client, and the cells of heat maps of bands of
clients over the run. Readers take these and do not group events; of a folder without them they make
the same tables by `summarised`.
"""

from rayfed.core.summary.absence import Absence
from rayfed.core.summary.grid import BANDS, STATUS, STEPS, Ranking
from rayfed.core.summary.sums import CLOCKS, DENSITY, USAGE, Sums
from rayfed.core.summary.whole import NEEDED, Summary, network_of, pieces, summarised

__all__ = [
    "BANDS", "CLOCKS", "DENSITY", "NEEDED", "STATUS", "STEPS", "USAGE", "Absence", "Ranking",
    "Summary", "Sums", "network_of", "pieces", "summarised",
]  # fmt: skip
