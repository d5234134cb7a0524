"""Robust aggregation rules, each with its paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.channel.mixers import Mixer, squared_distances
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.needs import (
    COUNT_ONCE,
    MEAN,
    ONE_MEAN,
    PLAIN_MEANS,
    REPLIED,
    SUMS,
    THIS_ROUND,
    VECTORS,
    VECTORS_ALIKE,
    Terms,
)
from rayfed.messages import State


@dataclass(frozen=True, kw_only=True)
class Aggregator:
    """Base of all rules. Every reply counts once, however many rows its client has.

    Parameters
    ----------
    before : buckets or nearest-neighbours, optional
        What mixes the vectors before the rule sees them.

    Attributes
    ----------
    weighs : bool
        Whether the rule goes by the weights of vectors. One that does not counts all vectors alike,
        and does not go with ``late: stale`` whose late vectors have smaller weights. In
        asynchronous runs vectors are multiplied by their discount, as the mean adds them up, and
        every rule takes them so.
    """

    name: ClassVar[str]
    weighs: ClassVar[bool] = False

    before: Mixer | None = None

    @property
    def needs(self) -> Terms:
        """Terms that other parts must not remove; buckets need the replies of one cohort."""
        seen = {VECTORS} if self.before is None else self.before.needs
        alike = () if self.weighs and self.before is None else {VECTORS_ALIKE}
        return frozenset({ONE_MEAN, COUNT_ONCE, THIS_ROUND, *seen, *alike})

    @property
    def removes(self) -> Terms:
        """Terms that other parts cannot have."""
        return frozenset({MEAN, PLAIN_MEANS, REPLIED, SUMS})

    def least(self) -> int:
        """Return the smallest number of vectors for which the rule's guarantee holds."""
        return 1

    def init(self, p: int) -> State:
        """Return the server state of the rule before the first round; empty by default.

        Parameters
        ----------
        p : int
            Numbers of a vector.
        """
        return {}

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the aggregate (p,) and the next server state.

        Parameters
        ----------
        vectors : (K, p) array of float
            Of the replies, or of buckets; all are finite, K >= 1. Replies of a round are in the
            order of their clients' ids. Late ones come before them, in the order of their rounds,
            and may be of the same clients.
        weights : (K,) array of float
            What the vectors count for in the mean that is replaced. The rules of the literature
            treat all vectors alike.
        state : mapping of str to array
            What `init` or the last round returned.
        """
        raise NotImplementedError

    def robust(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return `aggregate` of the finite vectors, mixed before where that is wanted.

        A vector with NaN or an infinite number is no vector: it is left out. If no other is left,
        the mean is NaN.
        """
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.any():
            return np.full(vectors.shape[1], np.nan, vectors.dtype), state
        if not finite.all():
            vectors, weights = vectors[finite], weights[finite]
        if self.before is not None:
            vectors = self.before.mixed(vectors)
            weights = np.ones(len(vectors))
        return self.aggregate(vectors, weights, state)


