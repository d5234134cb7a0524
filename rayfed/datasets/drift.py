"""Drift: changes of clients' rows from round to round, and their kinds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval, Len

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.episodes import Episodes
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import APART, FIXED_ROWS, LABELS, ONE_TARGET, ROUNDS, ROWS, Terms
from rayfed.core.shares import at_most
from rayfed.datasets.shards import Shards


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Base of all drifts.

    A drift has a level, which is 0 before round `at` and rises to 1 within `over` rounds: at once
    (sudden drift) or step by step (gradual drift). After round `end` it falls back to 0 within as
    many rounds, and `every` so many rounds it rises again. The level is the same for all clients
    that drift; what it does to their rows is up to the kind of drift. Training rows and held-out
    rows drift alike.

    Parameters
    ----------
    at : int
        First round with changed rows.
    over : int
        Rounds that the change takes; 1 for a sudden drift.
    end : int, optional
        Last round before the rows change back; they stay changed if None.
    every : int, optional
        Rounds from one beginning of the change to the next; it does not recur if None.
    recurs : int, optional
        Rounds from one beginning of a change to the next, there and back: short for ``end: at +
        recurs - 1`` and ``every: 2 recurs``.
    clients : float, list of int or str
        Which clients drift: a share of them, drawn from the seed; a list of their ids or names; or
        the name of one of ``clients.groups``.
    seed : int, optional
        Seed of the drift, in place of the run's seed.

    Raises
    ------
    ScenarioError
        If a change takes longer than the rounds up to the next one, an episode ends before it
        starts or recurs before it has ended, or a client is listed twice.
    """

    name: ClassVar[str]
    by_row: ClassVar[bool] = False
    """Whether rows have random words of their own, which `change` is given."""
    moves_sizes: ClassVar[bool] = False
    """Whether the number of rows of a client changes."""
    needs: ClassVar[Terms] = frozenset({ROWS, ONE_TARGET, ROUNDS, APART})
    removes: ClassVar[Terms] = frozenset({FIXED_ROWS})

    at: Annotated[int, Ge(1)] = 1
    over: Annotated[int, Ge(1)] = 1
    end: Annotated[int, Ge(1)] | None = None
    every: Annotated[int, Ge(2)] | None = None
    recurs: Annotated[int, Ge(1)] | None = None
    clients: (
        Annotated[float, Interval(ge=0, le=1)] | tuple[Annotated[int, Ge(0)] | str, ...] | str
    ) = 1.0
    seed: Annotated[int, Ge(0)] | None = None

    def __post_init__(self) -> None:
        if self.recurs is not None and self.recurs < self.over:
            text = f"found {self.recurs}, but a change takes {self.over} rounds; give at least that"
            raise ScenarioError("recurs", text)
        if self.recurs is not None and not (self.end is None and self.every is None):
            raise ScenarioError("recurs", "found end or every as well; leave recurs out")
        episodes = self.episodes
        if episodes.end is not None:
            length = episodes.end - episodes.start + 1
            calm = math.inf if episodes.every is None else episodes.every - length
            if self.over > min(length, calm):
                text = f"found {self.over}, but there are {min(length, calm)} rounds up to the next"
                raise ScenarioError("over", f"{text} change; give at most that")
        if isinstance(self.clients, tuple) and len(set(self.clients)) < len(self.clients):
            raise ScenarioError("clients", "lists a client twice; list each once")

    @property
    def episodes(self) -> Episodes:
        """The rounds from each beginning of the change to the last one before it is reversed."""
        if self.recurs is None:
            return Episodes(start=self.at, end=self.end, every=self.every)
        return Episodes(start=self.at, end=self.at + self.recurs - 1, every=2 * self.recurs)

    def level(self, round: int) -> float:
        """Return the progress of the change in a round, from 0 to 1.

        Examples
        --------
        >>> from rayfed.datasets import LabelsSwap
        >>> gradual = LabelsSwap(at=3, over=2, end=6, every=7)
        >>> [gradual.level(round) for round in range(2, 12)]
        [0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0, 0.5, 1.0]
        """
        episodes = self.episodes
        since = round - episodes.start
        if since < 0:
            return 0.0
        within = since if episodes.every is None else since % episodes.every
        if episodes.active(round):
            return min(within + 1, self.over) / self.over
        assert episodes.end is not None
        return 1.0 - min(within - (episodes.end - episodes.start), self.over) / self.over

    def check(self, shards: Shards) -> None:
        """Refuse rows that cannot drift so.

        Raises
        ------
        ScenarioError
            With the place of a setting.
        """
        return

    def sizes(self, sizes: Ints, level: float) -> Ints:
        """Return the number of available rows of drifting clients with n_i rows (K,) at a level."""
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


@dataclass(frozen=True, kw_only=True)
class Arriving(Drift):
    """Some rows of a client are present only from some round on.

    They arrive in an order that is drawn once for each client. At level 0 the share `first` of
    them is there, at level 1 all are; a client always has one row at least. What a client counts
    for by its size changes as well: its weight in F, in means and in draws.

    Parameters
    ----------
    first : float
        Share of the rows that is present from the start.

    Examples
    --------
    >>> Arriving(first=0.25).sizes(np.array([8, 2]), 0.5).tolist()
    [5, 1]
    """

    name: ClassVar[str] = "arriving"
    moves_sizes: ClassVar[bool] = True

    first: Annotated[float, Interval(ge=0, le=1)] = 0.0

    def sizes(self, sizes: Ints, level: float) -> Ints:
        """Return the number of available rows at a level; see `Drift.sizes`."""
        allowed = at_most(self.first + (1 - self.first) * level, sizes)
        most: Ints = np.maximum(allowed, np.minimum(sizes, 1))
        return most


