"""Base class of drifts: the rows of some clients as a function of the round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.datasets.shards import Shards


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Base of all drifts.

    A drift has a level, which is 0 before round `at` and rises to 1 within `over` rounds: at once
    (sudden drift) or step by step (gradual drift). With `recurs` it falls back to 0 after so many
    rounds, rises again after so many more, and so on. The level is the same for all clients that
    drift; what it does to their rows is up to the kind of drift. Training rows and held-out rows
    drift alike.

    Parameters
    ----------
    at : int
        First round with changed rows.
    over : int
        Rounds that the change takes; 1 for a sudden drift.
    recurs : int, optional
        Rounds from one beginning of a change to the next, there and back; it stays if None.
    clients : float, list of int or str
        Which clients drift: a share of them, drawn from the seed; a list of their ids or names; or
        the name of one of ``clients.groups``.
    seed : int, optional
        Seed of the drift, in place of the run's seed.

    Raises
    ------
    ScenarioError
        If a change takes longer than `recurs`, or a client is listed twice.
    """

    name: ClassVar[str]
    by_row: ClassVar[bool] = False
    """Whether rows are told apart by random words of their own, which `change` is given."""
    moves_sizes: ClassVar[bool] = False
    """Whether the number of rows of a client changes."""

    at: Annotated[int, Ge(1)] = 1
    over: Annotated[int, Ge(1)] = 1
    recurs: Annotated[int, Ge(1)] | None = None
    clients: (
        Annotated[float, Interval(ge=0, le=1)] | tuple[Annotated[int, Ge(0)] | str, ...] | str
    ) = 1.0
    seed: Annotated[int, Ge(0)] | None = None

    def __post_init__(self) -> None:
        if self.recurs is not None and self.recurs < self.over:
            text = f"found {self.recurs}, but a change takes {self.over} rounds; give at least that"
            raise ScenarioError("recurs", text)
        if isinstance(self.clients, tuple) and len(set(self.clients)) < len(self.clients):
            raise ScenarioError("clients", "lists a client twice; list each once")

    def level(self, round: int) -> float:
        """Return how far the change has gone in a round, from 0 to 1.

        Examples
        --------
        >>> from rayfed.drifts import LabelsSwap
        >>> gradual = LabelsSwap(at=3, over=2, recurs=3)
        >>> [gradual.level(round) for round in range(10)]
        [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 0.5, 0.0, 0.0, 0.5]
        """
        since = round - self.at
        if since < 0:
            return 0.0
        back = False
        if self.recurs is not None:
            changes, since = divmod(since, self.recurs)
            back = changes % 2 == 1
        risen = min(since + 1, self.over) / self.over
        return 1.0 - risen if back else risen

    def check(self, shards: Shards) -> None:
        """Refuse rows that cannot drift so.

        Raises
        ------
        ScenarioError
            With the place of a setting.
        """
        return

    def sizes(self, sizes: Ints, level: float) -> Ints:
        """Return how many of the n_i rows (K,) of drifting clients are there at a level."""
        return sizes

    def change(
        self, X: Array, y: Array, level: float, shape: tuple[int, ...], u: Floats | None
    ) -> tuple[Array, Array]:
        """Return rows of drifting clients as they are at a level.

        Parameters
        ----------
        X : (K, B, d) array
            Features, the column of ones included if there is one; not written to.
        y : (K, B) array
            Targets; not written to.
        level : float
            From 0 to 1.
        shape : tuple of int
            Shape of the features of a row, the column of ones excluded.
        u : (K, B) array of float, or None
            A number from (0, 1) of each row, the same in all rounds, where the drift is `by_row`
            and the level is neither 0 nor 1.
        """
        return X, y
