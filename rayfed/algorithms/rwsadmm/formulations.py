"""Formulations of RWSADMM: local steps, and the use of their result.

They are descent of the augmented Lagrangian, what the paper's slides print (which diverges), what
the authors' released code does (nearer to a proximal FedAvg), and multipliers for each token and
client where every neighbourhood has a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.rwsadmm.tolerance import nearest, pull, widths
from rayfed.core.arrays import Array, Bools, Ints, copied, inner, like, namespace, to_numpy
from rayfed.messages import Reply, State, Upload
from rayfed.problems.base import Batch
from rayfed.solvers import Local
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Formulation:
    """Base of the formulations: a client function, and the update of the token.

    Settings are those of `RWSADMM`.

    Attributes
    ----------
    uploads : tuple of str
        Names of the vectors (p,) that a client uploads.
    plain : bool
        Whether their means are over clients, whatever their size.
    """

    uploads: ClassVar[tuple[str, ...]] = ("change",)
    plain: ClassVar[bool] = True

    beta: float
    epsilon: float | tuple[float, ...]
    kappa: float
    kappa_decay: float
    mix: float
    users: int

    def client_state(self, x0: Array) -> State:
        """Return the client state in addition to model and multiplier."""
        return {}

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: local steps of x_j and z_j (K, p) around the token y (p,)."""
        raise NotImplementedError

    def moved(self, y: Array, reply: Reply) -> Array:
        """Return the new token (p,): y and (1/n) times the sum of the changes."""
        return y + self.share(reply) * reply.mean["change"]

    def share(self, reply: Reply) -> float:
        """Return which share of all clients has answered."""
        return len(reply.ids) / reply.population

    # -- what client functions use ------------------------------------------------------------

    def kappa_of(self, round: int) -> float:
        """Return the step of the multipliers in a round."""
        return float(self.kappa * self.kappa_decay ** (round - 1))

    def following(self, clients: Clients, z: Array, y: Array) -> Callable[[Array, Ints], None]:
        """Return the function that moves the multipliers z (K, p) in place after a step."""
        epsilon, kappa = widths(self.epsilon, clients, z), self.kappa_of(clients.round)

        def follow(x: Array, index: Ints) -> None:
            z[index] += kappa * (pull(x, z[index], y, epsilon[index], self.beta) - z[index])

        return follow

    def steps(
        self,
        clients: Clients,
        slope: Callable[[Array, Array, Ints], Array],
        follow: Callable[[Array, Ints], None],
    ) -> Local:
        """Take local steps x <- x - slope / beta; after each of them the multipliers `follow`.

        Parameters
        ----------
        slope : callable
            From the stochastic gradients and the models (k, p) and which of the K clients they
            are (k,) to slopes (k, p).
        follow : callable
            Called with the new models (k, p) and which of the K clients they are (k,).
        """
        problem = clients.problem

        def lagrangian(x: Array, batches: Sequence[Batch], index: Ints) -> tuple[Array, Array]:
            loss, g = problem.value_and_gradient(x, batches[0])
            return loss, slope(g, x, index)

        assert isinstance(clients.solver, SGD)  # `check_solver` has refused all others
        solver = replace(clients.solver, lr=1 / self.beta, momentum=0.0, mu=0.0)
        walking = replace(clients, solver=solver)
        return walking.solve(clients.state["x"], gradient=lagrangian, after_step=follow)

    @staticmethod
    def upload(
        local: Local,
        z: Array,
        y: Array,
        values: Mapping[str, Array],
        held: Mapping[str, Array] = MappingProxyType({}),
    ) -> Upload:
        """Return an upload of `values` and the distance to the token (K,), keeping x, z and more.

        The distance is that of the new model x_j from y.
        """
        apart = local.x - y
        squares = to_numpy(inner(apart, apart))
        distance = np.sqrt(squares.astype(np.float64))
        state = {"x": local.x, "z": z, **held}
        return Upload({**values, "distance": distance}, state=state, loss=local.loss)


