"""Differential privacy: the noise that is added, and the accountant's seam.

A user's whole upload is protected: neighbouring populations differ by one client. The accountant is
that of the package dp-accounting; it is imported late, since that takes about a second.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from annotated_types import Ge, Gt, Interval

from rayfed.core.errors import ScenarioError
from rayfed.core.extras import install
from rayfed.core.needs import (
    BLIND,
    COINS,
    COUNT_ONCE,
    FIXED_NORM,
    FRESH,
    HONEST,
    KNOWN_SIZE,
    MEAN,
    MEMORYLESS,
    ONE_MEAN,
    PLAIN_MEANS,
    REPLIED,
    ROUNDS,
    SUMS,
    UNAFFECTED,
    Terms,
    where,
)

Accountant: TypeAlias = Literal["pld", "rdp"]
_Counted: TypeAlias = Literal["pld", "rdp", "tree"]
COUNTED = frozenset({ROUNDS, COUNT_ONCE, UNAFFECTED, FRESH, SUMS, MEMORYLESS, ONE_MEAN, BLIND})
"""Needs of every accountant: what it counts is what a run spends."""
MOST_EPSILON = 1000.0
"""Largest epsilon, by Renyi divergences, for which privacy loss distributions are computed: they
grow with it, and take minutes and gigabytes then."""
_TOLERANCE = 1e-4  # of a noise multiplier that is solved for


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Central differential privacy of clients: noise on the mean of clipped uploads.

    McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private Recurrent Language Models",
    ICLR 2018, https://arxiv.org/abs/1710.06963, with Poisson cohorts. The mean is the sum of
    clipped uploads divided by the expected cohort q N, plus N(0, (noise C / (q N))^2) once at the
    server, also without participants.

    Parameters
    ----------
    noise : float, optional
        Noise multiplier sigma: standard deviation of the noise on the sum, relative to the norm C
        that uploads are clipped to.
    epsilon : float, optional
        What all rounds together may spend; the noise is solved for.
    delta : float
        The probability of more.
    accountant : "pld" or "rdp"
        Privacy loss distributions, which are tight, or Renyi divergences, which are faster.
    at : "server" or "clients"
        Where noise is added. Clients add shares N(0, (noise C)^2 / t) under secure sums, t being
        the fewest with which a sum is opened. Nobody is sampled then: a client counts as there in
        every round, and neighbouring populations differ by one whose uploads are zeros.
    """

    removes: ClassVar[Terms] = frozenset({MEAN, PLAIN_MEANS, REPLIED})

    noise: Annotated[float, Gt(0)] | None = None
    epsilon: Annotated[float, Gt(0)] | None = None
    delta: Annotated[float, Interval(gt=0, lt=1)]
    accountant: Accountant = "pld"
    at: Literal["server", "clients"] = "server"

    def __post_init__(self) -> None:
        if (self.noise is None) == (self.epsilon is None):
            raise ScenarioError("", "give noise or epsilon, one of them")

    @property
    def needs(self) -> Terms:
        """Assumptions of the accountant, so that its epsilon is that of the run."""
        drawn = {COINS} if self.sampled else {KNOWN_SIZE, FIXED_NORM}
        return COUNTED | drawn | where({HONEST: self.at == "clients"})

    @property
    def sampled(self) -> bool:
        """Whether clients are drawn by coins, for which they spend less."""
        return self.at == "server"

    def multiplier(self, q: float, rounds: int) -> float:
        """Return the noise multiplier of so many rounds with sampling probability q.

        Raises
        ------
        ScenarioError
            If it is given, and too small for the accountant.
        """
        if self.noise is not None:
            self._check(self.noise, q, rounds)
            return self.noise
        assert self.epsilon is not None
        return noise_for(self.epsilon, self._drawn_with(q), rounds, self.delta, self.accountant)

    def spent(self, q: float, rounds: int) -> float:
        """Return the epsilon of so many rounds with the noise of these settings."""
        assert self.noise is not None
        return epsilon(self._drawn_with(q), self.noise, rounds, self.delta, self.accountant)

    def _check(self, noise: float, q: float, rounds: int) -> None:
        found = epsilon(self._drawn_with(q), noise, rounds, self.delta, "rdp")
        if self.accountant == "pld" and not found <= MOST_EPSILON:
            text = f"found {noise:g}, with which epsilon is {found:.3g} after round {rounds}"
            remedy = f"give more, or accountant: rdp, as pld goes up to {MOST_EPSILON:,.0f}"
            raise ScenarioError("noise", f"{text}; {remedy}")

    def _drawn_with(self, q: float) -> float:
        return q if self.sampled else 1.0


