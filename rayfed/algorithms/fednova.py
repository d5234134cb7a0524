"""FedNova: local changes are normalised before they are averaged.

Wang, Liu, Liang, Joshi, Poor, "Tackling the Objective Inconsistency Problem in Heterogeneous
Federated Optimization", NeurIPS 2020, https://arxiv.org/abs/2007.07481, equation 8.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Interval

from rayfed.algorithms import control
from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.memory import WithMemory
from rayfed.core.arrays import Array, like
from rayfed.core.columns import Column
from rayfed.core.needs import CORRECTIONS, GLOBAL_STEPS, MEAN, SOLVER, Terms, where
from rayfed.messages import State, Upload
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class FedNova(WithMemory):
    """Normalised averaging (Wang et al. 2020).

    Participant i takes tau_i local steps from the broadcast model x (p,). Its pseudo-gradient
    Delta_i = x - x_i adds up its gradients with coefficients a_i (tau_i,) times its learning rate
    lr_i. It uploads Delta_i / norm_i and norm_i = ||a_i||_1 lr_i / lr, where lr is the rate of the
    algorithm's own solver; lr_i differs from it only if client i's group has a rate of its own.
    With p_i the weights of the participants the server steps
    x <- x - tau_eff sum_i p_i Delta_i / norm_i, so that clients with more local steps do not count
    more. tau_eff is recorded.

    Parameters
    ----------
    server_momentum : float
        Share of the server's last change that is added to the new one.
    tau_eff : "norms" or "steps"
        sum_i p_i norm_i, or sum_i p_i tau_i lr_i / lr, which the authors' code takes where mu > 0.
        Both are the same for plain SGD.
    variance_reduction : bool
        Local steps are corrected by control variates as in SCAFFOLD, option 2; a client then sends
        and receives two vectors.
    local : SGD
        Plain, with momentum (its buffer starts at 0 in every round), proximal, or both: the
        normaliser is that of the settings.

    Notes
    -----
    With equal numbers of steps and the same settings everywhere it is FedAvg. Give clients
    different numbers of steps by ``clients.groups`` or draw them by
    ``local.epochs: {low: 2, high: 5}``.

    Deviations from the paper: the weights of the mean are normalised over the participants. With
    momentum and a proximal term together ||a_i||_1 follows the local steps exactly (the authors'
    code counts part of it twice).

    Examples
    --------
    Two clients with 2 and 6 steps moved by 2 and 18: 1 and 3 to a step, 2 in the mean, times 4.

    >>> from rayfed.messages import Reply
    >>> round = FedNova().round(FedNova().init(np.array([10.0])))
    >>> ask = next(round)
    >>> mean = {"direction": np.array([2.0]), "norm": np.float64(4.0)}
    >>> try:
    ...     round.send(Reply(np.arange(2), np.ones(2), mean, {}, np.array([2, 6])))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"], end.value[1]["tau_eff"])
    [2.] 4.0
    """

    name: ClassVar[str] = "fednova"
    coded: ClassVar[Coded] = {"direction": "any", control.CHANGE: "contractive"}
    needs: ClassVar[Terms] = frozenset({MEAN, SOLVER})
    gives: ClassVar[Terms] = WithMemory.gives | {GLOBAL_STEPS}
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(
            "tau_eff", "effective local steps",
            about="Effective local steps of the server step: tau_eff of the paper.",
        ),
    )  # fmt: skip

    server_momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    tau_eff: Literal["norms", "steps"] = "norms"
    variance_reduction: bool = False
    local: SGD = field(default_factory=SGD)

    @property
    def setting_needs(self) -> Terms:
        """Corrected local steps, with variance reduction."""
        return where({CORRECTIONS: self.variance_reduction})

    def check_solver(self, solver: Solver) -> None:
        """Refuse a solver that is not SGD."""
        control.need_sgd(solver, self.name)

    def init(self, x0: Array) -> State:
        """Return x (p,), with momentum its last change, with control variates c."""
        state = {"x": x0}
        if self.server_momentum:
            state["change"] = np.zeros_like(x0)
        return state | control.zeros(x0, self.variance_reduction)

    def client_state(self, x0: Array) -> State:
        """Return every client's first control variate c_i = 0 (p,), if it is used."""
        return control.zeros(x0, self.variance_reduction)

    @property
    def remembers(self) -> bool:
        """Whether there are control variates."""
        return self.variance_reduction

    def train(self, clients: Clients, x: Array, c: Array | None = None) -> Upload:
        """Client function: local steps from x (p,); upload Delta_i / norm_i (K, p), norm_i (K,).

        With variance reduction, and so c (p,), also c_i+ - c_i (K, p).
        """
        local, change = control.solve(clients, x, c, self.shares(clients))
        values = {**self._normalised(clients, x - local.x), **change.values}
        return replace(change, values=values, loss=local.loss)

    def round(self, state: State) -> Round:
        """Server function: tau_eff steps along the mean of the normalised directions."""
        x = state["x"]
        reply = yield control.ask(state, {"direction": x.size, "norm": 1})
        tau_eff = float(reply.mean["norm"])
        change = tau_eff * reply.mean["direction"]
        after: dict[str, Array] = {}
        if self.server_momentum:
            after["change"] = change = self.server_momentum * state["change"] + change
        after |= control.renewed(state, reply)
        return {"x": x - change, **after}, {"tau_eff": tau_eff}

    def _normalised(self, clients: Clients, delta: Array) -> dict[str, Array]:
        """Return Delta_i / norm_i (K, p) and the terms of tau_eff (K,)."""
        solver = clients.solver
        assert isinstance(solver, SGD)  # all others have been refused
        rate = solver.rate(clients.round) / self.local.rate(clients.round)
        norm = solver.normaliser(clients.steps, clients.round) * rate
        counted = norm if self.tau_eff == "norms" else clients.steps * rate
        return {"direction": delta / like(norm[:, None], delta), "norm": counted}
