"""Nodes that come and go, for plain programs that compare a run event by event."""

from __future__ import annotations

import math
from pathlib import Path


class Presence:
    """Times at which nodes are available, and what becomes of their tasks.

    Parameters
    ----------
    intervals : list of list of (float, float)
        Start and end of the stays of each node, ascending.
    resume : bool
        Whether a node that is back goes on with its task.
    """

    def __init__(self, intervals: list[list[tuple[float, float]]], *, resume: bool = False) -> None:
        self.intervals, self.resume = intervals, resume

    def trace(self, file: Path) -> dict[str, str]:
        """Write the intervals to a file, and return the availability of a scenario."""
        rows = [f"{i},{start!r},{min(end, 1e7)!r}" for i, each in enumerate(self.intervals)
                for start, end in each]  # fmt: skip
        file.write_text("\n".join(["client,start_s,end_s", *rows]))
        return {"name": "trace", "file": str(file)}

    def there(self, i: int, now: float) -> bool:
        return any(start <= now < end for start, end in self.intervals[i])

    def back_s(self, i: int, now: float) -> float:
        """Return when a node is there, from a time on; inf if never."""
        later = [max(start, now) for start, end in self.intervals[i] if end > now]
        return min(later, default=math.inf)

    def over(
        self, i: int, start_s: float, seconds: float, share: float = math.inf
    ) -> tuple[float, bool]:
        """Return when a task that begins is over, and whether it is lost.

        The connection breaks after a share of the task.
        """
        now, left, gone_s = start_s, seconds, math.inf
        while True:
            leaves_s = next(end for start, end in self.intervals[i] if start <= now < end)
            if now + left <= leaves_s:
                break
            if not self.resume or math.isinf(self.back_s(i, leaves_s)):
                gone_s = leaves_s
                break
            left -= leaves_s - now
            now = self.back_s(i, leaves_s)
        end_s = now + left
        if math.isfinite(share):
            gone_s = min(gone_s, start_s + share * (end_s - start_s))
        return min(end_s, gone_s), gone_s < end_s
