"""Numbers of local steps: from seconds or passes over the rows, and those that change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Interval

from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Draw, Key

State: TypeAlias = Mapping[str, npt.NDArray[Any]]
_MOST = 2.0**62  # limit of int64
STEP_SETTINGS = ("steps", "epochs", "time_s")
_SLACK = 1e-9  # 1.1 passes of 50 batches are 55 steps, though 1.1 * 50 > 55 in floating point


@dataclass(frozen=True, kw_only=True)
class StepCount:
    """Base of numbers of local steps that change: a whole number for every client and round.

    Attributes
    ----------
    listens : bool
        `learn` is given the mean loss of the participants' local steps. Every upload after local
        steps is one number longer.
    """

    name: ClassVar[str]
    listens: ClassVar[bool] = False

    def init(self) -> State:
        """Return the state before the first round."""
        return {}

    def draw(self, ids: Ints, *, seed: int, draw: Draw, state: State | None = None) -> Ints:
        """Return the numbers (K,) of clients in a round, at least 1; each depends on its id alone.

        Parameters
        ----------
        ids : (K,) array of int
        seed : int
        draw : int or (K,) array of int
            Coordinates of keyed draws: `draw` is the round.
        state : mapping of str to array, optional
            The state; that before the first round if None.
        """
        raise NotImplementedError

    def learn(self, state: State, loss: float, *, round: int, time_s: float) -> State:
        """Return the state after a round; called only if `listens`.

        Parameters
        ----------
        loss : float
            Mean over the participants of the mean loss of their local steps.
        round : int
            The round that has ended, counted from 1.
        time_s : float
            The virtual clock at its end.
        """
        return state


@dataclass(frozen=True, kw_only=True)
class UniformSteps(StepCount):
    """A number that every client draws anew in every round, uniformly.

    Parameters
    ----------
    low, high : int
        Smallest and largest number; both are drawn.

    Raises
    ------
    ScenarioError
        If `low` is above `high`.

    Examples
    --------
    >>> drawn = UniformSteps(low=2, high=5).draw(np.arange(1000), seed=0, draw=1)
    >>> int(drawn.min()), int(drawn.max())
    (2, 5)
    """

    name: ClassVar[str] = "uniform"

    low: Annotated[int, Ge(1)]
    high: Annotated[int, Ge(1)]

    def __post_init__(self) -> None:
        if self.low > self.high:
            found = f"found low {self.low} above high {self.high}; exchange them"
            raise ScenarioError("", found)

    def draw(self, ids: Ints, *, seed: int, draw: Draw, state: State | None = None) -> Ints:
        """Return the numbers (K,) of clients in a round; each depends on its id alone."""
        span = np.full(len(ids), self.high - self.low + 1)
        return self.low + Key(seed, "length").integers(ids, span, 1, round=draw)[:, 0]


@dataclass(frozen=True, kw_only=True)
class SharedCoin(StepCount):
    """A coin after each local step, the same for all clients: heads ends the round.

    The number is geometric, as in ProxSkip (Mishchenko et al. 2022).

    Parameters
    ----------
    p : float
        Probability of heads.

    Examples
    --------
    >>> SharedCoin(p=0.2).draw(np.arange(4), seed=0, draw=1).tolist()
    [8, 8, 8, 8]
    """

    name: ClassVar[str] = "shared-coin"

    p: Annotated[float, Interval(gt=0, le=1)]

    def draw(self, ids: Ints, *, seed: int, draw: Draw, state: State | None = None) -> Ints:
        """Return the number of a round (K,), the same for all; of single tasks one for each."""
        u = Key(seed, "coin").uniforms(np.zeros_like(ids), round=draw)
        if self.p == 1:
            return np.ones(len(ids), dtype=np.int64)
        return _at_least_one(np.ceil(np.log(u) / math.log1p(-self.p)))


@dataclass(frozen=True, kw_only=True)
class AdaComm(StepCount):
    """Fewer and fewer local steps as the loss falls (AdaComm, Wang and Joshi 2019).

    Many local steps between exchanges are fast at first, and few end on a lower floor. After every
    interval the number becomes ``ceil(start sqrt(F_l / F_0))``, F_l the loss at its end and F_0
    that of the first round; where that is no less than before, ``factor`` times the number before,
    rounded up. It never rises and never falls below 1.

    J. Wang, G. Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime
    Trade-off in Local-Update SGD", MLSys 2019, https://arxiv.org/abs/1810.08313, section 4.

    Parameters
    ----------
    start : int
        Number in the first interval.
    every : int, optional
        Rounds of an interval; 10 if neither this nor `every_s` is given.
    every_s : float, optional
        Virtual seconds of an interval, as in the paper.
    factor : float
        What the number is multiplied by where the loss alone would not lower it.

    Raises
    ------
    ScenarioError
        If both `every` and `every_s` are given.

    Notes
    -----
    Deviations from the paper: F is the mean loss of the participants' local steps in a round, one
    number more in every upload, since a server does not see the loss of the whole population; with
    few participants it is noisy. The paper's form for a changing learning rate is left out.

    Examples
    --------
    The loss has come down to a quarter, then does not fall any more:

    >>> rule = AdaComm(start=20, every=1)
    >>> state = rule.learn(rule.init(), 8.0, round=1, time_s=0)
    >>> state = rule.learn(state, 2.0, round=2, time_s=0)
    >>> int(state["length"])
    10
    >>> int(rule.learn(state, 2.0, round=3, time_s=0)["length"])
    5
    """

    name: ClassVar[str] = "adacomm"
    listens: ClassVar[bool] = True

    start: Annotated[int, Ge(1)]
    every: Annotated[int, Ge(1)] | None = None
    every_s: Annotated[float, Gt(0)] | None = None
    factor: Annotated[float, Interval(gt=0, le=1)] = 0.5

    def __post_init__(self) -> None:
        if self.every is not None and self.every_s is not None:
            raise ScenarioError("every_s", "found every too; give rounds or seconds, not both")

    def init(self) -> State:
        """Return the first length, no first loss yet, and the number of intervals that are over."""
        return {
            "length": np.asarray(self.start, dtype=np.int64),
            "first": np.asarray(math.nan),
            "intervals": np.asarray(0, dtype=np.int64),
        }

    def draw(self, ids: Ints, *, seed: int, draw: Draw, state: State | None = None) -> Ints:
        """Return the same number for all (K,)."""
        length = self.start if state is None else int(state["length"])
        return np.full(len(ids), length, dtype=np.int64)

    def learn(self, state: State, loss: float, *, round: int, time_s: float) -> State:
        """Return the state with the length of the interval that begins, if one does."""
        first = loss if math.isnan(state["first"]) else float(state["first"])
        over = round // (self.every or 10) if self.every_s is None else int(time_s // self.every_s)
        length = int(state["length"])
        if round > 1 and over > state["intervals"] and math.isfinite(loss):
            wanted = math.ceil(self.start * math.sqrt(max(loss / first, 0.0))) if first else 1
            if wanted >= length:
                wanted = math.ceil(self.factor * length)
            length = max(1, wanted)
        return {
            "length": np.asarray(length, dtype=np.int64),
            "first": np.asarray(first),
            "intervals": np.asarray(over, dtype=np.int64),
        }


def in_seconds(seconds: float, seconds_per_step: Floats | None) -> Ints:
    """Return the number of steps (K,) that fit in given virtual seconds, at least 1.

    Raises
    ------
    ScenarioError
        If no speed is known, or a step takes no time.
    """
    if seconds_per_step is None:
        raise ScenarioError("local.time_s", "no seconds per step are known; give steps")
    if not np.all(seconds_per_step > 0):
        raise ScenarioError("local.time_s", "a step takes no time; give steps, or a longer delay")
    return _at_least_one(np.floor(seconds / seconds_per_step + _SLACK))


def in_passes(passes: Ints | Floats, sizes: Ints, batch: int | None) -> Ints:
    """Return the number of steps (K,) for given passes over the rows, at least 1.

    Parameters
    ----------
    passes : (K,) array
    sizes : (K,) array of int
        Rows n_i.
    batch : int or None
        Rows of a minibatch; all if None.
    """
    per_pass = np.ones_like(sizes) if batch is None else -(-sizes // batch)
    return _at_least_one(np.ceil(passes * per_pass - _SLACK))


def _at_least_one(steps: Floats) -> Ints:
    return np.asarray(np.clip(steps, 1, _MOST), dtype=np.int64)
