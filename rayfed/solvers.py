"""Local solvers: what a client does between download and upload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Interval

from rayfed import sampling
from rayfed.errors import ScenarioError
from rayfed.problems.base import Array, Batch, Floats, Ints, Oracle, Problem

if TYPE_CHECKING:
    from rayfed.clients import Clients

_CACHE = 2**21  # bytes of a stack's step; see `block`
_FEWEST = 4
_LINE = 64  # bytes
LENGTHS = ("steps", "epochs", "time_s")
_STEPS = 10  # where nothing says how long
_TINY = 1e-9  # a step length that is better kept out of the losses
_SLACK = 1e-9  # 1.1 passes of 50 batches are 55 steps, though 1.1 * 50 > 55 in floating point


@dataclass(frozen=True)
class Local:
    """What local solvers leave behind.

    Parameters
    ----------
    x : (K, p) array of float
        The local models.
    loss : (K,) array of float64
        Mean over the local steps of the minibatch objective, each before its step.
    """

    x: Array
    loss: Floats


@dataclass(frozen=True, kw_only=True)
class Solver:
    """Base of all local solvers."""

    name: ClassVar[str]

    def budget(self, sizes: Ints, seconds_per_step: Floats | None = None) -> Ints:
        """Return how many local steps each client gets (K,), at least 1.

        Parameters
        ----------
        sizes : (K,) array of int
            Training rows n_i.
        seconds_per_step : (K,) array of float, optional
            Virtual seconds of one local step in this Ask.
        """
        raise NotImplementedError

    def run(self, clients: Clients, x: Array, *, correction: Array | None = None) -> Local:
        """Take the local steps ``clients.steps`` from x (K, p).

        Parameters
        ----------
        clients : Clients
            Data, steps and keys of K clients.
        x : (K, p) array of float
            Models at the start of the round; not written to.
        correction : (K, p) array of float, optional
            Added to every gradient.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SGD(Solver):
    """Stochastic gradient descent.

    With g the gradient of the minibatch objective at x and x0 the model at the start of the
    round, a local step is::

        g <- g min(1, clip_norm / ||g||) + correction + weight_decay x
        m <- momentum m + g
        x <- x - lr_t (m + mu (x - x0)),    lr_t = lr lr_decay^(round - 1)

    The buffer m starts at 0 in every round and the proximal term stays outside of it, as the
    normaliser of FedNova presumes (Wang et al., "Tackling the objective inconsistency problem",
    NeurIPS 2020).

    Parameters
    ----------
    steps, epochs, time_s : optional
        How long, one of the three: local steps; passes over the client's rows, each of
        ceil(n_i / batch) steps; or virtual seconds of computing, at least one step. If all are
        None: 10 steps.
    batch : int or "full"
        Rows in a minibatch, or all rows in every step.
    lr : float
        Local learning rate.
    momentum : float
        Weight of the last buffer.
    mu : float
        Coefficient of the proximal term ``mu/2 ||x - x0||^2`` (FedProx).
    weight_decay : float
        Adds ``weight_decay x`` to every gradient.
    clip_norm : float, optional
        Longest gradient of the minibatch objective, before anything is added.
    lr_decay : float
        Factor on lr from round to round.
    sampling : "replacement" or "shuffle"
        Minibatches drawn independently, or a fresh order of the rows in every pass.

    Raises
    ------
    ScenarioError
        If more than one of steps, epochs and time_s is given.
    """

    name: ClassVar[str] = "sgd"

    steps: Annotated[int, Ge(1)] | None = None
    epochs: Annotated[float, Gt(0)] | None = None
    time_s: Annotated[float, Gt(0)] | None = None
    batch: Annotated[int, Ge(1)] | Literal["full"] = 32
    lr: Annotated[float, Gt(0)] = 0.1
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    mu: Annotated[float, Ge(0)] = 0.0
    weight_decay: Annotated[float, Ge(0)] = 0.0
    clip_norm: Annotated[float, Gt(0)] | None = None
    lr_decay: Annotated[float, Gt(0)] = 1.0
    sampling: Literal["replacement", "shuffle"] = "replacement"

    def __post_init__(self) -> None:
        given = [name for name in LENGTHS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ScenarioError("local", f"found {' and '.join(given)}; give one of them")

    def budget(self, sizes: Ints, seconds_per_step: Floats | None = None) -> Ints:
        """Return how many local steps each client gets (K,), at least 1.

        Raises
        ------
        ScenarioError
            If time_s is set and no speed is known, or a step takes no time.
        """
        if self.time_s is not None:
            if seconds_per_step is None:
                raise ScenarioError("local.time_s", "no seconds per step are known; give steps")
            if not np.all(seconds_per_step > 0):
                raise ScenarioError("local.time_s", "a step takes no time; give steps or a delay")
            return _at_least_one(np.floor(self.time_s / seconds_per_step + _SLACK))
        if self.epochs is not None:
            per_pass = np.ones_like(sizes) if self.batch == "full" else -(-sizes // self.batch)
            return _at_least_one(np.ceil(self.epochs * per_pass - _SLACK))
        return np.full(len(sizes), _STEPS if self.steps is None else self.steps)

    def run(self, clients: Clients, x: Array, *, correction: Array | None = None) -> Local:
        """Take the local steps; see `Solver.run`."""
        steps = clients.steps
        if (steps == steps[0]).all():
            return self._descend(clients, x, correction)
        order = np.argsort(-steps, kind="stable")  # those still at work come first
        local = self._descend(
            clients.chosen(order), x[order], None if correction is None else correction[order]
        )
        back = np.argsort(order)
        return Local(local.x[back], local.loss[back])

    def _descend(self, clients: Clients, x0: Array, correction: Array | None) -> Local:
        """Take the local steps of clients whose numbers of steps do not increase."""
        dtype = clients.shards.dtype
        x = _aligned_copy(x0, dtype)
        x0 = x0 if x0.dtype == dtype else x.copy()
        added = None if correction is None else correction.astype(dtype, copy=False)
        m = _aligned_copy(np.zeros_like(x), dtype) if self.momentum else None
        lr = self.lr * self.lr_decay ** (clients.round - 1)
        factor = self._factor(lr, correction)
        total = np.zeros(len(x))
        with np.errstate(over="ignore", invalid="ignore"):  # the engine looks at the losses
            for k, oracle in self._oracles(clients, x0, factor):
                now = x[:k]
                loss, g = oracle(now)
                total[:k] += loss
                g = self._direction(g, now, None if added is None else added[:k])
                if m is not None:
                    g = _accumulate(m[:k], self.momentum, g)
                if self.mu:
                    g += self.mu * (now - x0[:k])
                _move(now, g, lr / factor)
        return Local(x, total / (factor * clients.steps))

    def _factor(self, lr: float, correction: Array | None) -> float:
        """Return the factor of the objective: lr where a step is lr times its gradient, else 1.

        The weights of the rows carry it, and a step spares a pass over the gradient. Losses times
        a tiny lr could be too small for single precision.
        """
        more = self.clip_norm or self.weight_decay or self.momentum or self.mu
        plain = self.batch != "full" and correction is None and not more
        return lr if plain and lr > _TINY else 1.0

    def _direction(self, g: Array, x: Array, correction: Array | None) -> Array:
        """Return the gradient (k, p), clipped, corrected and decayed, in place."""
        if self.clip_norm is not None:
            norm = np.sqrt(np.vecdot(g, g))
            g *= (self.clip_norm / np.maximum(norm, self.clip_norm))[:, None]
        if correction is not None:
            g += correction
        if self.weight_decay:
            g += self.weight_decay * x
        return g

    def _oracles(self, clients: Clients, x0: Array, factor: float) -> Iterator[tuple[int, Oracle]]:
        """Yield for one step after another how many clients take it, and their objective.

        A factor other than 1 is for minibatches alone: what is kept of all rows knows none.
        """
        problem = clients.problem
        if self.batch == "full":
            k = len(clients.ids)
            oracle = problem.near(x0, clients.data)
            for now in sampling.active(clients.steps):
                if now < k:
                    k, oracle = now, problem.near(x0[:now], clients.data.head(now))
                yield k, oracle
            return
        for batch in self._minibatches(clients, self.batch, factor):
            yield len(batch.w), partial(problem.value_and_gradient, batch=batch)

    def _minibatches(self, clients: Clients, size: int, factor: float) -> Iterator[Batch]:
        """Yield the minibatch of one step after another, for the clients that take it."""
        drawn = sampling.minibatches(
            self.sampling,
            size,
            clients.steps,
            ids=clients.ids,
            sizes=clients.sizes,
            seed=clients.seed,
            round=clients.round,
            ask=clients.ask,
        )
        for index, w in drawn:
            if len(w) < len(clients.ids):
                clients = clients.head(len(w))
            yield clients.take(index, w, factor)


def _at_least_one(steps: Floats) -> Ints:
    return np.asarray(np.maximum(1, steps), dtype=np.int64)


def _move(x: Array, g: Array, lr: float) -> None:
    """Subtract lr g from x in place; client by client where all of them overflow the cache."""
    for x_i, g_i in zip(x, g, strict=True) if g.nbytes > _CACHE // 4 else ((x, g),):
        if lr != 1.0:
            g_i *= lr
        x_i -= g_i


def _accumulate(m: Array, momentum: float, g: Array) -> Array:
    """Update the buffer m in place, and return it in g's memory."""
    m *= momentum
    m += g
    g[...] = m
    return g


def _aligned_copy(x: Array, dtype: npt.DTypeLike) -> Array:
    """Copy x to the start of a cache line: steps in place cost a third of what they do off it."""
    size = x.size * np.dtype(dtype).itemsize
    room = np.empty(size + _LINE, dtype=np.uint8)
    start = -room.ctypes.data % _LINE
    out: Array = room[start : start + size].view(dtype).reshape(x.shape)
    out[...] = x
    return out


def override(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes; one way to say how long replaces another.

    Examples
    --------
    >>> override({"epochs": 2, "lr": 0.1}, {"steps": 5})
    {'lr': 0.1, 'steps': 5}
    """
    kept = dict(settings)
    if any(name in changes for name in LENGTHS):
        kept = {name: value for name, value in kept.items() if name not in LENGTHS}
    return kept | dict(changes)


def block(problem: Problem, features: int, classes: int, rows: int, itemsize: int) -> int:
    """Return how many clients to stack so that a local step stays in the cache.

    Parameters
    ----------
    features, classes : int
        Columns of X, and classes (0 for regression).
    rows : int
        Rows of each client in a step: the minibatch, or the padded width.
    itemsize : int
        Bytes of a number.
    """
    numbers = 2 * problem.size(features, classes) + rows * (features + 2 * max(classes, 1))
    return max(_FEWEST, _CACHE // (numbers * itemsize))
