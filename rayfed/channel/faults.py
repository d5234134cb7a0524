"""Client faults: corrupted uploads, independent or colluding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Ge, Gt, Interval

from rayfed.channel.base import CodecState, Draws
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.episodes import Episodes
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import (
    FIXED_ROWS,
    LABELS,
    NOTHING,
    ONE_MEAN,
    READABLE,
    ROUNDS,
    TABLE,
    UNAFFECTED,
    VECTORS,
    WEIGHTED,
    Terms,
    refuse_flags,
)
from rayfed.core.shares import rounded


@dataclass(frozen=True, kw_only=True)
class Fault(Episodes):
    """Base of all faults, in the episodes of `rayfed.core.episodes.Episodes`.

    Parameters
    ----------
    ids : list of int or str
        Who is faulty, by number or by the name that the data give.
    count : int, optional
        How many clients, chosen by the seed.
    fraction : float, optional
        Share of the clients that have no fault yet, in the order of the faults; chosen by the seed.
    group : str, optional
        Name of the client group that they are in: all of it without a fault yet, or those that
        `count` or `fraction` choose of it.
    """

    name: ClassVar[str]
    silent: ClassVar[bool] = False
    """Whether nothing is sent."""
    rows: ClassVar[bool] = False
    """Whether the rows are wrong, and all else is right."""
    needs: ClassVar[Terms] = NOTHING
    removes: ClassVar[Terms] = NOTHING

    ids: tuple[int | str, ...] = ()
    count: Annotated[int, Gt(0)] | None = None
    fraction: Annotated[float, Interval(gt=0, le=1)] | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = [bool(self.ids), self.count is not None, self.fraction is not None]
        if sum(chosen) > 1 or (self.ids and self.group is not None):
            raise ScenarioError("", "give one of ids, count, fraction and group")
        if not (any(chosen) or self.group is not None):
            raise ScenarioError("", "found no faulty clients; give count, for example")

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return a value for checks: two clients."""
        return cls(count=2)

    def chosen(self, pool: int) -> int:
        """Return the number of faulty clients in a population of a given size."""
        if self.count is not None:
            return self.count
        return pool if self.fraction is None else rounded(self.fraction, pool)


@dataclass(frozen=True, kw_only=True)
class UploadFault(Fault):
    """Base of independent faults, which change a client's own upload."""

    keeps: ClassVar[bool] = False
    """Whether `first` is kept at the client for each vector."""

    def sent(self, v: Array, draw: Draws, state: Array, round: int) -> tuple[Array, Array]:
        """Return the faulty uploads and the next client state.

        Parameters
        ----------
        v : (K, p) array
            What the server would decode, from their first round on if they keep anything.
        draw : Draws
            Of these clients, for this vector.
        state : (K, p) array
            What they kept; NaN at first. Empty if nothing is.
        round : int
            The round, from 1; see `active`.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Knowledge:
    """Knowledge of colluding clients about the honest replies of a round.

    Parameters
    ----------
    mean, square : (p,) array of float64
        Means of the honest vectors and of their squares, weighted as the server's mean is.
    honest, faulty : int
        How many honest replies there are, and how many colluding ones.
    vectors : (H, p) array, optional
        The honest vectors, read-only, for faults that see them.
    ids : (H,) array of int
        Whose they are, ascending.
    """

    mean: Array
    square: Array
    honest: int
    faulty: int
    vectors: Array | None
    ids: Ints

    @property
    def deviation(self) -> Array:
        """Standard deviation (p,) of each coordinate over the honest replies."""
        variance = self.square - self.mean * self.mean
        return np.asarray(np.sqrt(np.maximum(variance, 0)))


@dataclass(frozen=True, kw_only=True)
class Collusion(Fault):
    """Base of faults of clients that know the honest replies, and all send the same.

    One that needs `VECTORS` is given the honest vectors; for others sums over them are enough.
    """

    needs: ClassVar[Terms] = frozenset({ROUNDS, READABLE, ONE_MEAN, WEIGHTED})
    removes: ClassVar[Terms] = frozenset({UNAFFECTED})

    def __init_subclass__(cls) -> None:
        refuse_flags(cls, {"sees_vectors": "needs = Collusion.needs | {VECTORS}"})

    def init(self, p: int, uniforms: Floats) -> CodecState:
        """Return the colluding clients' state before the first round; empty by default.

        Parameters
        ----------
        uniforms : (p,) array of float
            Keyed numbers from (0, 1).
        """
        return {}

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, CodecState]:
        """Return the common upload (p,) of all colluding clients, and their next state."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Scale(UploadFault):
    """Sends factor v in place of v.

    Parameters
    ----------
    factor : float
        Of any sign.
    """

    name: ClassVar[str] = "scale"

    factor: float = 10.0

    def sent(self, v: Array, draw: Draws, state: Array, round: int) -> tuple[Array, Array]:
        """Return factor v (K, p)."""
        scaled: Array = v * v.dtype.type(self.factor)
        return scaled, state


