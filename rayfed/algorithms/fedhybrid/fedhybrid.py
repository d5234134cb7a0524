"""FedHybrid: every client takes gradient steps or Newton steps, as it can afford.

Niu, Wei, "FedHybrid: A Hybrid Federated Optimization Method for Heterogeneous Clients", IEEE
Transactions on Signal Processing 71, 2023, https://arxiv.org/abs/2106.01279, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Gt

from rayfed.algorithms.base import Aim, Algorithm, Coded, Round
from rayfed.algorithms.columns import CG_RESIDUAL, CG_TOLERANCE, unsolved
from rayfed.algorithms.fedhybrid.newton import (
    Newton,
    NewtonIds,
    newton_clients,
    pieces,
    solution_passes,
)
from rayfed.algorithms.fedhybrid.theorem import Merit, Theorem
from rayfed.algorithms.memory import refuse_sizes
from rayfed.core.arrays import Array, Floats, Ints, copied, like, to_numpy
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.machine import in_words
from rayfed.core.names import numbered
from rayfed.core.needs import (
    EXACT_DOWNLOADS,
    FRESH,
    GRADIENTS,
    HESSIANS,
    MEAN,
    PRODUCTS,
    Terms,
    where,
)
from rayfed.measures.base import Measure
from rayfed.messages import Ask, Diagnostics, Reply, State, Upload
from rayfed.numerics.newton import Cholesky, ConjugateGradients, Systems, tolerance
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective

Step: TypeAlias = Annotated[float, Gt(0)] | tuple[Annotated[float, Gt(0)], ...]
MOST_HESSIANS = 2**28
"""Bytes of Hessians that are held at once."""
STEPS = ("alpha_gradient", "beta_gradient", "alpha_newton", "beta_newton")


@dataclass(frozen=True, kw_only=True)
class FedHybrid(Algorithm):
    """A primal-dual method with gradient and Newton clients (Niu and Wei 2023).

    Minimises sum_i f_i(x_i) under x_i = x_0 along the augmented Lagrangian
    ``L = sum_i f_i(x_i) + lambda_i'(x_0 - x_i) + mu/2 ||x_0 - x_i||^2``. Client i keeps x_i and
    lambda_i (p,), x_0 and 0 at the start. From the old x_i, lambda_i and x_0, with
    ``r_i = grad f_i(x_i) - lambda_i + mu (x_i - x_0)`` and ``M_i = Hessian f_i(x_i) + mu I``:

        gradient type  x_i <- x_i - alpha r_i,         lambda_i <- lambda_i + beta (x_0 - x_i)
        Newton type    x_i <- x_i - alpha M_i^-1 r_i,  lambda_i <- lambda_i + beta M_i (x_0 - x_i)
        server         x_0 <- mean_i (x_i - lambda_i / mu), of the new ones

    Parameters
    ----------
    newton : int, float, list of int or str, "all" or "fastest 25%"
        Which clients take Newton steps: a number of clients or a share of them (0.25), chosen by
        the seed; the clients with these ids; all; or the fastest ("fastest 5", "fastest 25%"), by
        their seconds per step. The others take gradient steps.
    alpha_gradient, beta_gradient : float or list of float
        Primal and dual step of gradient clients; a list has a step for each of all clients.
    alpha_newton, beta_newton : float or list of float
        Primal and dual step of Newton clients.
    mu : float
        Penalty on x_i - x_0.
    inner_steps : int
        Primal steps of a gradient client in a round, with the round's x_0 and lambda_i.
    newton_solver : "cholesky" or "cg"
        How Newton clients solve with M_i: as a matrix, or by conjugate gradients from products.
    cg_steps : int
        Products in a solution by conjugate gradients, at most; the clock charges all of them.
    steps : "given" or "theorem"
        The four steps above, or the longest that are proven to converge (see `theorem.Theorem`;
        for linear models that are strongly convex).
    merit : bool
        Whether evaluated rows have the columns `merit`, the theorem's Delta (NaN where F* is not
        known), `contraction`, the factor by which it must fall in every round in which everyone
        takes part (NaN where the steps are given), and `contraction_measured`, that by which it
        has fallen a round since the last such row. It takes some hundred gradients of each
        client in each evaluation, and no simulated time.
    local : Solver
        No steps of it are taken; its ``batch`` is the number of rows read in the time of a step
        that ``clients.delay`` gives, and so what a gradient on all rows costs.

    Notes
    -----
    f_i is F_i; under ``weighting: size`` it is F_i times n_i over the mean n_j, so that the sum
    has the minimiser of F. In time a Newton step is charged as p/4 + p^2/(12 n_i) + p/n_i gradients
    on top of its own (n p^2, p^3/3 and 4 p^2 operations against 4 n p), with conjugate gradients as
    cg_steps + 1.

    The column `indefinite` counts the Newton clients of a round whose M_i was not positive
    definite: another matrix, or direction, took its place (`rayfed.numerics.newton`), with a
    warning. With "cg" the column `cg_residual` is the largest relative residual among the others
    of the round, which their clients upload; a warning reports a residual above rounding.

    Deviations from the paper: clients send only the change of x_i - lambda_i / mu, which is all
    that the server uses; it adds the changes up without loss, so that x_0 stays the mean. That
    also goes beyond the paper, in which all clients take part: an absent client keeps x_i and
    lambda_i, and they stay in the mean. The paper does not say at which iterate the Hessian is
    taken; here it is the old x_i. `inner_steps` is of a later study of the same group
    (https://github.com/ZhijingZeng/fedHybrid-experiment).
    The dual steps of `theorem` rest on a bound that is worked out here, not on the printed one.

    Examples
    --------
    Two clients have changed x_i - lambda_i / mu by 2 and 4: x_0 = 1 moves by their mean.

    >>> from rayfed.messages import Reply
    >>> algorithm = FedHybrid()
    >>> round = algorithm.round(algorithm.init(np.array([1.0])))
    >>> ask = next(round)
    >>> mean, one = {"change": np.array([3.0])}, np.ones(2)
    >>> try:
    ...     round.send(Reply(np.arange(2), one, mean, {}, np.zeros(2, int), population=2))
    ... except StopIteration as end:
    ...     end.value[0]["x"]
    array([4.])
    """

    name: ClassVar[str] = "fedhybrid"
    coded: ClassVar[Coded] = {}
    needs: ClassVar[Terms] = frozenset({MEAN, FRESH, EXACT_DOWNLOADS, GRADIENTS})
    aim: ClassVar[Aim] = "own"
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(
            "indefinite", "indefinite Newton matrices",
            about="Newton clients of the round whose matrix was not positive definite.",
        ),
        CG_RESIDUAL,
        CG_TOLERANCE,
    )  # fmt: skip
    theory: ClassVar[tuple[type[Measure], ...]] = (Merit,)

    newton: Newton = 0
    alpha_gradient: Step = 0.1
    beta_gradient: Step = 0.1
    alpha_newton: Step = 1.0
    beta_newton: Step = 0.1
    mu: Annotated[float, Gt(0)] = 1.0
    inner_steps: Annotated[int, Ge(1)] = 1
    newton_solver: Literal["cholesky", "cg"] = "cholesky"
    cg_steps: Annotated[int, Ge(1)] = 50
    steps: Literal["given", "theorem"] = "given"
    merit: bool = False
    local: Solver = field(default_factory=lambda: SGD(steps=1, batch="full"))

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_sizes(self)
        if self.steps == "theorem":
            also = [name for name in STEPS if getattr(self, name) != getattr(FedHybrid, name)]
            also += ["inner_steps"] * (self.inner_steps > 1)
            if also:
                raise ScenarioError("steps", f"found theorem and {also[0]}; leave one of them out")

    @property
    def setting_needs(self) -> Terms:
        """Hessians or their products, once the Newton clients are known."""
        newton = isinstance(self.newton, tuple) and bool(self.newton)
        return where({PRODUCTS if self.newton_solver == "cg" else HESSIANS: newton})

    def bound(self, shards: Shards, population: Population, objective: Objective) -> FedHybrid:
        """Return the algorithm with the ids of its Newton clients, and the steps of all.

        Raises
        ------
        ScenarioError
            If the Newton clients or the steps do not fit the clients or the problem.
        """
        ids = newton_clients(self.newton, population)
        p = objective.problem.size(shards.features, shards.classes)
        if ids and self.newton_solver == "cholesky" and 8 * p * p > MOST_HESSIANS:
            text = f"found cholesky, but a Hessian of {p} x {p} takes {in_words(8 * p * p)}"
            raise ScenarioError("newton_solver", f"{text}; use cg")
        for name in STEPS:
            given = getattr(self, name)
            if isinstance(given, tuple) and len(given) != population.count:
                text = f"found {len(given)} steps for {population.count} clients"
                raise ScenarioError(f"{name}", f"{text}; give one number, or one each")
        if self.steps == "given":
            return replace(self, newton=ids)
        alpha, beta = Theorem.of(ids, self.mu, shards, objective).steps
        primal, dual = tuple(alpha.tolist()), tuple(beta.tolist())
        return replace(
            self, newton=ids, steps="given",
            alpha_gradient=primal, alpha_newton=primal, beta_gradient=dual, beta_newton=dual,
        )  # fmt: skip

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measure of the theorem's merit function, if it is asked for."""
        proven = self.newton if self.steps == "theorem" else None
        return (Merit(mu=self.mu, newton=proven),) if self.merit else ()

    def warnings(self, reported: Mapping[str, Floats]) -> list[str]:
        """Warn about rounds with an M_i that was not positive definite or not solved."""
        rounds = int(np.count_nonzero(reported["indefinite"] > 0))
        what = (
            f"{self.label or self.name}: in {rounds} rounds the matrix of a Newton client was not"
        )
        warned = [f"{what} positive definite, and another took its place"] if rounds else []
        return warned + unsolved(self.label or self.name, reported)

    def init(self, x0: Array) -> State:
        """Return x_0 (p,) and its rounding error (p,), which is zero at the start."""
        return {"x": x0, "cut": np.zeros_like(x0)}

    def client_state(self, x0: Array) -> State:
        """Return the first x_i = x_0 and lambda_i = 0 (p,)."""
        return {"x": x0, "dual": np.zeros_like(x0)}

    def update(self, clients: Clients, x: Array) -> Upload:
        """Client function: one step of either type from x_i, lambda_i (K, p) and x_0 = x (p,)."""
        old_x, old_dual = clients.state["x"], clients.state["dual"]
        new_x, new_dual = copied(old_x), copied(old_dual)
        indefinite, residual = np.zeros((2, len(clients.ids)))
        newton = self._newton_ids.among(clients.ids)
        if not newton.all():
            at = np.flatnonzero(~newton)
            new_x[at], new_dual[at] = self._gradient_type(clients.chosen(at), x)
        together = MOST_HESSIANS // (8 * clients.p**2) if self.newton_solver == "cholesky" else None
        for at in pieces(np.flatnonzero(newton), together):
            new_x[at], new_dual[at], systems = self._newton_type(clients.chosen(at), x)
            indefinite[at] = systems.indefinite
            if isinstance(systems, ConjugateGradients):
                residual[at] = systems.residual
        values = {"change": (new_x - old_x) - (new_dual - old_dual) / self.mu}
        if self._newton_ids:
            values["indefinite"] = indefinite
        if self._by_cg:
            values["residual"] = residual
        return Upload(values, {"x": new_x, "dual": new_dual})

    def round(self, state: State) -> Round:
        """Server function: x_0 stays the mean of x_i - lambda_i / mu over all clients."""
        x = state["x"]
        up = {"change": x.size} | ({"indefinite": 1} if self._newton_ids else {})
        up |= {"residual": 1} if self._by_cg else {}
        passes = partial(self._passes, x.size)
        reply = yield Ask(
            "update", send={"x": x}, up=up, cost=0.0, passes=passes, plain=("change",)
        )
        share = len(reply.ids) / reply.population
        x, cut = _plus(x, state["cut"] + share * reply.mean["change"])
        indefinite = reply.each["indefinite"].sum() if self._newton_ids else 0.0
        return {"x": x, "cut": cut}, {"indefinite": float(indefinite), **self._residuals(x, reply)}

    def _residuals(self, x: Array, reply: Reply) -> Diagnostics:
        """Return the largest residual of conjugate gradients, and that at which they end."""
        if not self._by_cg:
            return {"cg_residual": 0.0, "cg_tolerance": 0.0}  # solved directly
        largest = np.max(reply.each["residual"], where=reply.each["indefinite"] == 0, initial=0)
        return {"cg_residual": float(largest), "cg_tolerance": tolerance(x.dtype)}

    def _gradient_type(self, clients: Clients, x0: Array) -> tuple[Array, Array]:
        """Return x_i and lambda_i (K, p) after gradient steps."""
        old, dual = clients.state["x"], clients.state["dual"]
        alpha, beta = self._step("alpha_gradient", clients), self._step("beta_gradient", clients)
        x = old
        for _ in range(self.inner_steps):
            x = x - alpha * self._residual(clients, x, x0)
        return x, dual + beta * (x0 - old)

    def _newton_type(self, clients: Clients, x0: Array) -> tuple[Array, Array, Systems]:
        """Return x_i and lambda_i (K, p) after a Newton step, and the systems that it solved."""
        old, dual = clients.state["x"], clients.state["dual"]
        alpha, beta = self._step("alpha_newton", clients), self._step("beta_newton", clients)
        systems = self._systems(clients)
        newton = systems.solve(to_numpy(self._residual(clients, old, x0)))
        x = old - alpha * like(newton, old)
        return x, dual + beta * like(systems.times(to_numpy(x0 - old)), old), systems

    def _residual(self, clients: Clients, x: Array, x0: Array) -> Array:
        """Return r_i (K, p), the gradient of L in x_i."""
        slope = _scale(clients) * clients.gradient(x)
        r: Array = slope - clients.state["dual"] + self.mu * (x - x0)
        return r

    def _systems(self, clients: Clients) -> Systems:
        """Return the matrices M_i at the clients' own x_i; they are solved with NumPy."""
        x, scale = clients.state["x"], _scale(clients)
        if self.newton_solver == "cholesky":
            return Cholesky(to_numpy(scale[:, :, None] * clients.hessian(x)), self.mu)

        def product(v: Array) -> Array:
            return to_numpy(scale * clients.hvp(x, like(v, x)))

        return ConjugateGradients(product, self.mu, self.cg_steps)

    def _step(self, name: str, clients: Clients) -> Array | float:
        """Return a step, for all clients or for each (K, 1)."""
        given = getattr(self, name)
        if not isinstance(given, tuple):
            return float(given)
        return like(np.array(given)[clients.ids, None], clients.state["x"])

    def _passes(self, p: int, ids: Ints, sizes: Ints) -> Floats:
        """Return the gradients (K,) equivalent in cost to a round of each client."""
        cg_steps = self.cg_steps if self.newton_solver == "cg" else None
        newton = self._newton_ids.among(ids)
        return np.where(newton, 1 + solution_passes(p, sizes, cg_steps), float(self.inner_steps))

    @property
    def _by_cg(self) -> bool:
        """Whether anybody runs conjugate gradients."""
        return bool(self._newton_ids) and self.newton_solver == "cg"

    @cached_property
    def _newton_ids(self) -> NewtonIds:
        """The clients that take Newton steps."""
        ids = () if self.newton == 0 else self.newton
        if not isinstance(ids, tuple):
            raise ValueError("these Newton clients need a population; see `bound`")
        return NewtonIds(numbered(ids, ()))


def _scale(clients: Clients) -> Array:
    """Return f_i / F_i (K, 1)."""
    return like(clients.relative_weights[:, None], clients.state["x"])


def _plus(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a + b and its rounding error (Knuth's two-sum)."""
    total = a + b
    rounded_b = total - a
    return total, (a - (total - rounded_b)) + (b - rounded_b)