class LagrangianDescent(Formulation):
    """``x_j <- x_j - (g - P_j) / beta`` with ``P_j = S(z_j + beta (y - x_j))``.

    y is the mean of the parts y - P_j / beta, of which every client keeps its own.
    """

    def client_state(self, x0: Array) -> State:
        """Return the client's part of the token (p,)."""
        return {"part": x0}

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: upload the change (K, p) of the client's part of the token y (p,)."""
        z = copied(clients.state["z"])
        epsilon = widths(self.epsilon, clients, z)

        def slope(g: Array, x: Array, index: Ints) -> Array:
            return g - pull(x, z[index], y, epsilon[index], self.beta)

        local = self.steps(clients, slope, self.following(clients, z, y))
        part = y - pull(local.x, z, y, epsilon, self.beta) / self.beta
        change = {"change": part - clients.state["part"]}
        return self.upload(local, z, y, change, {"part": part})


class Printed(Formulation):
    """Multipliers z_j >= 0, and the inequality treated as an equation.

    With ``s = sgn(y - x_j)`` a local step is ``x_j <- y + s (z_j - epsilon - g) / beta``,
    ``z_j <- z_j + kappa beta (|y - x_j| - epsilon)``.
    """

    uploads: ClassVar[tuple[str, ...]] = ("new", "old")

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: upload x_j - (z_j / beta + epsilon) s (K, p), new and old."""
        x0, z = clients.state["x"], copied(clients.state["z"])
        epsilon, kappa = widths(self.epsilon, clients, x0), self.kappa_of(clients.round)
        xp = namespace(x0)

        def part(x: Array, z: Array) -> Array:
            new: Array = x - (z / self.beta + epsilon) * _side(y - x)
            return new

        def follow(x: Array, index: Ints) -> None:
            z[index] += kappa * self.beta * (xp.abs(y - x) - epsilon[index])

        def slope(g: Array, x: Array, index: Ints) -> Array:
            at: Array = self.beta * (x - y) - _side(y - x) * (z[index] - epsilon[index] - g)
            return at

        old = part(x0, z)
        local = self.steps(clients, slope, follow)
        return self.upload(local, z, y, {"new": part(local.x, z), "old": old})

    def moved(self, y: Array, reply: Reply) -> Array:
        """Return the new token (p,): only the new part is divided by n."""
        answered = len(reply.ids)
        moved: Array = y + self.share(reply) * reply.mean["new"] - answered * reply.mean["old"]
        return moved


def _side(t: Array) -> Array:
    """Return 1 or -1; 1 for 0, where the printed method would never begin to move."""
    xp = namespace(t)
    side: Array = xp.astype(xp.where(t < 0, -1, 1), t.dtype)
    return side


class Released(Formulation):
    """Every client has a token y_j of its own in a round, which starts at y and moves along.

    A local step is ``x_j <- y_j - (g - z_j + epsilon) / beta``,
    ``z_j <- z_j + kappa beta (x_j - y_j - epsilon)``, and y_j moves by the change of
    x_j - z_j / beta over `users`. kappa decays with every local step. The server mixes the mean
    of the x_j into its model.
    """

    uploads: ClassVar[tuple[str, ...]] = ("mean",)
    plain: ClassVar[bool] = False

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: upload x_j (K, p)."""
        x0, z = clients.state["x"], copied(clients.state["z"])
        epsilon = widths(self.epsilon, clients, x0)
        token, last = copied(namespace(y).broadcast_to(y, x0.shape)), x0 - z / self.beta
        taken = np.zeros(len(x0), dtype=np.int64)

        def follow(x: Array, index: Ints) -> None:
            done = (clients.round - 1) * clients.steps[index] + taken[index]
            kappa = like((self.kappa * self.kappa_decay**done)[:, None], x)
            z[index] += kappa * self.beta * (x - token[index] - epsilon[index])
            now = x - z[index] / self.beta
            token[index] += (now - last[index]) / self.users
            last[index] = now
            taken[index] += 1

        def slope(g: Array, x: Array, index: Ints) -> Array:
            return self.beta * (x - token[index]) + g - z[index] + epsilon[index]

        local = self.steps(clients, slope, follow)
        return self.upload(local, z, y, {"mean": local.x})

    def moved(self, y: Array, reply: Reply) -> Array:
        """Return the new model (p,)."""
        return (1 - self.mix) * y + self.mix * reply.mean["mean"]


_FREE = -1  # no neighbourhood has this place


