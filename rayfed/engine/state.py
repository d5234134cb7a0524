"""What a run is between two rounds, and what a round costs while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.columns import names
from rayfed.engine import columns
from rayfed.engine.stopping import Last
from rayfed.messages import Reply

Row = dict[str, Any]
Events = dict[str, Array]

COUNTS = names(columns.COUNTS)
STATUS = ("used", "late", "dropped")


@dataclass(frozen=True)
class RunState:
    """Everything that a run is between two rounds, apart from the clients' own state.

    Parameters
    ----------
    round : int
        The last round that was run.
    time_s : float
        Virtual clock.
    state, selection, lengths : mapping of str to array
        The server's state, the selection's, and that of local work whose length changes.
    window : tuple of (p,) arrays
        The last iterates, for ``evaluate_last``; the newest last.
    last : Last
        What the next evaluated row is compared with.
    examined : mapping of str to array
        The state of the run's examiner.
    own : mapping of str to (K,) array
        What the newest evaluation told of every client's own model; empty where none are kept.
    """

    round: int
    time_s: float
    state: Mapping[str, Array]
    selection: Mapping[str, Array]
    lengths: Mapping[str, Array]
    window: tuple[Array, ...]
    last: Last = Last()
    examined: Mapping[str, Array] = field(default_factory=dict)
    own: Mapping[str, Array] = field(default_factory=dict)

    @property
    def model(self) -> Array:
        """The model that is evaluated: the mean of the window."""
        if len(self.window) == 1:
            return self.window[0]
        mean: Array = np.mean(np.stack(self.window), axis=0, dtype=self.window[0].dtype)
        return mean


@dataclass
class RoundStats:
    """What a round costs, counted while it runs."""

    time_s: float
    start_s: float
    lengths: Mapping[str, Array] = field(default_factory=dict)
    ask: int = 0
    heard: list[Reply] = field(default_factory=list)
    """Replies that the selection and the lengths of local work learn from."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    events: list[Events] = field(default_factory=list)


def at(moment: RunState) -> str:
    """Return when the model of a moment is evaluated, for messages."""
    return f"evaluation of round {moment.round}, time {moment.time_s:.6g} s"
