"""What all local solvers that descend along gradients share: batches, steps, learning rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt

from rayfed.clients import sampling
from rayfed.clients.lengths import Length, State
from rayfed.clients.schedules import Schedule
from rayfed.clients.solvers.base import CACHE, GradientFn, Local, Solver
from rayfed.clients.solvers.budget import LENGTHS, in_passes, in_seconds
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Draw
from rayfed.problems.base import Batch, Oracle

if TYPE_CHECKING:
    from rayfed.clients import Clients

_LINE = 64  # bytes
_STEPS = 10  # where nothing says how long


@dataclass(frozen=True, kw_only=True)
class Descent(Solver):
    """Base of local solvers that step along (changed) gradients.

    Parameters
    ----------
    steps, epochs, time_s : optional
        How long, one of the three: local steps; passes over the client's rows, each of
        ceil(n_i / batch) steps; or virtual seconds of computing, at least one step. If all are
        None: 10 steps. Steps and passes may change over rounds: ``{low: 2, high: 5}`` draws those
        of every client anew in every round, ``{name: adacomm, start: 20}`` takes fewer and fewer.
    batch : int or "full"
        Rows in a minibatch, or all rows in every step.
    lr : float or mapping
        Local learning rate, or a schedule of it over rounds.
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

    steps: Annotated[int, Ge(1)] | Length | None = None
    epochs: Annotated[float, Gt(0)] | Length | None = None
    time_s: Annotated[float, Gt(0)] | None = None
    batch: Annotated[int, Ge(1)] | Literal["full"] = 32
    lr: Annotated[float, Gt(0)] | Schedule = 0.1
    mu: Annotated[float, Ge(0)] = 0.0
    weight_decay: Annotated[float, Ge(0)] = 0.0
    clip_norm: Annotated[float, Gt(0)] | None = None
    lr_decay: Annotated[float, Gt(0)] = 1.0
    sampling: Literal["replacement", "shuffle"] = "replacement"

    def __post_init__(self) -> None:
        given = [name for name in LENGTHS if getattr(self, name) is not None]
        if len(given) > 1:
            raise ScenarioError("local", f"found {' and '.join(given)}; give one of them")

    @property
    def length(self) -> Length | None:
        """How long, where that is no fixed number."""
        given = self.steps or self.epochs
        return given if isinstance(given, Length) else None

    def rate(self, round: int) -> float:
        """Return the learning rate lr_t of a round, counted from 1."""
        lr = self.lr.at(round) if isinstance(self.lr, Schedule) else self.lr
        return float(lr * self.lr_decay ** (round - 1))

    def buffers(self) -> int:
        """Return how many arrays (K, p) the solver keeps from step to step, 0 at first."""
        return 0

    def direction(self, g: Array, pull: Array | None, kept: Sequence[Array], step: int) -> Array:
        """Return what is multiplied by lr_t and subtracted from x.

        Parameters
        ----------
        g : (k, p) array
            Gradients, clipped, corrected and decayed; may be written to.
        pull : (k, p) array or None
            ``mu (x - x0)``, the gradient of the proximal term where there is one.
        kept : sequence of (k, p) array
            The `buffers` of these clients, to be written to.
        step : int
            Number of the local step, from 1.
        """
        raise NotImplementedError

    def budget(
        self,
        sizes: Ints,
        seconds_per_step: Floats | None = None,
        *,
        ids: Ints | None = None,
        seed: int = 0,
        draw: Draw = 1,
        state: State | None = None,
    ) -> Ints:
        """Return how many local steps each client gets (K,); see `Solver.budget`.

        Raises
        ------
        ScenarioError
            If time_s is set and no speed is known, or a step takes no time.
        """
        if self.time_s is not None:
            return in_seconds(self.time_s, seconds_per_step)
        given = self.steps or self.epochs or _STEPS
        length: Ints | Floats
        if isinstance(given, Length):
            who = np.arange(len(sizes)) if ids is None else ids
            length = given.draw(who, seed=seed, draw=draw, state=state)
        else:
            length = np.full(len(sizes), given)
        if self.epochs is not None:
            return in_passes(length, sizes, None if self.batch == "full" else self.batch)
        return length.astype(np.int64)

    def mean_budget(self, sizes: Ints) -> Floats | None:
        """Return the mean number of local steps (K,), None where nothing is drawn."""
        mean = None if self.length is None else self.length.mean()
        if mean is None:
            return None
        once = np.ones(len(sizes), dtype=np.int64)
        if self.epochs is not None:
            once = in_passes(once, sizes, None if self.batch == "full" else self.batch)
        return np.asarray(mean * once, dtype=np.float64)

    def run(
        self,
        clients: Clients,
        x: Array,
        *,
        correction: Array | None = None,
        gradient: GradientFn | None = None,
        streams: int = 1,
    ) -> Local:
        """Take the local steps; see `Solver.run`."""
        steps, who = clients.steps, np.arange(len(clients.ids))
        if (steps == steps[0]).all():
            bend = None if gradient is None else _BoundGradient(gradient, streams, who)
            return self._descend(clients, x, correction, bend)
        order = np.argsort(-steps, kind="stable")  # those still at work come first
        bend = None if gradient is None else _BoundGradient(gradient, streams, order)
        added = None if correction is None else correction[order]
        local = self._descend(clients.chosen(order), x[order], added, bend)
        back = np.argsort(order)
        return Local(local.x[back], local.loss[back])

    def _descend(
        self, clients: Clients, x0: Array, correction: Array | None, bend: _BoundGradient | None
    ) -> Local:
        """Take the local steps of clients whose numbers of steps do not increase."""
        dtype = clients.shards.dtype
        x = _aligned_copy(x0, dtype)
        x0 = x0 if x0.dtype == dtype else x.copy()
        added = None if correction is None else correction.astype(dtype, copy=False)
        kept = [_aligned_copy(np.zeros_like(x), dtype) for _ in range(self.buffers())]
        lr = self.rate(clients.round)
        total = np.zeros(len(x))
        oracles = self._oracles(clients, x0) if bend is None else self._bent(clients, bend)
        with np.errstate(over="ignore", invalid="ignore"):  # the engine looks at the losses
            for step, (k, oracle) in enumerate(oracles, 1):
                now = x[:k]
                loss, g = oracle(now)
                total[:k] += loss
                g = self._gradient(g, now, None if added is None else added[:k])
                pull = self.mu * (now - x0[:k]) if self.mu else None
                _move(now, self.direction(g, pull, [rows[:k] for rows in kept], step), lr)
        return Local(x, total / clients.steps)

    def _gradient(self, g: Array, x: Array, correction: Array | None) -> Array:
        """Return the gradient (k, p), clipped, corrected and decayed, in place."""
        if self.clip_norm is not None:
            norm = np.sqrt(np.vecdot(g, g))
            g *= (self.clip_norm / np.maximum(norm, self.clip_norm))[:, None]
        if correction is not None:
            g += correction
        if self.weight_decay:
            g += self.weight_decay * x
        return g

    def _oracles(self, clients: Clients, x0: Array) -> Iterator[tuple[int, Oracle]]:
        """Yield for one step after another how many clients take it, and their objective."""
        problem = clients.problem
        if self.batch == "full":
            k = len(clients.ids)
            oracle = problem.near(x0, clients.data)
            for now in sampling.active(clients.steps):
                if now < k:
                    k, oracle = now, problem.near(x0[:now], clients.data.head(now))
                yield k, oracle
            return
        for batch in self._minibatches(clients, self.batch):
            yield len(batch.w), partial(problem.value_and_gradient, batch=batch)

    def _bent(self, clients: Clients, bend: _BoundGradient) -> Iterator[tuple[int, Oracle]]:
        """Yield how many clients take a step, and what stands for their objective."""
        if self.batch == "full":
            for k in sampling.active(clients.steps):
                yield k, bend.on([clients.data.head(k)] * bend.streams)
            return
        streams = [self._minibatches(clients, self.batch, j) for j in range(bend.streams)]
        for batches in zip(*streams, strict=True):
            yield len(batches[0].w), bend.on(batches)

    def _minibatches(self, clients: Clients, size: int, stream: int = 0) -> Iterator[Batch]:
        """Yield the minibatch of one step after another, for the clients that take it."""
        drawn = sampling.minibatches(
            self.sampling,
            size,
            clients.steps,
            ids=clients.ids,
            sizes=clients.sizes,
            seed=clients.seed,
            draw=clients.draws,
            ask=clients.ask,
            stream=stream,
        )
        for index, w in drawn:
            if len(w) < len(clients.ids):
                clients = clients.head(len(w))
            yield clients.take(index, w)


@dataclass(frozen=True)
class _BoundGradient:
    """A gradient that stands for that of F_i, and who the clients of the solver are."""

    gradient: GradientFn
    streams: int
    who: Ints

    def on(self, batches: Sequence[Batch]) -> Oracle:
        """Return it as a function of the models alone."""
        return lambda x: self.gradient(x, batches, self.who[: len(x)])


def _move(x: Array, g: Array, lr: float) -> None:
    """Subtract lr g from x in place; client by client where all of them overflow the cache."""
    for x_i, g_i in zip(x, g, strict=True) if g.nbytes > CACHE // 4 else ((x, g),):
        g_i *= lr
        x_i -= g_i


def _aligned_copy(x: Array, dtype: npt.DTypeLike) -> Array:
    """Copy x to the start of a cache line: steps in place cost a third of what they do off it."""
    size = x.size * np.dtype(dtype).itemsize
    room = np.empty(size + _LINE, dtype=np.uint8)
    start = -room.ctypes.data % _LINE
    out: Array = room[start : start + size].view(dtype).reshape(x.shape)
    out[...] = x
    return out
