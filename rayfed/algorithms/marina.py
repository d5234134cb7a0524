"""MARINA: compressed differences of gradients, and now and then full gradients.

Gorbunov, Burlachenko, Li, Richtarik, "MARINA: Faster Non-Convex Distributed Learning with
Compression", ICML 2021, https://arxiv.org/abs/2102.07845, Algorithm 1.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from rayfed.algorithms.base import Round, Weights
from rayfed.algorithms.compressed import Compressed, all_replied, gradient
from rayfed.core.arrays import Array, to_numpy
from rayfed.core.rng import Key
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards


@dataclass(frozen=True, kw_only=True)
class Marina(Compressed):
    """MARINA (Gorbunov et al. 2021).

    In round t, from x (p,), clients send grad F_i(x) if a shared coin decides so, with
    probability `p`, and in the first round; otherwise Q(grad F_i(x) - grad F_i(x before)). The
    server's g becomes the mean of gradients, or g plus the mean of changes, and x <- x - lr g.

    Parameters
    ----------
    p : float
        Probability of full gradients; k/d of Rand-k is the paper's choice.

    Notes
    -----
    Deviations from the paper: none.

    Examples
    --------
    The first round sends full gradients; here their mean is 2:

    >>> from rayfed.messages import Reply
    >>> algorithm = Marina(lr=0.5)
    >>> round = algorithm.round(algorithm.init(np.array([3.0])))
    >>> ask = next(round)
    >>> reply = Reply(np.arange(2), np.ones(2), {"change": np.array([2.0])}, {}, np.ones(2, int), 2)
    >>> try:
    ...     round.send(reply)
    ... except StopIteration as end:
    ...     print(ask.function, end.value[0]["x"], end.value[0]["g"])
    full_gradient [2.] [2.]
    """

    name: ClassVar[str] = "marina"

    p: Annotated[float, Interval(gt=0, le=1)] = 0.1
    _seed: int = field(default=0, init=False)

    def weighed(self, weights: Weights, draws_by_size: bool, shards: Shards, seed: int) -> Marina:
        """Return the algorithm that knows the seed of its coins."""
        bound = copy(self)
        object.__setattr__(bound, "_seed", seed)
        return bound

    def init(self, x0: Array) -> State:
        """Return x and g (p,), and the number of rounds."""
        return {"x": x0, "g": np.zeros_like(x0), "t": np.zeros(1, dtype=np.int64)}

    def client_state(self, x0: Array) -> State:
        """Return the gradient (p,) at the model before; there is none yet."""
        return {"g": np.zeros_like(x0)}

    def full_gradient(self, clients: Clients, x: Array) -> Upload:
        """Client function: grad F_i(x), (K, p)."""
        g = gradient(clients, x)
        return Upload({"change": g}, state={"g": g})

    def change(self, clients: Clients, x: Array) -> Upload:
        """Client function: Q(grad F_i(x) - grad F_i(x before)), (K, p)."""
        g = gradient(clients, x)
        change = self.compressed(clients, g - to_numpy(clients.state["g"]))
        return Upload({"change": change}, state={"g": g})

    def coin(self, t: int) -> bool:
        """Return whether full gradients are sent in round t, from 0."""
        return t == 0 or bool(Key(self._seed, "marina/coin").uniforms([0], round=t)[0] < self.p)

    def round(self, state: State) -> Round:
        """Server function: g <- mean, or g + mean of changes; x <- x - lr g."""
        x, t = state["x"], int(state["t"][0])
        full = self.coin(t)
        reply = yield self.ask(x, "full_gradient" if full else "change", {"x": x}, full)
        all_replied(reply, self.name)
        g = reply.mean["change"] + (0 if full else state["g"])
        return {"x": x - self.lr * g, "g": g, "t": state["t"] + 1}, {}
