"""What a transition matrix does in the long run: its law, how fast it mixes, when it hits whom.

Small chains are computed densely and exactly, large ones by sparse eigenvalues. D. A. Levin,
Y. Peres, E. L. Wilmer, "Markov Chains and Mixing Times", 2nd edition 2017, is cited as LPW.
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
"""Up to so many clients, matrices are handled whole."""
_BALANCED = 1e-9  # relative error in detailed balance of a chain that counts as reversible
_KRYLOV = 64
_RESTARTS = 30
_TARGETS, _SWEEPS = 32, 3  # clients from whom far ones are looked for, and how often
_BESIDE = 1e-7  # how far beside its eigenvalue 1 a matrix is inverted


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
    def whole(self) -> bool:
        """Whether every client is reached from every other (irreducible)."""
        found, _ = csgraph.connected_components(self.matrix, connection="strong")
        return int(found) == 1

    @cached_property
    def period(self) -> int:
        """Greatest common divisor of the lengths of all ways back, in the largest part."""
        _, labels = csgraph.connected_components(self.matrix, connection="strong")
        main = int(np.flatnonzero(labels == np.bincount(labels).argmax())[0])
        depth = csgraph.dijkstra(self.matrix, indices=[main], unweighted=True)[0]
        moves = self.matrix.tocoo()
        # along a shortest way the depth grows by one; any other move closes a way back
        inside = labels == labels[main]
        kept = inside[moves.row] & inside[moves.col]
        here, there = moves.row[kept], moves.col[kept]
        return int(np.gcd.reduce((depth[here] + 1 - depth[there]).astype(np.int64)))

    @cached_property
    def stationary(self) -> Floats:
        """The law (N,) that the chain keeps.

        Raises
        ------
        ValueError
            If there are several, since the chain is not whole.
        """
        if not self.whole:
            raise ValueError("the chain is not whole: it has no single stationary law")
        law = self._balanced
        if law is not None:
            return law
        if self.count > DENSE:
            onward = self.matrix[[self.count - 1]].toarray()[0, :-1]
            law = np.append(spsolve(self._rest.T.tocsc(), onward), 1.0)  # pi = pi P, but for scale
            return np.asarray(law / law.sum())
        balance = np.vstack([self.matrix.toarray().T - np.eye(self.count), np.ones(self.count)])
        target = np.append(np.zeros(self.count), 1.0)
        return np.asarray(np.linalg.lstsq(balance, target, rcond=None)[0])

    @property
    def reversible(self) -> bool:
        """Whether ``pi_i P_ij = pi_j P_ji`` for all pairs."""
        return self.whole and self._balanced is not None

    @cached_property
    def slem(self) -> float:
        """Second largest modulus of the eigenvalues, lambda_2(P); 1 if the chain never mixes.

        NaN where it was not found, which happens to large chains that are not reversible.
        """
        if not self.whole or self.period > 1:
            return 1.0
        if self.count == 1:
            return 0.0
        return self._dense_slem() if self.count <= DENSE else self._sparse_slem()

    def mixing_time(self, delta: float = 0.25) -> float:
        """Return the fewest steps after which the law is near to the stationary one.

        Near means at most ``delta`` away in total variation, from every start (LPW, section 4.5).

        Raises
        ------
        ValueError
            If there are more than `DENSE` clients; `mixing_bounds` serves them.
        """
        if self.count > DENSE:
            raise ValueError(f"exact only for up to {DENSE} clients")
        if not self.whole or self.period > 1:
            return math.inf
        start = np.eye(self.count)
        if self._away(start) <= delta:
            return 0.0
        powers = [self.matrix.toarray()]
        while self._away(powers[-1]) > delta:  # after 1, 2, 4, ... steps
            powers.append(powers[-1] @ powers[-1])
        done, law = 0, start
        for k in reversed(range(len(powers) - 1)):  # the most steps after which it is not near
            further = law @ powers[k]
            if self._away(further) > delta:
                done, law = done + 2**k, further
        return float(done + 1)

    def mixing_bounds(self, delta: float = 0.25) -> tuple[float, float]:
        """Return bounds of the mixing time of a reversible chain, from lambda_2 alone.

        With t = 1 / (1 - lambda_2): at least ``(t - 1) log(1 / (2 delta))`` and at most
        ``t (log(1 / min pi) / 2 + log(1 / (2 delta)))`` (LPW, theorems 12.4 and 12.5).

        Raises
        ------
        ValueError
            If the chain is not reversible.
        """
        if not self.whole or self.slem >= 1.0:
            return math.inf, math.inf
        if not self.reversible:
            raise ValueError("the bounds hold for reversible chains alone")
        relax, near = 1.0 / (1.0 - self.slem), math.log(1.0 / (2.0 * delta))
        far = -math.log(float(self.stationary.min())) / 2.0
        return max(0.0, (relax - 1.0) * near), float(math.ceil(max(0.0, relax * (far + near))))

    def hitting_times(self) -> Floats:
        """Return the expected steps (N, N) from i until j is reached, by the fundamental matrix.

        Raises
        ------
        ValueError
            If the chain is not whole, or has more than `DENSE` clients (`hitting_times_of`).
        """
        if self.count > DENSE:
            raise ValueError(f"all pairs only for up to {DENSE} clients")
        law = self.stationary
        inverse = np.linalg.inv(np.eye(self.count) - self.matrix.toarray() + law)
        return np.asarray((np.diagonal(inverse) - inverse) / law)

    def hitting_times_of(self, target: int) -> Floats:
        """Return the expected steps (N,) from every client until one is reached.

        They solve ``(I - P) h = 1 - e / pi`` with e at the target, where one step more than from
        the others leads back after 1 / pi; up to a constant, which is 0 there.
        """
        balance = np.ones(self.count)
        balance[target] -= 1.0 / self.stationary[target]
        steps = np.zeros(self.count)
        if self.count > 1:
            steps[:-1] = self._grounded.solve(balance[:-1])
        return np.asarray(steps - steps[target])

    def longest_hitting(self) -> float:
        """Return the largest hitting time, on large graphs a bound of it from below.

        That is the largest to some of the clients that are come to most seldom, and from there to
        the farthest in turn.
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
        """Return bounds of the expected steps until all are visited, from the worst start.

        The smallest and the largest hitting time times ``1 + 1/2 + ... + 1/(N - 1)`` (Matthews;
        LPW, theorem 11.2 and proposition 11.4).
        """
        steps = self.hitting_times()[~np.eye(self.count, dtype=bool)]
        if not len(steps):
            return 0.0, 0.0
        harmonic = float((1.0 / np.arange(1, self.count)).sum())
        return float(steps.min()) * harmonic, float(steps.max()) * harmonic

    @cached_property
    def _grounded(self) -> SuperLU:
        return splu(self._rest)

    @property
    def _rest(self) -> csc_array[Any]:
        """``I - P`` without its last client: whole it has no inverse."""
        return sparse.csc_array((sparse.eye_array(self.count) - self.matrix).tocsc()[:-1, :-1])

    def _away(self, laws: Floats) -> float:
        """Return the largest total variation between rows (N, N) and the stationary law."""
        return float(np.abs(laws - self.stationary).sum(axis=1).max() / 2.0)

    @cached_property
    def _balanced(self) -> Floats | None:
        """The law in detailed balance, or None if there is none.

        Along a tree of moves ``pi_j = pi_i P_ij / P_ji``; then all other moves must agree.
        """
        if self.count == 1:
            return np.ones(1)
        order, before = csgraph.breadth_first_order(self.matrix, 0)
        children, parents = order[1:], before[order[1:]]
        entries = sparse.csr_matrix(self.matrix)  # of which single ones can be taken
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
        """A first vector (N,) for Lanczos, which would draw one at random."""
        return Key(0, "lanczos").normals(np.arange(self.count))

    def _dense_slem(self) -> float:
        if self.reversible:
            values = np.linalg.eigvalsh(self._symmetric().toarray())
            return float(max(-values[0], values[-2]))
        values = np.sort(np.abs(np.linalg.eigvals(self.matrix.toarray())))
        return float(values[-2])

    def _sparse_slem(self) -> float:
        """Return the largest modulus once the eigenvalue 1 is taken out."""
        law = self.stationary
        if not self.reversible:
            ones = np.ones(self.count)
            try:
                return self._leading(eigs, lambda x: self.matrix @ x - ones * (law @ x))
            except ArpackNoConvergence:  # as of walks that go around, whose eigenvalues crowd
                return math.nan
        matrix, top = self._symmetric(), np.sqrt(law)
        try:
            return self._leading(eigsh, lambda x: matrix @ x - top * (top @ x))
        except ArpackNoConvergence:  # eigenvalues crowd at 1, where an inverse tells them apart
            return self._inverted_slem(matrix)

    def _leading(self, solver: Any, matvec: Callable[[Floats], Floats]) -> float:
        """Return the largest modulus of the eigenvalues of an operator."""
        operator = LinearOperator((self.count, self.count), matvec=matvec, dtype=np.float64)
        values = solver(
            operator, k=1, which="LM", v0=self._start, ncv=_KRYLOV, maxiter=_RESTARTS, tol=1e-9,
            return_eigenvectors=False,
        )  # fmt: skip
        return float(np.abs(values).max())

    def _inverted_slem(self, matrix: csr_array[Any]) -> float:
        """Return the root of the second eigenvalue of ``S^2``, found from its inverse at 1.

        ``S^2 - s^2 = (S - s)(S + s)``, two factors that stay as sparse as S.
        """
        shift = (1.0 + _BESIDE) * sparse.eye_array(self.count)
        below, above = splu((matrix - shift).tocsc()), splu((matrix + shift).tocsc())
        size = (self.count, self.count)
        square = LinearOperator(size, lambda x: matrix @ (matrix @ x), dtype=np.float64)
        inverse = LinearOperator(size, lambda x: above.solve(below.solve(x)), dtype=np.float64)
        values = eigsh(
            square, k=2, sigma=(1.0 + _BESIDE) ** 2, OPinv=inverse, v0=self._start,
            return_eigenvectors=False,
        )  # fmt: skip
        return math.sqrt(float(values.min()))

    def _symmetric(self) -> csr_array[Any]:
        """Return ``D^1/2 P D^-1/2`` with D of the law, which has the eigenvalues of P."""
        root = np.sqrt(self.stationary)
        made = sparse.diags_array(root) @ self.matrix @ sparse.diags_array(1.0 / root)
        return sparse.csr_array((made + made.T) / 2.0)
