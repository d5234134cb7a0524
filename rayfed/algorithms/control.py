"""Control variates: estimates of gradients at clients and server, which undo client drift.

They are SCAFFOLD's (Karimireddy et al. 2020); FedNova and FedExP can be combined with them. Client
i has c_i (p,), the server c (p,), both zero at the start. c is the mean of the c_i with the weights
w_i of the mean over participants, relative to their mean over all clients; client i keeps w_i c_i.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from rayfed.algorithms import memory
from rayfed.core.arrays import Array, Floats, like, namespace
from rayfed.core.errors import ScenarioError
from rayfed.messages import Ask, Reply, State, Upload
from rayfed.solvers import Local
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients

Option = Literal[1, 2]
CHANGE = "control"
"""What the change of the control variates is called in an `Upload`."""


def zeros(x0: Array, used: bool = True) -> dict[str, Array]:
    """Return the first control variate of a client or of the server; nothing if none is used."""
    return {"c": np.zeros_like(x0)} if used else {}


def ask(state: State, up: Mapping[str, int]) -> Ask:
    """Return the Ask for the client function `train` from x (p,), and from c (p,) if there is one.

    Parameters
    ----------
    state : mapping of str to array
        The server's: "x", and "c" if control variates are used.
    up : mapping of str to int
        Uploads in addition to the change of the control variates.
    """
    x = state["x"]
    if "c" not in state:
        return Ask("train", send={"x": x}, up=up)
    send = {"x": x, "c": state["c"]}
    return Ask("train", send=send, up={**up, CHANGE: x.size}, plain=(CHANGE,))


def solve(
    clients: Clients, x: Array, c: Array | None, shares: Floats | None, option: Option = 2
) -> tuple[Local, Upload]:
    """Take local steps along g - c_i + c, and renew c_i; along g alone if c is None.

    Parameters
    ----------
    clients : Clients
        K clients with the state "c" (K, p), which is w_i c_i.
    x : (p,) array
        The broadcast model.
    c : (p,) array, optional
        The server's control variate.
    shares : (K,) array, optional
        The weights w_i; None if all are 1.
    option : 1 or 2
        The new c_i: the gradient of F_i at x, or what the local steps went along,
        c_i - c + (x - x_i) / (lr_t ||a_i||_1); ||a_i||_1 is the number of steps of plain SGD.

    Returns
    -------
    local : Local
    upload : Upload
        w_i (c_i+ - c_i) (K, p) as `CHANGE`, and w_i c_i+ (K, p) as client state; empty if c is
        None.
    """
    if c is None:
        return clients.solve(x), Upload({})
    weighted = clients.state["c"]
    c_i = memory.over(shares, weighted)
    local = clients.solve(x, correction=c - c_i)
    after = clients.gradient(x) if option == 1 else c_i - c + gradients(clients, x - local.x)
    after = memory.times(shares, namespace(after).astype(after, c_i.dtype, copy=False))
    return local, Upload({CHANGE: after - weighted}, {"c": after}, mirrors={"c": (CHANGE, 1.0)})


def gradients(clients: Clients, delta: Array) -> Array:
    """Return the weighted mean (K, p) of the gradients that made up a change x - x_i (K, p)."""
    solver = clients.solver
    assert isinstance(solver, SGD)  # `need_sgd` has refused all others
    norm = solver.normaliser(clients.steps, clients.round) * solver.rate(clients.round)
    mean: Array = delta / like(norm[:, None], delta)
    return mean


def renewed(state: State, reply: Reply) -> dict[str, Array]:
    """Return the server's new control variate, c + (1/N) sum_S w_i (c_i+ - c_i), if any."""
    return {"c": state["c"] + memory.change(reply, CHANGE)} if "c" in state else {}


def need_sgd(solver: Solver, name: str) -> None:
    """Refuse a local solver other than SGD, whose coefficients of gradients are known.

    Raises
    ------
    ScenarioError
        If it is not SGD.
    """
    if not isinstance(solver, SGD):
        text = f"found '{solver.name}', but '{name}' must know how a local solver adds up gradients"
        raise ScenarioError("local", f"{text}; use sgd")
