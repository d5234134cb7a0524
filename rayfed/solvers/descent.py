"""Base of local solvers that descend along gradients: settings, steps, learning rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt

from rayfed.core.arrays import Array, Ints, copied, inner, namespace, to_numpy
from rayfed.solvers.base import (
    CACHE,
    AfterStep,
    Local,
    OnBatch,
    StepOracle,
    defines_last,
)
from rayfed.solvers.sampling import How, Minibatch
from rayfed.solvers.schedules import Schedule
from rayfed.solvers.stepped import Stepped

_LINE = 64  # bytes
STEPPING = ("run", "direction", "_gradient")  # methods that determine a step


def _norms(g: Array) -> Array:
    """Return the Euclidean norms (k,) of vectors (k, p)."""
    norms: Array = namespace(g).sqrt(inner(g, g))
    return norms


@dataclass(frozen=True, kw_only=True)
class Descent(Stepped):
    """Base of local solvers that step along (changed) gradients.

    Parameters
    ----------
    lr : float or mapping
        Local learning rate, or a schedule of it over rounds.
    mu : float
        Coefficient of the proximal term ``mu/2 ||x - x0||^2`` (FedProx).
    weight_decay : float
        Adds ``weight_decay x`` to every gradient.
    clip_norm : float, optional
        Longest gradient of the minibatch objective, before anything is added.
    sampling : "replacement" or "shuffle"
        Minibatches drawn independently, or a fresh order of the rows in every pass.
    """

    linear: ClassVar[bool] = False
    """Whether steps are sums of multiples of gradients, corrections, the model and its start.

    Such a solver takes its steps in any coordinates, and `run` may be given coefficients."""

    lr: Annotated[float, Gt(0)] | Schedule = 0.1
    mu: Annotated[float, Ge(0)] = 0.0
    weight_decay: Annotated[float, Ge(0)] = 0.0
    clip_norm: Annotated[float, Gt(0)] | None = None
    sampling: How = "replacement"

    def rate(self, round: int) -> float:
        """Return the learning rate lr_t of a round, counted from 1."""
        return float(self.lr.at(round) if isinstance(self.lr, Schedule) else self.lr)

    @property
    def scheduled(self) -> bool:
        """Whether the learning rate changes over rounds."""
        return isinstance(self.lr, Schedule)

    @property
    def plain(self) -> bool:
        """Whether steps go along the gradients as they are."""
        return False

    def buffers(self) -> int:
        """Return the number of arrays (K, p) kept from step to step, 0 at first."""
        return 0

    def direction(self, g: Array, pull: Array | None, buffers: Sequence[Array], step: int) -> Array:
        """Return the direction to multiply by lr_t and subtract from x.

        Parameters
        ----------
        g : (k, p) array
            Gradients, clipped, corrected and decayed; may be written to.
        pull : (k, p) array or None
            ``mu (x - x0)``, the gradient of the proximal term where there is one.
        buffers : sequence of (k, p) array
            The `buffers` of these clients, to be written to.
        step : int
            Number of the local step, from 1.
        """
        raise NotImplementedError

    @property
    def minibatch(self) -> Minibatch | None:
        """Rows of a local step; None for all rows in every step."""
        return None if self.batch == "full" else Minibatch(self.batch, self.sampling)

    def run(
        self,
        oracles: Iterable[StepOracle],
        x: Array,
        steps: Ints,
        *,
        round: int,
        correction: Array | None = None,
        after_step: AfterStep | None = None,
        norms: Callable[[Array], Array] = _norms,
    ) -> Local:
        """Take the local steps; see `Solver.run`.

        Parameters
        ----------
        norms : callable
            Norms (k,) of gradients (k, p): those of coefficients are not Euclidean, see `linear`.
        """
        xp = namespace(x)
        x0, x = x, _aligned_copy(x)
        buffers = [_aligned_copy(xp.zeros_like(x)) for _ in range(self.buffers())]
        lr = self.rate(round)
        total = xp.zeros(x.shape[0], dtype=xp.float64, device=x.device)
        solver: type = type(self)
        plain = correction is None and self.plain and defines_last(solver, "plain", STEPPING)
        with np.errstate(over="ignore", invalid="ignore"):  # the engine looks at the losses
            for step, (k, oracle) in enumerate(oracles, 1):
                now = x[:k, ...]
                loss = oracle.descend(now, lr) if plain and isinstance(oracle, OnBatch) else None
                if loss is None:
                    loss, g = oracle(now)
                    if not plain:
                        added = None if correction is None else correction[:k, ...]
                        g = self._gradient(g, now, added, norms)
                        pull = self.mu * (now - x0[:k, ...]) if self.mu else None
                        g = self.direction(g, pull, [rows[:k, ...] for rows in buffers], step)
                    _move(now, g, lr)
                total[:k] += loss
                if after_step is not None:
                    after_step(now)
        return Local(x, to_numpy(total) / steps)

    def _gradient(
        self,
        g: Array,
        x: Array,
        correction: Array | None,
        norms: Callable[[Array], Array],
    ) -> Array:
        """Return the gradient (k, p), clipped, corrected and decayed, in place."""
        if self.clip_norm is not None:
            longest = namespace(g).maximum(norms(g), self.clip_norm)
            g *= (self.clip_norm / longest)[:, None]
        if correction is not None:
            g += correction
        if self.weight_decay:
            g += self.weight_decay * x
        return g


def _move(x: Array, g: Array, lr: float) -> None:
    """Subtract lr g from x in place; client by client where all of them overflow the cache."""
    if isinstance(g, np.ndarray) and g.nbytes > CACHE // 4:
        for x_i, g_i in zip(x, g, strict=True):
            g_i *= lr
            x_i -= g_i
    else:
        g *= lr
        x -= g


def _aligned_copy(x: Array) -> Array:
    """Copy x to the start of a cache line: in-place steps take a third of the time there.

    Other libraries than NumPy place their arrays so themselves.
    """
    if not isinstance(x, np.ndarray):
        return copied(x)
    buffer = np.empty(x.size * x.itemsize + _LINE, dtype=np.uint8)
    start = -buffer.ctypes.data % _LINE
    out: Array = buffer[start : start + x.size * x.itemsize].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out