@dataclass(frozen=True, kw_only=True)
class BitFlip(UploadFault):
    """Sends -v in place of v."""

    name: ClassVar[str] = "bit-flip"

    def sent(self, v: Array, draw: Draws, state: Array, round: int) -> tuple[Array, Array]:
        """Return -v (K, p)."""
        return -v, state


@dataclass(frozen=True, kw_only=True)
class Noise(UploadFault):
    """Sends v plus normal noise, or noise alone.

    Parameters
    ----------
    deviation : float
        Standard deviation of each number.
    alone : bool
        Whether v itself is left out.
    """

    name: ClassVar[str] = "noise"

    deviation: Annotated[float, Ge(0)] = 1.0
    alone: bool = False

    def sent(self, v: Array, draw: Draws, state: Array, round: int) -> tuple[Array, Array]:
        """Return v + noise, or noise (K, p), keyed by client and round."""
        from scipy.special import ndtri  # imported late: most runs have no such fault

        noise = (self.deviation * ndtri(draw.uniforms(v.shape[1]))).astype(v.dtype)
        return np.asarray(noise if self.alone else v + noise), state


@dataclass(frozen=True, kw_only=True)
class NotANumber(UploadFault):
    """Uploads of NaN, as from diverged training."""

    name: ClassVar[str] = "not-a-number"

    def sent(self, v: Array, draw: Draws, state: Array, round: int) -> tuple[Array, Array]:
        """Return NaN (K, p)."""
        return np.full_like(v, np.nan), state


@dataclass(frozen=True, kw_only=True)
class Replay(UploadFault):
    """Repeated upload of the last honest vector before the episode.

    A client that has sent nothing before then goes on with the first that it sends.
    """

    name: ClassVar[str] = "replay"
    keeps: ClassVar[bool] = True

    def sent(self, v: Array, draw: Draws, state: Array, round: int) -> tuple[Array, Array]:
        """Return the stored upload (K, p); outside of episodes v, which is stored."""
        if not self.active(round):
            return v, v
        new = np.isnan(state).all(axis=1, keepdims=True)
        sent = np.where(new, v, state)
        return sent, sent


@dataclass(frozen=True, kw_only=True)
class Silent(Fault):
    """Sends nothing: it drops out after computing, and counts as dropped."""

    name: ClassVar[str] = "silent"
    silent: ClassVar[bool] = True
    needs: ClassVar[Terms] = frozenset({ROUNDS})


@dataclass(frozen=True, kw_only=True)
class LabelFlip(Fault):
    """Class c of a training row becomes C - 1 - c; all else is honest.

    Tolpegin, Truex, Gursoy, Liu, "Data Poisoning Attacks Against Federated Learning Systems",
    ESORICS 2020, https://arxiv.org/abs/2007.08432. Rows are wrong from the first round on.
    """

    name: ClassVar[str] = "label-flip"
    needs: ClassVar[Terms] = frozenset({LABELS, TABLE, FIXED_ROWS})
    rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.episodic:
            raise ScenarioError("start", "labels are wrong in all rounds; leave start and end out")


@dataclass(frozen=True, kw_only=True)
class Ipm(Collusion):
    """Sends -epsilon times the mean of the honest.

    Xie, Koyejo, Gupta, "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product
    Manipulation", UAI 2019, https://arxiv.org/abs/1903.03936, section 4.

    Parameters
    ----------
    epsilon : float
        Small ones deceive Krum, large ones the mean.

    Notes
    -----
    Deviations from the paper: the mean of the honest is weighted as the server's mean is; it is
    plain there, as with ``weights: uniform``.
    """

    name: ClassVar[str] = "ipm"

    epsilon: Annotated[float, Gt(0)] = 0.1

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, CodecState]:
        """Return -epsilon mean (p,)."""
        return np.asarray(known.mean * known.mean.dtype.type(-self.epsilon)), state


