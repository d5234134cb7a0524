"""MaxFL: a global model that satisfies as many clients as possible.

Cho, Jhunjhunwala, Li, Smith, Joshi, "Maximizing Global Model Appeal in Federated Learning", TMLR
2024, https://openreview.net/forum?id=8GI1SXqJBk (2022: "To Federate or Not To Federate:
Incentivizing Client Participation in Federated Learning", https://arxiv.org/abs/2205.14840),
Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt

from rayfed.algorithms.base import Aim, Algorithm, Coded, Round
from rayfed.clients.clients import loss_alone
from rayfed.core.arrays import Array, Floats, like, to_numpy
from rayfed.core.columns import Column
from rayfed.messages import Ask, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class MaxFL(Algorithm):
    """FedAvg with weights by the distance of the loss to each client's threshold (Cho et al. 2024).

    The model x (p,) appeals to client i if F_i(x) <= rho_i, the loss of a model that it has trained
    alone. The server minimises sum_i s(F_i(x) - rho_i) with the sigmoid s in place of the number of
    clients that it does not appeal to: x <- x - server_lr sum_i q_i Delta_i / sum_i q_i over
    participants, with q_i = s'(F_i(x) - rho_i) = s (1 - s) at the model x that they were sent.

    Parameters
    ----------
    server_lr : float
        Server step eta_g.
    alone : int
        Local steps from the first model that give a client the model it compares with.
    weigh : "appeal" or "equally"
        q_i as above, or 1 for all, which is FedAvg.
    join_from : int, optional
        From this round on only clients join to which the model appeals; all do if None.
    weights : "size" or "uniform"
        Weights w_i of q_i; the paper's sum is uniform.

    Notes
    -----
    Clients compute F_i(x) on all their rows, and the server sees sums of q_i Delta_i, of q_i, and
    of how many clients the model appeals to and how many join. If none joins, the model stays.

    Deviations from the paper: thresholds are found before the simulation begins, which costs
    nothing; they stay as they are if rows change. The paper adds a small number to sum_i q_i, here
    a sum of 0 leaves the model where it is. That clients stay away from some round on is an
    experiment of the paper; a client that was away comes back when the model appeals to it.

    Examples
    --------
    Two clients moved by 2 and 1; the first counts three times as much:

    >>> from rayfed.testing.rounds import answer, reply
    >>> mean = {"pull": [(3 * 2.0 + 1 * 1.0) / 2], "q": [(3 + 1) / 2]}
    >>> mean |= {"appealed": [0.5], "joined": [1.0]}
    >>> state, _, _ = answer(MaxFL(), {"x": np.array([4.0])}, reply(mean))
    >>> state["x"]
    array([2.25])
    """

    name: ClassVar[str] = "maxfl"
    coded: ClassVar[Coded] = {"pull": "any"}
    aim: ClassVar[Aim] = "own"
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(
            "appealed", "participants that the model appeals to", better="higher",
            about="Share of participants with a loss, at the model they were sent, of at most that "
            "of their own model.",
        ),
        Column("joined", "participants that join", about="Share of participants with q_i > 0."),
    )  # fmt: skip

    weights: Literal["size", "uniform"] | None = "uniform"
    server_lr: Annotated[float, Gt(0)] = 1.0
    alone: Annotated[int, Ge(1)] = 100
    weigh: Literal["appeal", "equally"] = "appeal"
    join_from: Annotated[int, Ge(1)] | None = None

    def client_state(self, x0: Array) -> State:
        """Return the threshold rho_i (1,), not known yet, and the first model (p,)."""
        return {"rho": np.full(1, np.nan), "start": x0}

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: local steps from x (p,); upload q_i Delta_i (K, p), q_i and counts."""
        rho = self._thresholds(clients)
        above = np.broadcast_to(to_numpy(clients.value(x)), rho.shape) - rho
        joins = above <= 0
        appealed = joins
        if self.join_from is None or clients.round < self.join_from:
            joins = np.ones_like(appealed)
        q = joins * (slope(above) if self.weigh == "appeal" else 1.0)
        local = clients.solve(x)
        delta = x - local.x
        numbers = {"q": q, "appealed": appealed, "joined": q > 0}
        values = {name: like(values[:, None], delta) for name, values in numbers.items()}
        pull = delta * values["q"]
        return Upload({"pull": pull, **values}, {"rho": rho[:, None]}, local.loss)

    def round(self, state: State) -> Round:
        """Server function: x <- x - server_lr sum_i q_i Delta_i / sum_i q_i."""
        x = state["x"]
        up = {"pull": x.size, "q": 1, "appealed": 1, "joined": 1}
        reply = yield Ask("train", send={"x": x}, up=up, passes=1)
        mean = reply.mean
        if mean["q"].item() > 0:
            x = x - self.server_lr * (mean["pull"] / mean["q"])
        return {"x": x}, {name: mean[name].item() for name in ("appealed", "joined")}

    def _thresholds(self, clients: Clients) -> Floats:
        """Return rho_i (K,), found now by clients that take part for the first time."""
        rho = to_numpy(clients.state["rho"])[:, 0].astype(np.float64)
        new = np.flatnonzero(np.isnan(rho))
        if len(new):
            some = clients.chosen(new)
            rho[new] = loss_alone(some, some.state["start"], self.alone)
        return rho


def slope(z: Floats) -> Floats:
    """Return s'(z) of the sigmoid s, without cancellation.

    Examples
    --------
    >>> slope(np.array([0.0, 800.0])).tolist()
    [0.25, 0.0]
    """
    small = np.exp(-np.abs(z))
    return np.asarray(small / (1 + small) ** 2)
