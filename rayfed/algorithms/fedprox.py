"""FedProx: local steps that are pulled back to the model of the server.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in Heterogeneous Networks",
MLSys 2020, https://arxiv.org/abs/1812.06127, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.needs import PROXIMAL, Terms
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg with a proximal term at the client (Li et al. 2020).

    Participant i minimises F_i(x_i) + mu/2 ||x_i - x||^2 around the broadcast model x (p,), with
    the local step x_i <- x_i - lr (g + mu (x_i - x)); mu is the local solver's. The server is
    FedAvg's.

    Parameters
    ----------
    local : Solver
        What a client does with its local steps; its `mu` is 0.01 unless it is given.

    Notes
    -----
    With ``local.mu: 0`` it is FedAvg. The paper's stragglers run fewer epochs than the others and
    are kept: ``local.epochs: {low: 1, high: 4}``, for all or for a group of clients.

    Deviations from the paper: the server learning rate, 1 in the paper; participants are drawn and
    weighted as in the scenario.

    Examples
    --------
    The pull keeps a local step from where it started, here at 0 with gradient -1 throughout:

    >>> import numpy as np
    >>> x = 0.0
    >>> for _ in range(2):
    ...     x -= 0.1 * (-1.0 + 5.0 * (x - 0.0))
    >>> round(x, 3)
    0.15
    >>> FedProx().local.mu
    0.01
    """

    name: ClassVar[str] = "fedprox"
    needs: ClassVar[Terms] = FedAvg.needs | {PROXIMAL}

    local: Solver = field(default_factory=lambda: SGD(mu=0.01))
