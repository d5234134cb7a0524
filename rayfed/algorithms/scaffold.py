"""SCAFFOLD: control variates at clients and server undo the drift of the clients.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled Averaging for
Federated Learning", ICML 2020, https://arxiv.org/abs/1910.06378, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt

from rayfed.algorithms import control
from rayfed.algorithms.base import Coded, Round
from rayfed.algorithms.memory import WithMemory
from rayfed.core.arrays import Array
from rayfed.core.needs import CORRECTIONS, GLOBAL_STEPS, GRADIENTS, Terms, where
from rayfed.messages import State, Upload
from rayfed.solvers.base import Solver

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Scaffold(WithMemory):
    """Stochastic controlled averaging (Karimireddy et al. 2020).

    Client i has c_i (p,), the server c (p,), zero at first. A local step from the broadcast
    model x (p,) is y <- y - lr (g_i(y) - c_i + c); then c_i+ is grad F_i(x) (option 1) or
    c_i - c + (x - y) / (K_i lr) (option 2), with the K_i steps that were run and the lr of the
    round. With S the participants the server steps
    x <- x - server_lr mean_S (x - y_i), c <- c + (1/N) sum_S (c_i+ - c_i).

    Parameters
    ----------
    option : 1 or 2
        The new c_i: a gradient over all rows, or the mean of those along which the steps went.
    server_lr : float
        Server step eta_g.

    Notes
    -----
    The gradient of option 1 takes as long as the local steps that go through the rows once.

    Deviations from the paper: none with ``weights: uniform`` and plain SGD, which it has. By size
    both means are weighted, and clients keep and send w_i c_i. With momentum or a proximal term K_i
    is the sum ||a_i||_1 of FedNova, so that c_i+ stays a mean of gradients.

    Examples
    --------
    One of N = 4 clients moved by 2 and changed its c_i by 6:

    >>> import numpy as np
    >>> from rayfed.messages import Reply
    >>> round = Scaffold().round({"x": np.array([5.0]), "c": np.array([1.0])})
    >>> ask = next(round)
    >>> mean = {"delta": np.array([2.0]), "control": np.array([6.0])}
    >>> try:
    ...     round.send(Reply(np.array([3]), np.ones(1), mean, {}, np.ones(1, int), population=4))
    ... except StopIteration as end:
    ...     print(end.value[0]["x"], end.value[0]["c"])
    [3.] [2.5]
    """

    name: ClassVar[str] = "scaffold"
    needs: ClassVar[Terms] = WithMemory.needs | {CORRECTIONS}
    gives: ClassVar[Terms] = WithMemory.gives | {GLOBAL_STEPS}
    coded: ClassVar[Coded] = {"delta": "any", control.CHANGE: "contractive"}

    option: control.Option = 2
    server_lr: Annotated[float, Gt(0)] = 1.0

    @property
    def setting_needs(self) -> Terms:
        """Gradients, with option 1."""
        return where({GRADIENTS: self.option == 1})

    def check_solver(self, solver: Solver) -> None:
        """Refuse a solver that is not SGD, with option 2."""
        if self.option == 2:
            control.need_sgd(solver, self.name)

    def init(self, x0: Array) -> State:
        """Return the server's model and control variate (p,)."""
        return {"x": x0, **control.zeros(x0)}

    def client_state(self, x0: Array) -> State:
        """Return every client's first control variate c_i = 0 (p,)."""
        return control.zeros(x0)

    def train(self, clients: Clients, x: Array, c: Array) -> Upload:
        """Client function: corrected local steps; upload Delta (K, p) and c_i+ - c_i (K, p)."""
        local, change = control.solve(clients, x, c, self.shares(clients), self.option)
        values = {"delta": x - local.x, **change.values}
        return replace(change, values=values, loss=local.loss)

    def round(self, state: State) -> Round:
        """Server function: x <- x - server_lr mean Delta_i, c <- c + (1/N) sum (c_i+ - c_i)."""
        x = state["x"]
        passes = 1.0 if self.option == 1 else 0.0  # its gradient of F_i at x
        reply = yield replace(control.ask(state, {"delta": x.size}), passes=passes)
        x = x - self.server_lr * reply.mean["delta"]
        return {"x": x, **control.renewed(state, reply)}, {}