@dataclass(frozen=True)
class Places:
    """Neighbourhoods of K clients, at most S of each.

    Parameters
    ----------
    of : (K, S) array of int
        The client whose neighbourhood it is; negative if the place is free.
    y, z, part : (K, S, p) array
        Its token, the multiplier of |x_j - y_i| <= epsilon, and what the client sent to it last.
    at : (K,) array of int
        The place of the neighbourhood that the server is in.
    """

    of: Ints
    y: Array
    z: Array
    part: Array
    at: Ints

    @classmethod
    def visited(cls, state: State, here: Array, y: Array) -> Places:
        """Return places of clients, with a token y (p,) of client `here` (1,) among them."""
        of, tokens = state["of"].astype(np.int64), copied(state["tokens"])
        same = of == int(here[0])
        at = np.where(same.any(axis=1), same.argmax(axis=1), (of == _FREE).argmax(axis=1))
        everyone = np.arange(len(of))
        of[everyone, at], tokens[everyone, at] = int(here[0]), y
        return cls(of, tokens, copied(state["z"]), copied(state["parts"]), at)

    @property
    def taken(self) -> Bools:
        """Which places are taken (K, S)."""
        return np.asarray(self.of != _FREE)

    @property
    def state(self) -> State:
        """The places as clients keep them."""
        return {"of": self.of, "tokens": self.y, "z": self.z, "parts": self.part}


class Pairs(Formulation):
    """The sound updates, with x_j in the Lagrangian terms of all tokens that it has met.

    A client keeps a place for each neighbourhood that it can be in, its own and those of its
    neighbours.
    """

    def places(self, x0: Array, count: int) -> State:
        """Return the free places of a client, before the server has come to any neighbourhood."""
        each = np.tile(x0, (count, 1))
        of = np.full(count, _FREE, dtype=np.int64)
        return {"of": of, "tokens": each, "z": np.zeros_like(each), "parts": each}

    def walk_from(self, clients: Clients, y: Array, here: Array) -> Upload:
        """Client function: local steps of x_j and z_ij around all tokens; y (p,) is that `here`."""
        epsilon, kappa = widths(self.epsilon, clients, y), self.kappa_of(clients.round)
        places = Places.visited(clients.state, here, y)
        everyone = np.arange(len(places.at))

        def follow(x: Array, index: Ints) -> None:
            place = index, places.at[index]
            z = places.z[place]
            places.z[place] = z + kappa * (pull(x, z, y, epsilon[index], self.beta) - z)

        local = self.steps(clients, self.slope(places, epsilon), follow)
        z = places.z[everyone, places.at]
        part = self.part(local.x, z, y, epsilon)
        change = part - places.part[everyone, places.at]
        places.part[everyone, places.at] = part
        held = {name: value for name, value in places.state.items() if name != "z"}
        return self.upload(local, places.z, y, {"change": change}, held)

    def slope(self, places: Places, epsilon: Array) -> Callable[[Array, Array, Ints], Array]:
        """Return beta (x - the next x) as a function of gradients, models (k, p) and clients."""

        def slope(g: Array, x: Array, index: Ints) -> Array:
            centres = places.y[index] + places.z[index] / self.beta
            new = nearest(centres, places.taken[index], g / self.beta, epsilon[index])
            return self.beta * (x - new)

        return slope

    def part(self, x: Array, z: Array, y: Array, epsilon: Array) -> Array:
        """Return the terms (K, p) of the mean y (p,)."""
        part: Array = x - z / self.beta + epsilon * namespace(z).sign(z)
        return part


class PairsDescent(Pairs):
    """Local steps that descend the same Lagrangian from where x_j is."""

    def slope(self, places: Places, epsilon: Array) -> Callable[[Array, Array, Ints], Array]:
        """Return the gradient in x over the number of tokens."""

        def slope(g: Array, x: Array, index: Ints) -> Array:
            xp, counts = namespace(x), like(places.taken[index], x)
            pulls = xp.zeros_like(x)
            for s in range(counts.shape[1]):  # in this order, whoever else is in the stack
                one = pull(x, places.z[index, s], places.y[index, s], epsilon[index], self.beta)
                pulls += xp.where(counts[:, s, None] > 0, one, 0)
            slope: Array = (g - pulls) / xp.sum(counts, axis=1)[:, None]
            return slope

        return slope

    def part(self, x: Array, z: Array, y: Array, epsilon: Array) -> Array:
        """Return the terms (K, p) of the mean y (p,)."""
        part: Array = y - pull(x, z, y, epsilon, self.beta) / self.beta
        return part