@dataclass(frozen=True, kw_only=True)
class Alie(Collusion):
    """Sends the mean of the honest minus z standard deviations in each coordinate.

    Baruch, Baruch, Goldberg, "A Little Is Enough: Circumventing Defenses For Distributed Learning",
    NeurIPS 2019, https://arxiv.org/abs/1902.06156, algorithm 3.

    Parameters
    ----------
    z : float, optional
        If None, that of the paper: of n clients of which m are faulty, s = floor(n / 2 + 1) - m
        honest ones are wanted farther away, and z is where the normal distribution has the value
        (n - m - s) / (n - m).

    Notes
    -----
    Deviations from the paper: mean and deviation are over all honest replies, weighted as the
    server's mean is (plain with ``weights: uniform``); there both are plain, and the attackers may
    know their own alone.
    """

    name: ClassVar[str] = "alie"

    z: float | None = None

    def most(self, honest: int, faulty: int) -> float:
        """Return the z of the paper.

        Examples
        --------
        n = 50 and m = 24: s = 2, and the normal distribution is 24/26 at z = 1.43:

        >>> round(Alie(count=1).most(26, 24), 2)
        1.43
        """
        supporters = (honest + faulty) // 2 + 1 - faulty
        share = (honest - supporters) / honest
        return NormalDist().inv_cdf(share) if 0 < share < 1 else 0.0

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, CodecState]:
        """Return mean - z deviation (p,)."""
        z = self.most(known.honest, known.faulty) if self.z is None else self.z
        return np.asarray(known.mean - known.mean.dtype.type(z) * known.deviation), state


@dataclass(frozen=True, kw_only=True)
class Mimic(Collusion):
    """Copies the honest client that stands out most along the direction of most variance.

    Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing",
    ICLR 2022, https://arxiv.org/abs/2006.09365, section 3.2 and appendix B.

    In the rounds of learning, t = 0, 1, ..., with the honest vectors v_i of the round: ``mu <- (t
    mu + mean v_i) / (1 + t)``, ``z <- (t z + c / ||c||) / (1 + t)`` with ``c = sum_i (v_i - mu)
    <v_i - mu, z>``, scaled to norm 1. The client with the largest ``|<v_i, z>|`` is copied; after
    the learning always the same one, where it replies.

    Parameters
    ----------
    learning : int
        Rounds of learning.

    Notes
    -----
    Deviations from the paper: clients are copied while the direction is learnt; where the one that
    was chosen does not reply, the one that stands out most is copied.
    """

    name: ClassVar[str] = "mimic"
    needs: ClassVar[Terms] = Collusion.needs | {VECTORS}

    learning: Annotated[int, Ge(1)] = 20

    def init(self, p: int, uniforms: Floats) -> CodecState:
        """Return a random direction, no mean yet, and no client chosen."""
        from scipy.special import ndtri  # imported late: most runs have no such fault

        z = ndtri(uniforms)
        return {"z": z / np.linalg.norm(z), "mu": np.zeros(p), "t": np.zeros(1),
                "chosen": np.array([-1.0])}  # fmt: skip

    def sent(self, known: Knowledge, state: Mapping[str, Array]) -> tuple[Array, CodecState]:
        """Return the vector (p,) of an honest client."""
        assert known.vectors is not None
        now = dict(state)
        learning = state["t"][0] < self.learning
        if learning:
            now |= _learnt(known.vectors.astype(np.float64), state)
        if not learning and state["chosen"][0] in known.ids:
            place = int(np.searchsorted(known.ids, state["chosen"][0]))
        else:
            place = int(np.abs(known.vectors @ now["z"]).argmax())
        if learning:
            now["chosen"] = known.ids[place : place + 1].astype(np.float64)
        return known.vectors[place].copy(), now


def _learnt(vectors: Floats, state: Mapping[str, Array]) -> dict[str, Floats]:
    """Return the mean and the direction after the vectors (H, p) of a round."""
    t = float(state["t"][0])
    mu = (t * state["mu"] + vectors.mean(axis=0)) / (1 + t)
    apart = vectors - mu
    c = (apart @ state["z"]) @ apart
    length = np.linalg.norm(c)
    z = state["z"]
    if length > 0:
        z = (t * z + c / length) / (1 + t)
        z = z / np.linalg.norm(z)
    return {"mu": mu, "z": z, "t": np.array([t + 1])}
