"""FedAdagrad, FedAdam and FedYogi: servers with a step of its own for each coordinate.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated Optimization",
ICLR 2021, https://arxiv.org/abs/2003.00295, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Interval

from rayfed.algorithms.base import Round
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array
from rayfed.core.needs import AVERAGED, Terms
from rayfed.messages import Ask, State


@dataclass(frozen=True, kw_only=True)
class Adaptive(FedAvg):
    """Base of servers with a step of its own for each coordinate (Reddi et al. 2021).

    Parameters
    ----------
    server_lr : float
        Server step eta_g.
    tau : float
        Adaptivity: how much the steps of coordinates may differ. The smaller, the more.
    tau_inside : bool
        False, as in the paper: x <- x - eta_g m / (sqrt(v) + tau), and v starts at tau^2. True, as
        in the code of FedExP's authors: x <- x - eta_g m / sqrt(v + tau), and v starts at 0.
    """

    gives: ClassVar[Terms] = FedAvg.gives - {AVERAGED}

    server_lr: Annotated[float, Gt(0)] = 0.1
    tau: Annotated[float, Ge(0)] = 1e-3
    tau_inside: bool = False

    def first_moment(self, m: Array, D: Array) -> Array:
        """Return the new m (p,) for the mean pseudo-gradient D (p,)."""
        return D

    def second_moment(self, v: Array, D: Array) -> Array:
        """Return the new v (p,) for the mean pseudo-gradient D (p,)."""
        raise NotImplementedError

    def init(self, x0: Array) -> State:
        """Return the model and both moments (p,)."""
        start = 0.0 if self.tau_inside else self.tau**2
        return {"x": x0, "m": np.zeros_like(x0), "v": np.full_like(x0, start)}

    def round(self, state: State) -> Round:
        """Server function: renew both moments, and divide the first by the root of the second."""
        x = state["x"]
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size})
        D = reply.mean["delta"]
        m, v = self.first_moment(state["m"], D), self.second_moment(state["v"], D)
        root = np.sqrt(v + self.tau) if self.tau_inside else np.sqrt(v) + self.tau
        # 0 / 0 where tau is 0 and a coordinate has never moved: it stays
        step = np.divide(m, root, out=np.zeros_like(m), where=root > 0)
        return {"x": x - self.server_lr * step, "m": m, "v": v}, {}


@dataclass(frozen=True, kw_only=True)
class FedAdagrad(Adaptive):
    """FedAvg with Adagrad at the server (Reddi et al. 2021).

    Client function as FedAvg's. With D the mean pseudo-gradient (p,) the server steps
    v <- v + D^2, x <- x - server_lr D / (sqrt(v) + tau), coordinate by coordinate.

    Notes
    -----
    Two forms are in use. Here, and in the paper, tau stands outside of the root and v starts at
    tau^2; ``tau_inside: true`` is D / sqrt(v + tau) with v from 0, the form of the code of
    FedExP's authors (their tau: 0.01). With tau 0 the first step is server_lr sign(D) in both.

    Deviations from the paper: D is a mean by size unless ``weights: uniform``; plain in the paper.
    (Its first moment has beta1 = 0 for this server.)

    Examples
    --------
    >>> import numpy as np
    >>> from rayfed.messages import Reply
    >>> algorithm = FedAdagrad(server_lr=0.1, tau=0.0)
    >>> round = algorithm.round(algorithm.init(np.zeros(3)))
    >>> ask, mean = next(round), {"delta": np.array([4.0, -0.5, 0.0])}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"])
    [-0.1  0.1  0. ]
    """

    name: ClassVar[str] = "fedadagrad"

    def second_moment(self, v: Array, D: Array) -> Array:
        """Return v + D^2."""
        grown: Array = v + D * D
        return grown


@dataclass(frozen=True, kw_only=True)
class FedAdam(Adaptive):
    """FedAvg with Adam at the server (Reddi et al. 2021).

    Client function as FedAvg's. With D the mean pseudo-gradient (p,) the server steps
    m <- beta1 m + (1 - beta1) D, v <- beta2 v + (1 - beta2) D^2,
    x <- x - server_lr m / (sqrt(v) + tau), coordinate by coordinate.

    Parameters
    ----------
    beta1, beta2 : float
        Weights of the last first and second moment.

    Notes
    -----
    There is no bias correction in the paper, nor here: v starts at tau^2 and the first steps are
    short. Implementations that correct it step differently, and so do those with tau inside of
    the root, which ``tau_inside: true`` gives (m / sqrt(v + tau), v from 0).

    Deviations from the paper: D is a mean by size unless ``weights: uniform``; plain in the paper.

    Examples
    --------
    With tau 0 the first step is (1 - beta1) / sqrt(1 - beta2) = 0.1 / 0.1 times server_lr sign(D):

    >>> import numpy as np
    >>> from rayfed.messages import Reply
    >>> algorithm = FedAdam(server_lr=0.5, tau=0.0)
    >>> round = algorithm.round(algorithm.init(np.zeros(2)))
    >>> ask, mean = next(round), {"delta": np.array([3.0, -2.0])}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"].round(12))
    [-0.5  0.5]
    """

    name: ClassVar[str] = "fedadam"

    beta1: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Interval(ge=0, lt=1)] = 0.99

    def first_moment(self, m: Array, D: Array) -> Array:
        """Return beta1 m + (1 - beta1) D."""
        return self.beta1 * m + (1 - self.beta1) * D

    def second_moment(self, v: Array, D: Array) -> Array:
        """Return beta2 v + (1 - beta2) D^2."""
        return self.beta2 * v + (1 - self.beta2) * (D * D)


@dataclass(frozen=True, kw_only=True)
class FedYogi(FedAdam):
    """FedAdam with bounded changes of the second moment (Reddi et al. 2021).

    All as FedAdam, but v <- v - (1 - beta2) D^2 sign(v - D^2): where D^2 is small v falls slowly,
    and steps grow slowly.

    Notes
    -----
    tau and ``tau_inside`` as in FedAdam.

    Deviations from the paper: D is a mean by size unless ``weights: uniform``; plain in the paper.

    Examples
    --------
    From v = 4, D^2 = 1 takes off a hundredth of 1, where Adam would take off a hundredth of 3:

    >>> v, D = np.array([4.0]), np.array([1.0])
    >>> FedYogi().second_moment(v, D), FedAdam().second_moment(v, D)
    (array([3.99]), array([3.97]))
    """

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, v: Array, D: Array) -> Array:
        """Return v - (1 - beta2) D^2 sign(v - D^2)."""
        moved: Array = v - (1 - self.beta2) * (D * D) * np.sign(v - D * D)
        return moved