Pair = Annotated[tuple[Annotated[int, Ge(0)], ...], Len(2, 2)]


@dataclass(frozen=True, kw_only=True)
class LabelsSwap(Drift):
    """Rows of one class get the label of another, and the other way round.

    The features stay, so the best prediction for them changes (real drift). A gradual change swaps
    the rows one by one, in an order that is drawn once.

    Parameters
    ----------
    pairs : list of pairs of int
        Classes that change places.

    Raises
    ------
    ScenarioError
        If a class is in two pairs, or in one twice.

    Examples
    --------
    >>> swap = LabelsSwap(pairs=((0, 2),))
    >>> swap.change(np.zeros((1, 3, 1)), np.array([[0, 1, 2]]), 1.0, (1,), None)[1].tolist()
    [[2, 1, 0]]
    """

    name: ClassVar[str] = "labels-swap"
    by_row: ClassVar[bool] = True
    needs: ClassVar[Terms] = Drift.needs | {LABELS}

    pairs: Annotated[tuple[Pair, ...], Len(1)] = ((0, 1),)

    def __post_init__(self) -> None:
        super().__post_init__()
        classes = [label for pair in self.pairs for label in pair]
        if len(set(classes)) < len(classes):
            raise ScenarioError("pairs", "has a class twice; put each in one pair")

    def check(self, shards: Shards) -> None:
        """Refuse classes that do not exist."""
        largest = max(label for pair in self.pairs for label in pair)
        if largest >= shards.classes:
            text = f"found class {largest}; the data has classes 0 to {shards.classes - 1}"
            raise ScenarioError("pairs", text)

    def change(
        self, X: Array, y: Array, level: float, shape: tuple[int, ...], u: Floats | None
    ) -> tuple[Array, Array]:
        """Return rows with the labels of a level; see `Drift.change`."""
        swapped = y
        for one, other in self.pairs:
            swapped = np.where(y == one, other, np.where(y == other, one, swapped))
        return X, np.where(_changed(y, level, u), swapped, y)


@dataclass(frozen=True, kw_only=True)
class Rotation(Drift):
    """Two features turn about the origin, from the first towards the second.

    A gradual change turns all rows step by step, by the level times the angle.

    Parameters
    ----------
    angle : float
        Degrees at level 1.
    plane : pair of int
        The two features, counted from 0.

    Raises
    ------
    ScenarioError
        If the plane has one feature twice.

    Examples
    --------
    >>> import numpy as np
    >>> X, _ = Rotation(angle=90).change(np.ones((1, 1, 2)), np.zeros((1, 1)), 1.0, (2,), None)
    >>> X.round(12).tolist()
    [[[-1.0, 1.0]]]
    """

    name: ClassVar[str] = "rotation"

    angle: float = 90.0
    plane: Annotated[tuple[Annotated[int, Ge(0)], ...], Len(2, 2)] = (0, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.plane[0] == self.plane[1]:
            raise ScenarioError("plane", f"found feature {self.plane[0]} twice; give two features")

    def check(self, shards: Shards) -> None:
        """Refuse features that do not exist."""
        count = math.prod(shards.shape)
        if max(self.plane) >= count:
            text = f"found feature {max(self.plane)}; the data has {count}, counted from 0"
            raise ScenarioError("plane", text)

    def change(
        self, X: Array, y: Array, level: float, shape: tuple[int, ...], u: Floats | None
    ) -> tuple[Array, Array]:
        """Return rows that are turned by the angle of a level; see `Drift.change`."""
        angle = math.radians(level * self.angle)
        cos, sin = math.cos(angle), math.sin(angle)
        i, j = self.plane
        turned = X.copy()
        turned[..., i] = cos * X[..., i] - sin * X[..., j]
        turned[..., j] = sin * X[..., i] + cos * X[..., j]
        return turned, y


@dataclass(frozen=True, kw_only=True)
class ImagesTurn(Drift):
    """Square images turn anticlockwise by quarters of a circle.

    A gradual change turns the images one by one, in an order that is drawn once.

    Parameters
    ----------
    quarters : int
        Quarters of a circle.

    Examples
    --------
    >>> image = np.array([[[1.0, 2.0, 3.0, 4.0]]])  # [[1, 2], [3, 4]]
    >>> ImagesTurn().change(image, np.zeros((1, 1)), 1.0, (1, 2, 2), None)[0].tolist()
    [[[2.0, 4.0, 1.0, 3.0]]]
    """

    name: ClassVar[str] = "images-turn"
    by_row: ClassVar[bool] = True

    quarters: Annotated[int, Interval(ge=1, le=3)] = 1

    def check(self, shards: Shards) -> None:
        """Refuse rows that are no square images."""
        if len(shards.shape) != 3 or shards.shape[1] != shards.shape[2]:
            text = f"found 'images-turn' and rows of shape {list(shards.shape)}"
            raise ScenarioError("name", f"{text}; only square images (C, H, W) turn")

    def change(
        self, X: Array, y: Array, level: float, shape: tuple[int, ...], u: Floats | None
    ) -> tuple[Array, Array]:
        """Return rows of which the fraction of a level has turned; see `Drift.change`."""
        pixels = math.prod(shape)
        images = X[..., :pixels].reshape(*X.shape[:2], *shape)
        turned = X.copy()
        turned[..., :pixels] = np.rot90(images, self.quarters, axes=(-2, -1)).reshape(
            *X.shape[:2], pixels
        )
        return np.where(_changed(y, level, u)[..., None], turned, X), y


def _changed(y: Array, level: float, u: Floats | None) -> Bools:
    """Return a mask (K, B) of changed rows at a level: those with u below it.

    Without u all have, or none at level 0.
    """
    if u is None:
        return np.full(y.shape, level > 0)
    return np.asarray(u < level)
