"""Nodes that come and go, for plain programs that compare a run event by event."""

import math


class Presence:
    """Times at which nodes are available, and what becomes of their tasks.

    Parameters
    ----------
    intervals : list of list of (float, float)
        Start and end of the stays of each node, ascending.
    resume : bool
        Whether a node that is back goes on with its task.
    """

    def __init__(self, intervals, *, resume=False):
        self.intervals, self.resume = intervals, resume

    def trace(self, file):
        """Write the intervals to a file, and return the availability of a scenario."""
        rows = [f"{i},{start!r},{min(end, 1e7)!r}" for i, each in enumerate(self.intervals)
                for start, end in each]  # fmt: skip
        file.write_text("\n".join(["client,start_s,end_s", *rows]))
        return {"name": "trace", "file": str(file)}

    def there(self, i, now):
        return any(start <= now < end for start, end in self.intervals[i])

    def back_s(self, i, now):
        """Return when a node is there, from a time on; inf if never."""
        later = [max(start, now) for start, end in self.intervals[i] if end > now]
        return min(later, default=math.inf)

    def over(self, i, start_s, seconds, share=math.inf):
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
