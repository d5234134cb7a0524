"""Private means: noise in place of knowing who took part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rayfed.channel.privacy import Accountant, epsilon
from rayfed.core.arrays import Array
from rayfed.core.errors import RunFailed
from rayfed.core.rng import Key
from rayfed.messages import Ask, Reply


@dataclass(frozen=True)
class PrivateMean:
    """Makes the means of a run private.

    Parameters
    ----------
    noise : float
        Noise multiplier sigma.
    norm : float
        What uploads are clipped to, C.
    q : float
        Probability with which a client takes part.
    clients : int
        Their number N.
    delta : float
    accountant : "pld" or "rdp"
    key : Key
        Of the noise.
    dtype : dtype
        Of the model.
    """

    noise: float
    norm: float
    q: float
    clients: int
    delta: float
    accountant: Accountant
    key: Key
    dtype: np.dtype[np.floating]

    @property
    def expected(self) -> float:
        """The expected cohort q N, which sums are divided by whoever came."""
        return self.q * self.clients

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on each coordinate of a mean."""
        return self.noise * self.norm / self.expected

    def epsilon(self, rounds: int) -> float:
        """Return what so many rounds have spent."""
        return epsilon(self.q, self.noise, rounds, self.delta, self.accountant)

    def reply(self, ask: Ask, reply: Reply | None, round: int, number: int) -> Reply:
        """Return the reply that the algorithm gets: the means with noise, and nothing else.

        Parameters
        ----------
        ask : Ask
        reply : Reply or None
            With sums divided by the expected cohort; None if nobody replied.
        round, number : int
            The round, and the Ask in it.

        Raises
        ------
        RunFailed
            If the round has had an Ask, of which the accountant does not know.
        """
        if number:
            text = f"privacy counts one Ask in a round, and '{ask.work}' is another; leave it out"
            raise RunFailed(text)
        means = {} if reply is None else reply.mean
        private = {name: self._noised(name, n, means, round) for name, n in ask.up.items()}
        none = np.empty(0, dtype=np.int64)
        empty = Reply(none, none.astype(np.float64), private, {}, none, self.clients, round=round)
        return empty if reply is None else replace(empty, growth=reply.growth)

    def _noised(self, name: str, n: int, means: Mapping[str, Array], round: int) -> Array:
        noise = self.deviation * self.key.sub(name).normals([0], n, round=round)[0]
        if name not in means:
            return np.asarray(noise, dtype=self.dtype)
        mean = means[name]
        noised: Array = mean + noise.reshape(mean.shape).astype(mean.dtype)
        return noised
