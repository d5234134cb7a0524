"""Crashes: clients lose computed steps, and start again or give up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from rayfed.core.arrays import Bools, Floats
from rayfed.core.episodes import Episodes

TRIES = 16
"""Times that a client begins its computing; then it gives up."""


@dataclass(frozen=True)
class Crash(Episodes):
    """Crashes of a client during computing, in the rounds of `rayfed.core.episodes.Episodes`.

    Without rounds, ``start``, ``end`` and ``every`` count the tasks of each client.

    Parameters
    ----------
    probability : float
        That it crashes before its computing is done, at a moment drawn uniformly. What it has
        computed is lost.
    restart_s : float, optional
        Seconds after which it begins its computing anew, with what it has downloaded, and may crash
        again. It gives up its task if None, and after 16 crashes.
    """

    probability: Annotated[float, Ge(0), Le(1)] = 0.0
    restart_s: Annotated[float, Ge(0)] | None = None


@dataclass(frozen=True)
class Crashes:
    """Costs of crashes for K clients.

    Parameters
    ----------
    spent : (K,) array of float
        What was computed in vain, in units of the whole computing.
    waited_s : (K,) array of float
        Seconds from crashes to new beginnings.
    given_up : (K,) array of bool
        Whether the client does not begin again after its last crash.
    """

    spent: Floats
    waited_s: Floats
    given_up: Bools

    @classmethod
    def of(cls, u: Floats, probability: Floats, restart_s: Floats) -> Crashes:
        """Return the crashes that uniform numbers (K, 2 TRIES) mean.

        Parameters
        ----------
        u : (K, 2 TRIES) array of float
            For each try whether it crashes, and after which share of it.
        probability, restart_s : (K,) array of float
            Settings of each client; an infinite time means that it gives up.

        Examples
        --------
        The second of two tries succeeds, 10 s after a crash at a quarter of the first:

        >>> u = np.full((1, 2 * TRIES), 0.9)
        >>> u[0, :2] = 0.1, 0.25
        >>> Crashes.of(u, np.array([0.5]), np.array([10.0]))
        Crashes(spent=array([0.25]), waited_s=array([10.]), given_up=array([False]))
        """
        fails = u[:, 0::2] < probability[:, None]
        tries = np.where(np.isinf(restart_s), 1, TRIES)
        crashes = np.minimum(np.where(fails.all(axis=1), TRIES, fails.argmin(axis=1)), tries)
        in_vain = np.where(np.arange(TRIES) < crashes[:, None], u[:, 1::2], 0.0)
        given_up = crashes == tries
        pauses = crashes - given_up
        waited_s = np.where(pauses > 0, restart_s, 0.0) * pauses
        return cls(in_vain.sum(axis=1), waited_s, given_up)
