"""Episodes: rounds in which a setting holds, which may recur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Bools
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Draw


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Settings that hold in some rounds alone.

    Parameters
    ----------
    start : int
        The first round, from 1.
    end : int, optional
        The last round; none if None.
    every : int, optional
        Rounds from one start to the next; an episode does not recur if None.

    Raises
    ------
    ScenarioError
        If an episode ends before it starts, or recurs before it has ended.
    """

    start: Annotated[int, Ge(1)] = 1
    end: Annotated[int, Ge(1)] | None = None
    every: Annotated[int, Ge(2)] | None = None

    def __post_init__(self) -> None:
        if self.end is not None and self.end < self.start:
            text = f"found {self.end}, before start, {self.start}; give a later round"
            raise ScenarioError("end", text)
        if self.every is not None and (self.end is None or self.every <= self.end - self.start + 1):
            lasts = "for good" if self.end is None else f"for {self.end - self.start + 1} rounds"
            text = f"found {self.every}, but the episode lasts {lasts}"
            raise ScenarioError("every", f"{text}; give an earlier end, or leave every out")

    @property
    def episodic(self) -> bool:
        """Whether the settings do not hold in some round."""
        return self.start > 1 or self.end is not None

    def active(self, round: Draw) -> Bools:
        """Return whether the settings hold in a round, or a mask (K,) for rounds (K,).

        Examples
        --------
        >>> Episodes(start=3, end=4, every=5).active(np.arange(1, 11)).tolist()
        [False, False, True, True, False, False, False, True, True, False]
        """
        since = np.asarray(round) - self.start
        within = since if self.every is None else since % self.every
        ends = self.end is None or within <= self.end - self.start
        return np.asarray((since >= 0) & ends)
