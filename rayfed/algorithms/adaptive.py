"""The server function that FedAdagrad, FedAdam and FedYogi share.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive Federated Optimization",
ICLR 2021, https://arxiv.org/abs/2003.00295, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from rayfed.algorithms.base import Round
from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.arrays import Array
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
