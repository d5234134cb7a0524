"""FedHybrid, watched: the merit function of its convergence theorem, measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rayfed.algorithms.fedhybrid import FedHybrid, factor
from rayfed.core.arrays import Array, Floats
from rayfed.messages import Probe, State, Upload
from rayfed.numerics.minimise import minimise

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Watched(FedHybrid):
    """FedHybrid whose evaluated rows have Delta = 13 (g* - g(lambda)) + L(x, lambda) - g(lambda).

    g(lambda) = min L(., lambda) is searched as the least value over z (p,) of the sum of
    ``e_i(z) = min over v of f_i(v) + lambda_i'(z - v) + mu/2 ||z - v||^2``, which each client
    minimises for itself; g* is the least value of sum_i f_i.

    Parameters
    ----------
    contraction : float
        The factor by which Delta falls in a round, at least; NaN where nothing is guaranteed.
    multiple : float
        What F is multiplied by to be sum_i f_i.
    """

    contraction: float
    multiple: float

    def lagrangian(self, clients: Clients, x: Array) -> Upload:
        """Client half: the terms of L at x_i, lambda_i (K, p) and x_0 = x (p,), as (K, 1)."""
        values = [term(term.client.state["x"][0])[0] for term in self._terms(clients, x)]
        return Upload({"terms": np.array(values)[:, None]})

    def envelope(self, clients: Clients, z: Array) -> Upload:
        """Client half: e_i at z (p,), its gradient and Hessian in one vector (K, 1 + p + p^2)."""
        return Upload({"terms": np.stack([term.envelope() for term in self._terms(clients, z)])})

    def examine(self, state: State, probe: Probe) -> Mapping[str, float]:
        """Return Delta, NaN where F* is not known, and by what factor it should fall at least."""
        x, told = state["x"], {"merit": math.nan, "contraction": self.contraction}
        if probe.least is None:
            return told
        p = x.size

        def sums(z: Floats) -> Floats:
            return probe.ask("envelope", {"z": z}, {"terms": 1 + p + p * p})["terms"]

        def oracle(z: Floats) -> tuple[float, Floats]:
            terms = sums(z)
            return float(terms[0]), terms[1 : 1 + p]

        dual, _ = minimise(oracle, lambda z: sums(z)[1 + p :].reshape(p, p), x)
        primal = float(probe.ask("lagrangian", {"x": x}, {"terms": 1})["terms"][0])
        return told | {"merit": 13 * (self.multiple * probe.least - dual) + primal - dual}

    def _terms(self, clients: Clients, z: Array) -> list[_Term]:
        each = (clients.only(k) for k in range(len(clients.ids)))
        return [_Term(one, self.mu, z.astype(np.float64)) for one in each]


@dataclass(frozen=True)
class _Term:
    """The term of L of one client as a function of v (p,), its x_i; z (p,) is in place of x_0."""

    client: Clients
    mu: float
    z: Floats

    def __call__(self, v: Array) -> tuple[float, Floats]:
        """Return value and gradient (p,)."""
        at, scale, off = self._at(v), self._scale, self.z - v
        value = scale * self.client.value(at)[0] + self._dual @ off + self.mu / 2 * off @ off
        return float(value), scale * self.client.gradient(at)[0] - self._dual - self.mu * off

    def hessian(self, v: Array) -> Floats:
        """Return the Hessian (p, p)."""
        bend: Floats = self._scale * self.client.hessian(self._at(v))[0] + self.mu * np.eye(v.size)
        return bend

    def envelope(self) -> Floats:
        """Return the least value over v, its gradient and its Hessian in z, flat."""
        least, v = minimise(self, self.hessian, self.client.state["x"][0])
        slope = self._dual + self.mu * (self.z - v)
        bend = self.mu * np.eye(v.size) - self.mu**2 * np.linalg.inv(self.hessian(v))
        return np.concatenate([[least], slope, bend.ravel()])

    def _at(self, v: Array) -> Array:
        return v.astype(self.client.state["x"].dtype)

    @property
    def _dual(self) -> Floats:
        dual: Floats = self.client.state["dual"][0].astype(np.float64)
        return dual

    @property
    def _scale(self) -> float:
        return float(factor(self.client)[0, 0])
