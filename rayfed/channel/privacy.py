"""Differential privacy: the noise that is added, and the accountant's seam.

A user's whole upload is protected: neighbouring populations differ by one client. The accountant is
that of the package dp-accounting; it is imported late, since that takes about a second.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Gt, Interval

from rayfed.core.errors import ScenarioError

Accountant: TypeAlias = Literal["pld", "rdp"]
_TOLERANCE = 1e-4  # of a noise multiplier that is solved for


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """Central differential privacy of clients: noise on the mean of clipped uploads.

    McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private Recurrent Language Models",
    ICLR 2018, https://arxiv.org/abs/1710.06963, with Poisson cohorts. The mean is the sum of
    clipped uploads divided by the expected cohort q N, plus N(0, (noise C / (q N))^2) once at the
    server, also where nobody took part.

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
    """

    noise: Annotated[float, Gt(0)] | None = None
    epsilon: Annotated[float, Gt(0)] | None = None
    delta: Annotated[float, Interval(gt=0, lt=1)]
    accountant: Accountant = "pld"

    def __post_init__(self) -> None:
        if (self.noise is None) == (self.epsilon is None):
            raise ScenarioError("", "give noise or epsilon, one of them")

    def multiplier(self, q: float, rounds: int) -> float:
        """Return the noise multiplier of so many rounds with sampling probability q."""
        if self.noise is not None:
            return self.noise
        assert self.epsilon is not None
        return noise_for(self.epsilon, q, rounds, self.delta, self.accountant)


def missing() -> str:
    """Return what to install if the accountant is not there; empty if it is."""
    if find_spec("dp_accounting") is not None:
        return ""
    return "needs dp-accounting; install it with: pip install 'rayfed[privacy]'"


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
    known = _fresh(accountant)()
    known.compose(_event(q, noise, rounds))
    return float(known.get_epsilon(delta))


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
    import dp_accounting

    try:
        found = dp_accounting.calibrate_dp_mechanism(
            _fresh(accountant),
            lambda noise: _event(q, noise, rounds),
            epsilon_wanted,
            delta,
            _bracket(epsilon_wanted, q, rounds, delta, accountant),
            tol=_TOLERANCE,
        )
    except (ArithmeticError, ValueError, _no_noise()) as error:
        text = f"found {epsilon_wanted:g}, for which the accountant finds no noise; give noise"
        raise ScenarioError("epsilon", text) from error
    noise = float(found)
    while epsilon(q, noise, rounds, delta, accountant) > epsilon_wanted:
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
        return dp_accounting.LowerEndpointAndGuess(0.1, 1.0)
    most = noise_for(epsilon_wanted, q, rounds, delta, "rdp")
    least = most / 2
    while epsilon(q, least, rounds, delta) <= epsilon_wanted:
        least /= 2
    return dp_accounting.ExplicitBracketInterval(least, most)


def _no_noise() -> type[Exception]:
    """Return what the library raises where its search finds nothing."""
    from dp_accounting.mechanism_calibration import NoBracketIntervalFoundError

    error: type[Exception] = NoBracketIntervalFoundError
    return error


def _event(q: float, noise: float, rounds: int) -> Any:
    from dp_accounting import dp_event

    once = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise))
    return dp_event.SelfComposedDpEvent(once, rounds)


def _fresh(accountant: Accountant) -> Callable[[], Any]:
    """Return what makes an accountant that has seen nothing."""
    logging.getLogger("absl").setLevel(logging.ERROR)  # it tells of each order that it leaves out
    if accountant == "rdp":
        from dp_accounting.rdp import RdpAccountant as Chosen
    else:
        from dp_accounting.pld import PLDAccountant as Chosen
    make: Callable[[], Any] = Chosen
    return make
