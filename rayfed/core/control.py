"""Rules of a declared controller: conditions on rows, and the settings that they change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Len

from rayfed.core.episodes import Episodes
from rayfed.core.errors import ScenarioError


@dataclass(frozen=True, kw_only=True)
class ControlRule(Episodes):
    """Change of settings after rounds in which a column is above or below a number.

    A rule may look at the rows of episodes alone (`rayfed.core.episodes.Episodes`): with ``start:
    20`` not at the first ones, in which every loss is large. Rules are applied in their order after
    each round, from which the next round has its settings. Settings stay until a rule gives them
    another value.

    Parameters
    ----------
    column : str
        A column of ``rounds``.
    above, below : float, optional
        The bound that the column exceeds, or is below; one of both.
    rounds : int
        Rows in a row that meet the condition. Rows without a value, such as those between two
        evaluations, do not count.
    set : mapping
        Values for ``cohort``, ``deadline_s``, ``lr``, ``aggregate`` and ``uplink``, as for
        ``change`` of `rayfed.iteration.Row`.

    Raises
    ------
    ScenarioError
        If there is not one bound, or for wrong episodes.
    """

    column: Annotated[str, Len(1)]
    above: float | None = None
    below: float | None = None
    rounds: Annotated[int, Ge(1)] = 1
    set: Annotated[Mapping[str, Any], Len(1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.above is None) == (self.below is None):
            raise ScenarioError("", "give one of above and below")

    def met(self, row: Mapping[str, Any]) -> bool | None:
        """Return whether a row meets the condition; None if it has no value.

        Examples
        --------
        >>> rule = ControlRule(start=2, column="loss", above=0.5, set={"cohort": 4})
        >>> rows = [{"round": r, "loss": loss} for r, loss in enumerate((9, 9, 0.6, 0.5, math.nan))]
        >>> [rule.met(row) for row in rows]
        [False, False, True, False, None]
        """
        if not self.active(row["round"]):
            return False
        value = float(row[self.column])
        if math.isnan(value):
            return None
        above = math.inf if self.above is None else self.above
        below = -math.inf if self.below is None else self.below
        return value > above or value < below
