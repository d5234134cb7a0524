"""ProxSkip for federated learning (Scaffnew): exchanges that a coin decides on.

Mishchenko, Malinovsky, Stich, Richtarik, "ProxSkip: Yes! Local Gradient Steps Provably Lead to
Communication Acceleration! Finally!", ICML 2022, https://arxiv.org/abs/2202.09357, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.algorithms.base import Algorithm, Coded, Round
from rayfed.algorithms.compressed import all_replied
from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import ALL_STEPS, CORRECTIONS, EVERYONE, EXACT_DOWNLOADS, OWN_STEPS, Terms
from rayfed.messages import Ask, State, Upload
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD
from rayfed.solvers.step_counts import SharedCoin

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class ProxSkip(Algorithm):
    """Scaffnew, ProxSkip with averages as prox (Mishchenko et al. 2022).

    Client i keeps h_i (p,), zero at first; the h_i add up to zero. Its local steps are y <- y - lr
    (g_i(y) - h_i). After each a shared coin decides with probability `p` that models are
    averaged; so a round has a geometric number of local steps, the same for all. Then x is the mean
    of the y_i, and h_i <- h_i + (p / lr) (x - y_i).

    Parameters
    ----------
    p : float
        Probability of an exchange after a step; 1 / sqrt(kappa) with the condition number kappa is
        the paper's choice.

    Notes
    -----
    Deviations from the paper: none with ``weights: uniform``. By size, the weighted h_i add up to
    zero, and F has these weights. A client renews its h_i when it gets x, in the next round.

    Examples
    --------
    >>> from rayfed.messages import Reply
    >>> round = ProxSkip(p=0.5).round({"x": np.array([5.0])})
    >>> ask = next(round)
    >>> reply = Reply(np.arange(2), np.ones(2), {"y": np.array([2.0])}, {}, np.ones(2, int), 2)
    >>> try:
    ...     round.send(reply)
    ... except StopIteration as end:
    ...     print(end.value[0]["x"])
    [2.]
    """

    name: ClassVar[str] = "proxskip"
    needs: ClassVar[Terms] = Algorithm.needs | {EVERYONE, ALL_STEPS, EXACT_DOWNLOADS, CORRECTIONS}
    gives: ClassVar[Terms] = Algorithm.gives | {OWN_STEPS}
    coded: ClassVar[Coded] = {}

    p: Annotated[float, Interval(gt=0, le=1)] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.local, SGD)  # `check_solver` has refused all others
        object.__setattr__(self, "local", replace(self.local, steps=SharedCoin(p=self.p)))

    def check_solver(self, solver: Solver) -> None:
        """Refuse a solver that is not plain SGD with one constant step, or that counts its steps.

        With other steps of a group the sum of all h_i would not stay 0.
        """
        plain = solver.rate(1) == self.local.rate(1) and not solver.scheduled
        if not isinstance(solver, SGD) or not solver.plain or not plain:
            raise ScenarioError("local", f"'{self.name}' takes plain steps of sgd with one lr")
        given = (solver.steps, solver.epochs, solver.time_s)
        if any(not (value is None or isinstance(value, SharedCoin)) for value in given):
            text = f"a coin determines the number of local steps of '{self.name}' takes"
            raise ScenarioError("local", f"{text}; leave steps, epochs and time_s out and give p")

    def init(self, x0: Array) -> State:
        """Return the model x (p,)."""
        return {"x": x0}

    def client_state(self, x0: Array) -> State:
        """Return h_i = 0 and the model y_i (p,) that the client sent last; x0 at first."""
        return {"h": np.zeros_like(x0), "y": x0}

    def steps(self, clients: Clients, x: Array) -> Upload:
        """Client function: renew h_i, take the local steps from x (p,); upload y_i (K, p)."""
        solver = clients.solver
        assert isinstance(solver, SGD)  # `check_solver` has refused all others
        pull = self.p / solver.rate(clients.round)
        h = clients.state["h"] + pull * (x - clients.state["y"])
        local = clients.solve(x, correction=-h)
        return Upload({"y": local.x}, state={"h": h, "y": local.x}, loss=local.loss)

    def round(self, state: State) -> Round:
        """Server function: x <- mean y_i."""
        reply = yield Ask("steps", send={"x": state["x"]}, up={"y": state["x"].size})
        all_replied(reply, self.name)
        return {"x": reply.mean["y"]}, {}
