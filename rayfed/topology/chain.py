"""Markov chains: stationary distribution, mixing time, hitting and cover times.

Small chains are analysed exactly with dense matrices, large ones by sparse eigenvalue solvers.
D. A. Levin, Y. Peres, E. L. Wilmer, "Markov Chains and Mixing Times", 2nd edition 2017, is cited
as LPW.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import (
    ArpackNoConvergence,
    LinearOperator,
    SuperLU,
    eigs,
    eigsh,
    splu,
    spsolve,
)

from rayfed.core.arrays import Floats
from rayfed.core.rng import Key

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

DENSE = 500
"""Largest number of clients for which dense matrices are used."""
_BALANCED = 1e-9  # relative error in detailed balance up to which a chain counts as reversible
_KRYLOV = 64
_RESTARTS = 30
_TARGETS, _SWEEPS = 32, 3  # starting clients of the search for the largest hitting time, and sweeps
_ROUNDING = 1e-12  # by which distances that are equal on paper may differ
_OFFSET = 1e-7  # distance of the shift from the eigenvalue 1


@dataclass(frozen=True, eq=False)
class Chain:
    """A Markov chain on the clients.

    Parameters
    ----------
    matrix : (N, N) sparse array
        Row i holds the probabilities of the moves from client i.
    """

    matrix: csr_array[Any]

    @property
    def count(self) -> int:
        """Number N of clients."""
        return int(self.matrix.shape[0])

    @cached_property
    def irreducible(self) -> bool:
        """Whether every client is reached from every other (irreducible)."""
        count, _ = csgraph.connected_components(self.matrix, connection="strong")
        return int(count) == 1

    @cached_property
    def period(self) -> int:
        """Greatest common divisor of the lengths of all cycles, in the largest component."""
        _, labels = csgraph.connected_components(self.matrix, connection="strong")
        main = int(np.flatnonzero(labels == np.bincount(labels).argmax())[0])
        depth = csgraph.dijkstra(self.matrix, indices=[main], unweighted=True)[0]
        moves = self.matrix.tocoo()
        # along a shortest path the depth grows by one; any other move closes a cycle
        inside = labels == labels[main]
        selected = inside[moves.row] & inside[moves.col]
        source, target = moves.row[selected], moves.col[selected]
        return int(np.gcd.reduce((depth[source] + 1 - depth[target]).astype(np.int64)))

    @cached_property
    def stationary(self) -> Floats:
        """The stationary distribution (N,).

        Raises
        ------
        ValueError
            If the chain is not irreducible.
        """
        if not self.irreducible:
            raise ValueError("the chain is not irreducible; it has no unique stationary law")
        law = self._balanced_law
        if law is not None:
            return law
        if self.count > DENSE:
            onward = self.matrix[[self.count - 1]].toarray()[0, :-1]
            law = np.append(spsolve(self._reduced.T.tocsc(), onward), 1.0)  # pi = pi P, up to scale
            return np.asarray(law / law.sum())
        balance = np.vstack([self.matrix.toarray().T - np.eye(self.count), np.ones(self.count)])
        target = np.append(np.zeros(self.count), 1.0)
        return np.asarray(np.linalg.lstsq(balance, target, rcond=None)[0])

    @property
    def reversible(self) -> bool:
        """Whether ``pi_i P_ij = pi_j P_ji`` for all pairs."""
        return self.irreducible and self._balanced_law is not None

    @cached_property
    def second_eigenvalue(self) -> float:
        """Second largest modulus of the eigenvalues, lambda_2(P); 1 if the chain never mixes.

        NaN if the solver did not converge, which happens for large non-reversible chains.
        """
        if not self.irreducible or self.period > 1:
            return 1.0
        if self.count == 1:
            return 0.0
        return self._dense_eigenvalue() if self.count <= DENSE else self._sparse_eigenvalue()

    def mixing_time(self, delta: float = 0.25) -> float:
        """Return the number of steps until the distribution is close to the stationary one.

        That is, at most ``delta`` away in total variation, from every start (LPW, section 4.5).

        Raises
        ------
        ValueError
            If there are more than `DENSE` clients; use `mixing_bounds`.
        """
        if self.count > DENSE:
            raise ValueError(f"the mixing time is computed for up to {DENSE} clients")
        if not self.irreducible or self.period > 1:
            return math.inf
        start = np.eye(self.count)
        if self._near(start, delta):
            return 0.0
        powers = [self.matrix.toarray()]
        while not self._near(powers[-1], delta):  # after 1, 2, 4, ... steps
            powers.append(powers[-1] @ powers[-1])
        done, law = 0, start
        for k in reversed(range(len(powers) - 1)):  # the largest number of steps that is too few
            further = law @ powers[k]
            if not self._near(further, delta):
                done, law = done + 2**k, further
        return float(done + 1)

    def mixing_bounds(self, delta: float = 0.25) -> tuple[float, float]:
        """Return bounds of the mixing time of a reversible chain, from lambda_2.

        With t = 1 / (1 - lambda_2): at least ``(t - 1) log(1 / (2 delta))`` and at most
        ``t (log(1 / min pi) / 2 + log(1 / (2 delta)))`` (LPW, theorems 12.4 and 12.5).

        Raises
        ------
        ValueError
            If the chain is not reversible.
        """
        if not self.irreducible or self.second_eigenvalue >= 1.0:
            return math.inf, math.inf
        if not self.reversible:
            raise ValueError("the bounds hold only for reversible chains")
        relax, near = 1.0 / (1.0 - self.second_eigenvalue), math.log(1.0 / (2.0 * delta))
        far = -math.log(float(self.stationary.min())) / 2.0
        return max(0.0, (relax - 1.0) * near), float(math.ceil(max(0.0, relax * (far + near))))

    def hitting_times(self) -> Floats:
        """Return the expected steps (N, N) from i until j is reached, by the fundamental matrix.

        Raises
        ------
        ValueError
            If the chain is not irreducible, or has more than `DENSE` clients (`hitting_times_of`).
        """
        if self.count > DENSE:
            raise ValueError(f"hitting times of all pairs are computed for up to {DENSE} clients")
        law = self.stationary
        inverse = np.linalg.inv(np.eye(self.count) - self.matrix.toarray() + law)
        return np.asarray((np.diagonal(inverse) - inverse) / law)

    def hitting_times_of(self, target: int) -> Floats:
        """Return the expected steps (N,) from every client until one is reached.

        They solve ``(I - P) h = 1 - e / pi``, where e is the unit vector of the target, up to a
        constant that makes h zero at the target.
        """
        balance = np.ones(self.count)
        balance[target] -= 1.0 / self.stationary[target]
        steps = np.zeros(self.count)
        if self.count > 1:
            steps[:-1] = self._factorised.solve(balance[:-1])
        return np.asarray(steps - steps[target])

    def longest_hitting(self) -> float:
        """Return the largest hitting time; for large graphs a lower bound.

        The bound is the largest hitting time of the clients that are entered least often, and of
        the clients farthest from them in turn.
        """
        if self.count <= DENSE:
            return float(self.hitting_times().max())
        flow = sparse.diags_array(self.stationary) @ self.matrix
        entered = flow.sum(axis=0) - flow.diagonal()
        longest = 0.0
        for target in np.argsort(entered, kind="stable")[:_TARGETS].tolist():
            for _ in range(_SWEEPS):
                steps = self.hitting_times_of(target)
                longest, target = max(longest, float(steps.max())), int(steps.argmax())
        return longest

    def cover_bounds(self) -> tuple[float, float]:
        """Return bounds of the cover time: the expected steps until all are visited, worst start.

        The smallest and the largest hitting time times ``1 + 1/2 + ... + 1/(N - 1)`` (Matthews;
        LPW, theorem 11.2 and proposition 11.4).
        """
        steps = self.hitting_times()[~np.eye(self.count, dtype=bool)]
        if not len(steps):
            return 0.0, 0.0
        harmonic = float((1.0 / np.arange(1, self.count)).sum())
        return float(steps.min()) * harmonic, float(steps.max()) * harmonic

    @cached_property
    def _factorised(self) -> SuperLU:
        return splu(self._reduced)

    @property
    def _reduced(self) -> csc_array[Any]:
        """``I - P`` without its last row and column, since ``I - P`` itself is singular."""
        return sparse.csc_array((sparse.eye_array(self.count) - self.matrix).tocsc()[:-1, :-1])

    def _near(self, laws: Floats, delta: float) -> bool:
        """Whether all rows (N, N) are within ``delta`` of the stationary law."""
        distance = np.abs(laws - self.stationary).sum(axis=1).max() / 2.0
        return bool(distance <= delta + _ROUNDING)

    @cached_property
    def _balanced_law(self) -> Floats | None:
        """The distribution in detailed balance, or None if there is none.

        Along a tree of moves ``pi_j = pi_i P_ij / P_ji``; then all other moves must agree.
        """
        if self.count == 1:
            return np.ones(1)
        order, before = csgraph.breadth_first_order(self.matrix, 0)
        children, parents = order[1:], before[order[1:]]
        entries = sparse.csr_matrix(self.matrix)  # supports indexing of single entries
        forth = np.asarray(entries[parents, children]).ravel()
        back = np.asarray(entries[children, parents]).ravel()
        if not back.all():
            return None
        law, ratio = np.ones(self.count), forth / back
        for i, parent, times in zip(children, parents, ratio, strict=True):
            law[i] = law[parent] * times
        law /= law.sum()
        flow = sparse.diags_array(law) @ self.matrix
        wrong = abs(flow - flow.T).max() > _BALANCED * flow.max()
        return None if wrong else law

    @property
    def _start(self) -> Floats:
        """Deterministic start vector (N,) for ARPACK, which would draw one at random."""
        return Key(0, "lanczos").normals(np.arange(self.count))

    def _dense_eigenvalue(self) -> float:
        if self.reversible:
            values = np.linalg.eigvalsh(self._symmetric().toarray())
            return float(max(-values[0], values[-2]))
        values = np.sort(np.abs(np.linalg.eigvals(self.matrix.toarray())))
        return float(values[-2])

    def _sparse_eigenvalue(self) -> float:
        """Return the largest modulus after deflating the eigenvalue 1."""
        law = self.stationary
        if not self.reversible:
            ones = np.ones(self.count)
            try:
                return self._leading(eigs, lambda x: self.matrix @ x - ones * (law @ x))
            except ArpackNoConvergence:  # clustered, as for walks around a cycle
                return math.nan
        matrix, top = self._symmetric(), np.sqrt(law)
        try:
            return self._leading(eigsh, lambda x: matrix @ x - top * (top @ x))
        except ArpackNoConvergence:  # clustered at 1, where shift-invert separates them
            return self._inverted_eigenvalue(matrix)

    def _leading(self, solver: Any, matvec: Callable[[Floats], Floats]) -> float:
        """Return the largest modulus of the eigenvalues of an operator."""
        operator = LinearOperator((self.count, self.count), matvec=matvec, dtype=np.float64)
        values = solver(
            operator, k=1, which="LM", v0=self._start, ncv=_KRYLOV, maxiter=_RESTARTS, tol=1e-9,
            return_eigenvectors=False,
        )  # fmt: skip
        return float(np.abs(values).max())

    def _inverted_eigenvalue(self, matrix: csr_array[Any]) -> float:
        """Return the root of the second eigenvalue of ``S^2``, by shift-invert at 1.

        ``S^2 - s^2 = (S - s)(S + s)``, two factors as sparse as S.
        """
        shift = (1.0 + _OFFSET) * sparse.eye_array(self.count)
        below, above = splu((matrix - shift).tocsc()), splu((matrix + shift).tocsc())
        size = (self.count, self.count)
        square = LinearOperator(size, lambda x: matrix @ (matrix @ x), dtype=np.float64)
        inverse = LinearOperator(size, lambda x: above.solve(below.solve(x)), dtype=np.float64)
        values = eigsh(
            square, k=2, sigma=(1.0 + _OFFSET) ** 2, OPinv=inverse, v0=self._start,
            return_eigenvectors=False,
        )  # fmt: skip
        return math.sqrt(float(values.min()))

    def _symmetric(self) -> csr_array[Any]:
        """Return ``D^1/2 P D^-1/2`` with ``D = diag(pi)``, which has the eigenvalues of P."""
        root = np.sqrt(self.stationary)
        made = sparse.diags_array(root) @ self.matrix @ sparse.diags_array(1.0 / root)
        return sparse.csr_array((made + made.T) / 2.0)
