"""Private means with a noise level that does not depend on the cohort."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rayfed.channel.privacy import Privacy, Tree
from rayfed.channel.stages import Clip
from rayfed.channel.uplink import INSIDE, NORM
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import RunFailed
from rayfed.core.rng import Key
from rayfed.messages import Ask, Reply, State

_NONE = np.empty(0, dtype=np.int64)
_NORM, _LAST = "private.norm", "private.last"
_CLIENTS, _ROUNDS = "private.clients", "private.rounds"


@dataclass(frozen=True)
class PrivateMean:
    """Makes the means of a run private.

    Its state is in that of the channel: the norm of the next round, where it changes; with a tree,
    the last round that had a reply, and who took part in the last rounds.

    Parameters
    ----------
    privacy : Privacy
        With its noise.
    clip : Clip
        Of uploads.
    cohort : int
        The expected cohort, which sums are divided by whoever came.
    clients : int
        Their number N.
    rounding : (float, float)
        By how much rounding in secure sums may lengthen a vector, and change a number.
    largest : float
        The largest norm with which no secure sum can wrap around.
    key : Key
        Of the noise.
    dtype : dtype
        Of the model.
    """

    privacy: Privacy
    clip: Clip
    cohort: int
    clients: int
    rounding: tuple[float, float]
    largest: float
    key: Key
    dtype: np.dtype[np.floating]

    @property
    def tree(self) -> Tree | None:
        """The tree of the noise; None if the noise of rounds is independent."""
        return self.privacy if isinstance(self.privacy, Tree) else None

    @property
    def in_shares(self) -> bool:
        """Whether clients add the noise; a sum that is not opened then releases nothing."""
        return self.privacy.at == "clients"

    @property
    def counted_noise(self) -> float:
        """Standard deviation of the noise on the count of unclipped uploads."""
        adaptive = self.clip.adaptive
        assert adaptive is not None
        return self.cohort / 20 if adaptive.noise is None else adaptive.noise

    @property
    def multiplier(self) -> float:
        """Noise multiplier of vectors; with that of the count it gives the accountant's.

        Andrew et al. 2021, theorem 1: both together are one Gaussian mechanism, whose count changes
        by 1/2 with a client. It is not a number where the count alone spends more.
        """
        assert self.privacy.noise is not None
        if self.clip.adaptive is None:
            return self.privacy.noise
        count = (0.5 + self.rounding[1]) / self.counted_noise
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.float64(self.privacy.noise**-2 - count**2) ** -0.5)

    def epsilon(self, rounds: int) -> float:
        """Return the epsilon spent in a number of rounds."""
        return self.privacy.spent(self.cohort / self.clients, rounds)

    # -- state -----------------------------------------------------------------------------

    def init(self) -> State:
        """Return the state before the first round."""
        state: dict[str, Array] = {}
        if self.clip.adaptive is not None:
            state[_NORM] = np.array([self.clip.start])
        if self.tree is not None:
            state |= {_LAST: np.zeros(1, np.int64), _CLIENTS: _NONE, _ROUNDS: _NONE}
        return state

    def norm(self, state: State) -> float:
        """Return the clipping norm of the next round's uploads."""
        return self.clip.start if self.clip.adaptive is None else float(state[_NORM][0])

    def deviation(self, norm: float) -> float:
        """Return the deviation of the noise on each coordinate of a mean, or of a node's part."""
        return self.multiplier * (norm + self.rounding[0]) / self.cohort

    def sent(self, ask: Ask, state: State) -> Ask:
        """Return an Ask of the algorithm with the clipping norm for clients."""
        if self.clip.adaptive is None:
            return ask
        return replace(ask, send={**ask.send, NORM: np.array(self.norm(state))})

    def at_rest(self, state: State, round: int) -> Ints:
        """Return the clients that may not take part in a round yet, ascending."""
        if self.tree is None:
            return _NONE
        return np.sort(state[_CLIENTS][state[_ROUNDS] + self.tree.separation > round])

    # -- replies ---------------------------------------------------------------------------

    def reply(
        self, ask: Ask, reply: Reply | None, round: int, number: int, state: State
    ) -> tuple[Reply, State]:
        """Return the reply that the algorithm gets, and the state after it.

        The reply has the means with noise, and nothing else.

        Parameters
        ----------
        ask : Ask
        reply : Reply or None
            With sums divided by the expected cohort, and with noise where clients add it; None if
            no client replied.
        round, number : int
            The round, and the Ask in it.
        state : mapping of str to array

        Raises
        ------
        RunFailed
            If the round has had an Ask, of which the accountant does not know.
        """
        if number:
            text = (
                f"privacy counts one Ask in a round, and '{ask.function}' is another; leave it out"
            )
            raise RunFailed(text)
        means = {} if reply is None else reply.mean
        private = {name: self._noised(name, n, means, round, state) for name, n in ask.up.items()}
        ids = _NONE if reply is None else reply.ids
        noised = Reply(_NONE, np.empty(0), private, {}, _NONE, self.clients, round=round)
        return noised, self._after(state, means, ids, round)

    def _after(self, state: State, means: Mapping[str, Array], ids: Ints, round: int) -> State:
        """Return the state after a round in which clients (K,) took part."""
        now = dict(state)
        if (adaptive := self.clip.adaptive) is not None:
            drawn = self.key.sub(INSIDE).normals([0], 1, round=round)[0, 0]
            mean = float(means[INSIDE][0]) if INSIDE in means else 0.0
            share = mean + 0.5 + self.counted_noise * drawn / self.cohort
            moved = adaptive.moved(self.norm(state), share)
            now[_NORM] = np.array([min(moved, self.largest)])
        if self.tree is not None:
            clients = np.concatenate([state[_CLIENTS], ids])
            rounds = np.concatenate([state[_ROUNDS], np.full(len(ids), round)])
            recent = rounds + self.tree.separation > round + 1
            now |= {_LAST: np.array([round]), _CLIENTS: clients[recent], _ROUNDS: rounds[recent]}
        return now

    def _noised(
        self, name: str, n: int, means: Mapping[str, Array], round: int, state: State
    ) -> Array:
        if self.in_shares:
            return means[name]
        key = self.key.sub(name)
        if self.tree is None:
            drawn = key.normals([0], n, round=round)[0]
        else:
            drawn = _added(key, self.tree, round, int(state[_LAST][0]), n)
        noise = self.deviation(self.norm(state)) * drawn
        if name not in means:
            return np.asarray(noise, dtype=self.dtype)
        mean = means[name]
        noised: Array = mean + noise.reshape(mean.shape).astype(mean.dtype)
        return noised


def _added(key: Key, tree: Tree, round: int, last: int, n: int) -> Floats:
    """Return the change of the noise of the sum since round `last`, (n,)."""
    which, at = tree.place(round)
    noise = _prefix(key, which, at, n)
    before, was = tree.place(last) if last else (-1, 0)
    return noise - _prefix(key, which, was, n) if before == which else noise


def _prefix(key: Key, tree: int, rounds: int, n: int) -> Floats:
    """Return the noise (n,) of the sum of the first rounds of a tree: that of its nodes."""
    levels = [level for level in reversed(range(rounds.bit_length())) if rounds >> level & 1]
    nodes = [(rounds >> level) - 1 for level in levels]  # what the higher ones leave begins there
    return np.asarray(key.normals(nodes, n, round=np.array(levels), ask=tree).sum(axis=0))
