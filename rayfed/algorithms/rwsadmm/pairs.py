"""RWSADMM with a token for each neighbourhood: a multiplier for each token and client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rayfed.algorithms.rwsadmm.formulation import Formulation
from rayfed.algorithms.rwsadmm.tolerance import nearest, pull, widths
from rayfed.core.arrays import Array, Bools, Ints, copied, like, namespace
from rayfed.messages import State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients

_FREE = -1  # no neighbourhood has this place


@dataclass(frozen=True)
class Places:
    """What K clients know of the neighbourhoods that they are in, at most S of them.

    Parameters
    ----------
    of : (K, S) array of int
        Whose neighbourhood it is; negative if the place is free.
    y, z, part : (K, S, p) array
        Its token, the multiplier of |x_j - y_i| <= epsilon, and what the client last told it.
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

        def follow(x: Array, who: Ints) -> None:
            place = who, places.at[who]
            z = places.z[place]
            places.z[place] = z + kappa * (pull(x, z, y, epsilon[who], self.beta) - z)

        local = self.steps(clients, self.slope(places, epsilon), follow)
        z = places.z[everyone, places.at]
        part = self.part(local.x, z, y, epsilon)
        change = part - places.part[everyone, places.at]
        places.part[everyone, places.at] = part
        kept = {name: value for name, value in places.state.items() if name != "z"}
        return self.upload(local, places.z, y, {"change": change}, kept)

    def slope(self, places: Places, epsilon: Array) -> Callable[[Array, Array, Ints], Array]:
        """Return beta (x - the next x) as a function of gradients, models (k, p) and who it is."""

        def slope(g: Array, x: Array, who: Ints) -> Array:
            centres = places.y[who] + places.z[who] / self.beta
            new = nearest(centres, places.taken[who], g / self.beta, epsilon[who])
            return self.beta * (x - new)

        return slope

    def part(self, x: Array, z: Array, y: Array, epsilon: Array) -> Array:
        """Return what the token y (p,) is the mean of (K, p)."""
        part: Array = x - z / self.beta + epsilon * namespace(z).sign(z)
        return part


class PairsDescent(Pairs):
    """Local steps that descend the same Lagrangian from where x_j is."""

    def slope(self, places: Places, epsilon: Array) -> Callable[[Array, Array, Ints], Array]:
        """Return the gradient in x over the number of tokens."""

        def slope(g: Array, x: Array, who: Ints) -> Array:
            xp, counts = namespace(x), like(places.taken[who], x)
            pulls = xp.zeros_like(x)
            for s in range(counts.shape[1]):  # in this order, whoever else is in the stack
                one = pull(x, places.z[who, s], places.y[who, s], epsilon[who], self.beta)
                pulls += xp.where(counts[:, s, None] > 0, one, 0)
            slope: Array = (g - pulls) / xp.sum(counts, axis=1)[:, None]
            return slope

        return slope

    def part(self, x: Array, z: Array, y: Array, epsilon: Array) -> Array:
        """Return what the token y (p,) is the mean of (K, p)."""
        part: Array = y - pull(x, z, y, epsilon, self.beta) / self.beta
        return part