def at_most(f: int, count: int) -> int:
    """Return the number of tolerated faulty vectors: f, but fewer than half of all.

    Examples
    --------
    >>> at_most(2, 5), at_most(2, 4), at_most(2, 1)
    (2, 1, 0)
    """
    return min(f, (count - 1) // 2)


@dataclass(frozen=True, kw_only=True)
class Mean(Aggregator):
    """The mean of the vectors that are finite, by their weights; plain after a mixer.

    Examples
    --------
    >>> import numpy as np
    >>> Mean().aggregate(np.array([[0.0], [1.0], [8.0]]), np.ones(3), {})[0].tolist()
    [3.0]
    """

    name: ClassVar[str] = "mean"
    weighs: ClassVar[bool] = True

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the mean (p,) of vectors (K, p) by weights (K,)."""
        mean = np.average(vectors, axis=0, weights=weights.astype(vectors.dtype))
        return np.asarray(mean), state


@dataclass(frozen=True, kw_only=True)
class Median(Aggregator):
    """The median of each coordinate; of an even number of vectors the mean of the middle two.

    Yin, Chen, Kannan, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
    Rates", ICML 2018, https://arxiv.org/abs/1803.01498, definition 1.

    Notes
    -----
    Deviations from the paper: none.

    Examples
    --------
    >>> Median().aggregate(np.array([[0.0], [1.0], [8.0]]), np.ones(3), {})[0].tolist()
    [1.0]
    """

    name: ClassVar[str] = "median"

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the medians (p,) of vectors (K, p)."""
        return np.median(vectors, axis=0), state


@dataclass(frozen=True, kw_only=True)
class TrimmedMean(Aggregator):
    """The mean of each coordinate without its f smallest and its f largest numbers.

    Yin, Chen, Kannan, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical
    Rates", ICML 2018, https://arxiv.org/abs/1803.01498, definition 2.

    Parameters
    ----------
    f : int
        Faulty clients that are feared. Of so few vectors that 2 f are all, fewer are trimmed.

    Notes
    -----
    Deviations from the paper: f is a number, there a share of the clients.

    Examples
    --------
    >>> TrimmedMean(f=1).aggregate(np.array([[0.0], [1.0], [3.0], [9.0]]), np.ones(4), {})[0]
    array([2.])
    """

    name: ClassVar[str] = "trimmed-mean"

    f: Annotated[int, Ge(0)]

    def least(self) -> int:
        """Return 2 f + 1."""
        return 2 * self.f + 1

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the trimmed means (p,) of vectors (K, p)."""
        f = at_most(self.f, len(vectors))
        trimmed = np.sort(vectors, axis=0)[f : len(vectors) - f]
        mean: Array = trimmed.mean(axis=0)
        return mean, state


@dataclass(frozen=True, kw_only=True)
class GeometricMedian(Aggregator):
    """Near the point with the least sum of distances to the vectors.

    Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated Learning", IEEE TSP 2022,
    https://arxiv.org/abs/1912.13445, algorithm 2.

    From z = 0, z <- sum_i b_i v_i / sum_i b_i with b_i = 1 / max(smoothing, ||v_i - z||), some
    steps.

    Parameters
    ----------
    steps : int
        Number of steps T.
    smoothing : float
        Distances nu below this one count as it.

    Notes
    -----
    Deviations from the paper: all vectors have the same weight, and the steps start at 0.

    Examples
    --------
    >>> rule = GeometricMedian(steps=50)
    >>> rule.aggregate(np.array([[0.0], [1.0], [9.0]]), np.ones(3), {})[0].round(6).tolist()
    [1.0]
    """

    name: ClassVar[str] = "geometric-median"

    steps: Annotated[int, Ge(1)] = 3
    smoothing: Annotated[float, Gt(0)] = 0.1

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the last z (p,) for vectors (K, p)."""
        z: Array = np.zeros_like(vectors[0])
        for _ in range(self.steps):
            distance = np.linalg.norm(vectors - z, axis=1)
            b = 1 / np.maximum(distance, self.smoothing)
            z = (b / b.sum()) @ vectors
        return z.astype(vectors.dtype, copy=False), state


@dataclass(frozen=True, kw_only=True)
class _Scored(Aggregator):
    """Base of rules that score vectors by their nearest neighbours.

    Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant
    Gradient Descent", NeurIPS 2017, https://arxiv.org/abs/1703.02757, section 4.
    """

    f: Annotated[int, Ge(0)]

    def least(self) -> int:
        """Return 2 f + 1."""
        return 2 * self.f + 1

    def ranked(self, vectors: Array) -> Ints:
        """Return the places of vectors (K, p), the best score first; ties go to the lower place.

        A score is the sum of the squared distances to the K - f - 1 nearest other vectors.
        """
        nearest = len(vectors) - at_most(self.f, len(vectors))
        squares = np.sort(squared_distances(vectors), axis=1)[:, 1:nearest]  # 0 is to itself
        scores = squares.sum(axis=1)
        return np.argsort(scores, kind="stable")


@dataclass(frozen=True, kw_only=True)
class Krum(_Scored):
    """The vector with the least sum of squared distances to its nearest neighbours.

    Parameters
    ----------
    f : int
        Faulty clients that are feared, fewer than half; of few vectors fewer are.

    Notes
    -----
    Deviations from the paper: a score is over the K - f - 1 nearest vectors, as in later papers;
    there over K - f - 2.

    Examples
    --------
    >>> Krum(f=1).aggregate(np.array([[0.0], [1.0], [1.5], [9.0]]), np.ones(4), {})[0].tolist()
    [1.0]
    """

    name: ClassVar[str] = "krum"

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return one (p,) of the vectors (K, p)."""
        chosen: Array = vectors[self.ranked(vectors)[0]]
        return chosen.copy(), state


@dataclass(frozen=True, kw_only=True)
class MultiKrum(_Scored):
    """The mean of the K - f vectors with the best scores of `Krum`.

    Parameters
    ----------
    f : int
        Faulty clients that are feared, fewer than half; of few vectors fewer are.

    Notes
    -----
    Deviations from the paper: m = K - f, which the paper leaves open; the scores are those of
    `Krum`.

    Examples
    --------
    >>> MultiKrum(f=1).aggregate(np.array([[0.0], [1.0], [2.0], [9.0]]), np.ones(4), {})[0]
    array([1.])
    """

    name: ClassVar[str] = "multi-krum"

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the mean (p,) of some of the vectors (K, p)."""
        trimmed = len(vectors) - at_most(self.f, len(vectors))
        mean: Array = vectors[np.sort(self.ranked(vectors)[:trimmed])].mean(axis=0)
        return mean, state


@dataclass(frozen=True, kw_only=True)
class CentredClipping(Aggregator):
    """A mean of differences to the last result, each clipped to a radius.

    Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust Optimization", ICML 2021,
    https://arxiv.org/abs/2012.10333, section 4.

    From v, the result of the round before and 0 in the first, ``v <- v + mean_i (v_i - v) min(1,
    radius / ||v_i - v||)``, some steps.

    Parameters
    ----------
    radius : float
        Norm tau that differences are clipped to.
    steps : int
        Number of steps.

    Notes
    -----
    Deviations from the paper: none. Clients of the paper send momenta; here they send what the
    algorithm has them send.

    Examples
    --------
    The difference of 9 counts as 2:

    >>> rule = CentredClipping(radius=2.0)
    >>> v, state = rule.aggregate(np.array([[0.0], [1.0], [9.0]]), np.ones(3), rule.init(1))
    >>> v.tolist(), state["centre"].tolist()
    ([1.0], [1.0])
    """

    name: ClassVar[str] = "centred-clipping"

    radius: Annotated[float, Gt(0)] = 100.0
    steps: Annotated[int, Ge(1)] = 1

    def init(self, p: int) -> State:
        """Return a centre (p,) of zeros."""
        return {"centre": np.zeros(p)}

    def aggregate(self, vectors: Array, weights: Floats, state: State) -> tuple[Array, State]:
        """Return the next centre (p,) for vectors (K, p), and keep it."""
        v = state["centre"].astype(vectors.dtype, copy=False)
        for _ in range(self.steps):
            difference = vectors - v
            norm = np.linalg.norm(difference, axis=1)
            share = self.radius / np.maximum(norm, self.radius)
            v = v + (difference * share[:, None].astype(v.dtype, copy=False)).mean(axis=0)
        return v, {"centre": v}