@dataclass(frozen=True, kw_only=True)
class Tree(Privacy):
    """DP-FTRL: noise on sums over rounds, for cohorts that are not sampled (Kairouz et al. 2021).

    Kairouz, McMahan, Song, Thakkar, Thakurta, Xu, "Practical and Private (Deep) Learning without
    Sampling or Shuffling", ICML 2021, https://arxiv.org/abs/2103.00039, Algorithms 1 and 2 and
    appendix D. The sum of all rounds so far has the noise of the nodes of a binary tree that make
    it up, so that it grows with the logarithm of the rounds. No client takes part again before
    `separation` rounds are over; so it is in each tree once, and all its trees are composed. The
    noise of a tree that is over stays in the model. Neighbouring populations differ by one client,
    whose uploads are replaced by zeros.

    Parameters
    ----------
    separation : int
        Rounds from one participation of a client to its next, at least.
    restart : int, optional
        Rounds of a tree; as many as `separation` if null, and no more.
    accountant : "rdp"
        The library counts trees by Renyi divergences.
    at : "server"
        A node is in the sums of many rounds, in which other clients take part.
    """

    name: ClassVar[Literal["tree"]] = "tree"  # of no plug-in: the search goes by other lines

    separation: Annotated[int, Ge(1)]
    restart: Annotated[int, Ge(1)] | None = None
    accountant: Literal["rdp"] = "rdp"
    at: Literal["server"] = "server"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restart is not None and self.restart > self.separation:
            text = f"a client may be in a tree of {self.restart} rounds twice"
            raise ScenarioError("restart", f"{text}; give at most separation, {self.separation}")

    @property
    def sampled(self) -> bool:
        """Whether clients are Poisson-sampled: a tree is for cohorts that are not sampled."""
        return False

    @property
    def length(self) -> int:
        """The rounds of a tree."""
        return self.restart or self.separation

    def place(self, round: int) -> tuple[int, int]:
        """Return the tree of a round from 1, and which of its rounds it is, from 1."""
        tree, before = divmod(round - 1, self.length)
        return tree, before + 1

    def multiplier(self, q: float, rounds: int) -> float:
        """Return the noise multiplier of so many rounds, without sampling."""
        if self.noise is not None:
            return self.noise
        assert self.epsilon is not None
        event = partial(_tree_event, *self._counted(rounds))
        return _least(self.epsilon, self.delta, "tree", event, _guess())

    def spent(self, q: float, rounds: int) -> float:
        """Return the epsilon of so many rounds with the noise of these settings."""
        assert self.noise is not None
        return tree_epsilon(self.noise, *self._counted(rounds), self.delta)

    def _counted(self, rounds: int) -> tuple[int, int]:
        """Return the rounds of a tree, and the number of trees that a client may take part in."""
        return min(self.length, rounds), -(-rounds // self.separation)


def missing() -> str:
    """Return the package to install for the accountant; empty if it is installed."""
    if find_spec("dp_accounting") is not None:
        return ""
    return f"needs dp-accounting; install it with: {install('privacy')}"


@cache
def epsilon(
    q: float, noise: float, rounds: int, delta: float, accountant: Accountant = "pld"
) -> float:
    """Return the epsilon of rounds of a Gaussian mechanism with Poisson sampling.

    Parameters
    ----------
    q : float
        Probability with which a client takes part in a round.
    noise : float
        Noise multiplier sigma.
    rounds : int
    delta : float
    accountant : "pld" or "rdp"

    Examples
    --------
    >>> round(epsilon(0.04, 1.5, 2250, 1e-5, "rdp"), 4)
    7.3293
    """
    if not rounds:
        return 0.0
    return _spent(accountant, _event(q, rounds, noise), delta)


@cache
def tree_epsilon(noise: float, steps: int, times: int, delta: float) -> float:
    """Return the epsilon of a client that is once in each of some trees.

    Parameters
    ----------
    noise : float
        Noise multiplier of every node.
    steps : int
        Rounds of a tree.
    times : int
        In how many trees it is.
    delta : float
    """
    return _spent("tree", _tree_event(steps, times, noise), delta) if steps else 0.0


@cache
def noise_for(
    epsilon_wanted: float, q: float, rounds: int, delta: float, accountant: Accountant = "pld"
) -> float:
    """Return the least noise multiplier, to 1e-4, with which rounds spend at most an epsilon.

    Raises
    ------
    ScenarioError
        If no noise that can be counted is enough.
    """
    bracket = _bracket(epsilon_wanted, q, rounds, delta, accountant)
    return _least(epsilon_wanted, delta, accountant, partial(_event, q, rounds), bracket)


def _least(
    wanted: float, delta: float, counted: _Counted, event: Callable[[float], Any], bracket: Any
) -> float:
    """Return the least noise multiplier with which an event spends at most an epsilon."""
    import dp_accounting

    try:
        found = dp_accounting.calibrate_dp_mechanism(
            _fresh(counted), event, wanted, delta, bracket, tol=_TOLERANCE
        )
    except (ArithmeticError, ValueError, _no_noise()) as error:
        text = f"found {wanted:g}, for which the accountant finds no noise; give noise"
        raise ScenarioError("epsilon", text) from error
    noise = float(found)
    while _spent(counted, event(noise), delta) > wanted:
        noise = math.nextafter(noise + _TOLERANCE, math.inf)
    return noise


def _bracket(
    epsilon_wanted: float, q: float, rounds: int, delta: float, accountant: Accountant
) -> Any:
    """Return between which multipliers the noise is searched.

    Little noise takes the tight accountant minutes, so its search begins where the fast one ends,
    which asks for more.
    """
    import dp_accounting

    if accountant == "rdp":
        return _guess()
    most = noise_for(epsilon_wanted, q, rounds, delta, "rdp")
    least = most / 2
    while epsilon(q, least, rounds, delta) <= epsilon_wanted:
        least /= 2
    return dp_accounting.ExplicitBracketInterval(least, most)


def _guess() -> Any:
    import dp_accounting

    return dp_accounting.LowerEndpointAndGuess(0.1, 1.0)


def _no_noise() -> type[Exception]:
    """Return the exception type of the library for a search without a result."""
    from dp_accounting.mechanism_calibration import NoBracketIntervalFoundError

    error: type[Exception] = NoBracketIntervalFoundError
    return error


def _event(q: float, rounds: int, noise: float) -> Any:
    from dp_accounting import dp_event

    once = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise))
    return dp_event.SelfComposedDpEvent(once, rounds)


def _tree_event(steps: int, times: int, noise: float) -> Any:
    from dp_accounting import dp_event

    once = dp_event.SingleEpochTreeAggregationDpEvent(noise, steps)
    return dp_event.SelfComposedDpEvent(once, times)


def _spent(counted: _Counted, event: Any, delta: float) -> float:
    known = _fresh(counted)()
    known.compose(event)
    return float(known.get_epsilon(delta))


def _fresh(counted: _Counted) -> Callable[[], Any]:
    """Return a factory of empty accountants."""
    logging.getLogger("absl").setLevel(logging.ERROR)  # it tells of each order that it leaves out
    if counted == "pld":
        from dp_accounting.pld import PLDAccountant as Chosen
    else:
        from dp_accounting.rdp import RdpAccountant as Chosen
    make: Callable[..., Any] = Chosen
    if counted == "tree":
        from dp_accounting import NeighboringRelation

        return partial(make, neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    return make
