"""FedExP: a server step that adapts to the agreement among clients.

Jhunjhunwala, Wang, Joshi, "FedExP: Speeding Up Federated Averaging via Extrapolation",
ICLR 2023, https://arxiv.org/abs/2301.09604, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Gt, Interval

from rayfed.algorithms import control
from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.columns import SERVER_LR
from rayfed.algorithms.memory import WithMemory
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.core.needs import CORRECTIONS, GLOBAL_STEPS, MEAN, SOLVER, Terms, where
from rayfed.messages import State, Upload
from rayfed.solvers.base import Solver

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedExP(WithMemory):
    """FedAvg with an extrapolating server step (Jhunjhunwala et al. 2023).

    Client function as FedAvg's, with one more number up: ||Delta_i||^2. The server steps
    x <- x - eta_g mean_i Delta_i with
    eta_g = max(1, mean_i ||Delta_i||^2 / (2 (||mean_i Delta_i||^2 + epsilon))),
    norms over the whole flat model (p,). It is recorded as ``server_lr``.

    Parameters
    ----------
    epsilon : float
        Added to the squared norm of the mean; a large one gives FedAvg.
    epsilon_decay : float
        Factor on epsilon from round to round. The authors' code decays it by 0.998^2; above 1 it
        grows, and tames the steps near the optimum, where the mean is small.
    max_one : bool
        Whether eta_g is at least 1. The authors' synthetic study runs without, and epsilon 0.
    server_momentum : float
        FedExP-M: the step eta_g goes along m <- server_momentum m + mean_i Delta_i.
    variance_reduction : bool
        SCAFFOLD-ExP: local steps are corrected by control variates as in SCAFFOLD, option 2; a
        client function then sends and receives two vectors.

    Notes
    -----
    Set ``evaluate_last: 2``: the paper reports the mean of the last two iterates; training goes
    on from the last one. With ``local.mu`` it is FedExP on top of FedProx.

    Deviations from the paper: its means over participants are plain; here both are by size unless
    ``weights: uniform``, as in the authors' code. (That also multiplies epsilon by the number of
    participants and decays it.) With momentum eta_g is that of the round's own pseudo-gradients.

    Examples
    --------
    Two clients (K, p) = (2, 2) that moved at right angles: mean ||Delta_i||^2 = 4,
    ||mean Delta||^2 = 2, hence eta_g = 4 / (2 * 2) = 1.

    >>> from rayfed.messages import Reply
    >>> algorithm = FedExP(epsilon=0.0, max_one=False)
    >>> round = algorithm.round(algorithm.init(np.zeros(2)))
    >>> ask = next(round)
    >>> mean = {"delta": np.array([1.0, 1.0]), "norm2": np.float64(4.0)}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.ones(2, int)))
    ... except StopIteration as end:
    ...     print(end.value[1]["server_lr"])
    1.0
    """

    name: ClassVar[str] = "fedexp"
    coded: ClassVar[Coded] = {"delta": "any", control.CHANGE: "contractive"}
    needs: ClassVar[Terms] = frozenset({MEAN, SOLVER})
    gives: ClassVar[Terms] = WithMemory.gives | {GLOBAL_STEPS}
    diagnostics: ClassVar[tuple[Column, ...]] = (SERVER_LR,)

    epsilon: Annotated[float, Ge(0)] = 1e-3
    epsilon_decay: Annotated[float, Gt(0)] = 1.0
    max_one: bool = True
    server_momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    variance_reduction: bool = False

    @property
    def setting_needs(self) -> Terms:
        """Corrected local steps, with variance reduction."""
        return where({CORRECTIONS: self.variance_reduction})

    def check_solver(self, solver: Solver) -> None:
        """Refuse a solver that is not SGD, with variance reduction."""
        if self.variance_reduction:
            control.need_sgd(solver, self.name)

    def init(self, x0: Array) -> State:
        """Return x (p,) and epsilon; with momentum m, with control variates c (p,)."""
        state = {"x": x0, "epsilon": np.array(self.epsilon)}
        if self.server_momentum:
            state["m"] = np.zeros_like(x0)
        return state | control.zeros(x0, self.variance_reduction)

    def client_state(self, x0: Array) -> State:
        """Return every client's first control variate c_i = 0 (p,), if it is used."""
        return control.zeros(x0, self.variance_reduction)

    @property
    def remembers(self) -> bool:
        """Whether there are control variates."""
        return self.variance_reduction

    def train(self, clients: Clients, x: Array, c: Array | None = None) -> Upload:
        """Client function: local steps from x (p,); upload Delta (K, p) and its squared norm (K,).

        With variance reduction, and so c (p,), also c_i+ - c_i (K, p).
        """
        local, change = control.solve(clients, x, c, self.shares(clients))
        values, squares = {"delta": x - local.x, **change.values}, {"norm2": "delta"}
        return replace(change, values=values, loss=local.loss, squares=squares)

    def round(self, state: State) -> Round:
        """Server function: extrapolate along the mean pseudo-gradient, or its momentum."""
        x = state["x"]
        reply = yield control.ask(state, {"delta": x.size, "norm2": 1})
        mean = direction = reply.mean["delta"]
        eta_g = self._step(mean, float(reply.mean["norm2"]), float(state["epsilon"]))
        after = {"epsilon": state["epsilon"] * self.epsilon_decay}
        if self.server_momentum:
            after["m"] = direction = self.server_momentum * state["m"] + mean
        after |= control.renewed(state, reply)
        return {"x": x - eta_g * direction, **after}, {"server_lr": eta_g}

    def _step(self, mean: Array, norm2: float, epsilon: float) -> float:
        """Return eta_g for mean_i Delta_i (p,) and mean_i ||Delta_i||^2."""
        denominator = 2 * (float(np.sum(mean * mean)) + epsilon)
        # Nobody moved: every step gives the same model
        eta_g = norm2 / denominator if denominator else 1.0
        return max(1.0, eta_g) if self.max_one else eta_g
