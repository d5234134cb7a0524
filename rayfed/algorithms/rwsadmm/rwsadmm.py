"""RWSADMM: a server that walks from client to client and lets their models differ a little.

Z. Parsons, F. Dou, H. Du, Z. Song, J. Lu, "Mobilizing Personalized Federated Learning in
Infrastructure-Less and Heterogeneous Environments via Random Walk Stochastic ADMM", NeurIPS 2023,
https://arxiv.org/abs/2304.12534. With epsilon 0 it is Walkman: X. Mao, K. Yuan,
Y. Hu, Y. Gu, A. H. Sayed, W. Yin, "Walkman: A Communication-Efficient Random-Walk Algorithm for
Decentralized Optimization", IEEE Transactions on Signal Processing 68, 2020.
"""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Interval

from rayfed.algorithms.base import Aim, Algorithm, Coded, Round
from rayfed.algorithms.rwsadmm.formulations import (
    Formulation,
    LagrangianDescent,
    Pairs,
    PairsDescent,
    Places,
    Printed,
    Released,
)
from rayfed.algorithms.rwsadmm.theory import Lagrangian, Penalty
from rayfed.algorithms.rwsadmm.tolerance import widths
from rayfed.core.arrays import Array, Ints, copied, namespace
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import (
    ALL_STEPS,
    EXACT_DOWNLOADS,
    FRESH,
    GRADIENTS,
    MEAN,
    MODEL,
    OWN_MODELS,
    STAYING,
    WALK,
    Terms,
    where,
)
from rayfed.measures.base import Measure
from rayfed.messages import Ask, Diagnostics, Reply, State, Upload
from rayfed.selection.walk import Walking
from rayfed.solvers.base import Solver
from rayfed.solvers.sgd import SGD

if TYPE_CHECKING:
    from rayfed.clients import Clients
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective
    from rayfed.selection.base import Selection
    from rayfed.topology import Graphs

Tokens = Literal["one", "neighbourhood"]
SOUND = ("sound", "descent")


@dataclass(frozen=True, kw_only=True)
class RWSADMM(Algorithm):
    """ADMM of a walking server, with models that may differ by epsilon (Parsons et al. 2023).

    The server carries the token y (p,); client j keeps its model x_j (p,) and the multiplier z_j
    (p,) of the constraint |x_j - y| <= epsilon, coordinate by coordinate. The participants
    of a step (``select: walk``, or any other selection) take local steps along a stochastic
    gradient g of F_j at x_j,

        x_j <- y + z_j / beta - g / beta - epsilon sgn(g),
        z_j <- z_j + kappa (S(z_j + beta (y - x_j)) - z_j),

    S the soft threshold at beta epsilon, and upload how x_j - z_j / beta + epsilon sgn(z_j) has
    changed; y moves by the sum of the changes over the number of clients. The x-step is the
    minimiser of the linearised g x + beta/2 dist(y - x + z_j / beta, [-epsilon, epsilon])^2. This
    sub-problem is flat within epsilon, so the sign of a stochastic gradient throws x_j from one
    edge to the other. "descent" descends the augmented Lagrangian from the current x_j,

        x_j <- x_j - (g - S(z_j + beta (y - x_j))) / beta,

    so that local steps add up, and y is the mean of the y - S(z_j + beta (y - x_j)) / beta, the
    points nearest to y within epsilon of the x_j: the minimiser of squares that lie above the
    Lagrangian and touch it at y. With epsilon 0 both are Walkman.

    With a token for each neighbourhood, client i keeps the y_i of its own, and there is a
    multiplier z_ij for each neighbourhood i that client j is in. x_j minimises the linearised g x
    plus the terms beta/2 dist(y_i - x + z_ij / beta, [-epsilon, epsilon])^2 of all of them: with
    epsilon 0 that is mean_i (y_i + z_ij / beta) - g / (beta times their number). "descent" goes
    down the same sum. When the server is at i, the z_ij move as above. y_i stays the mean, over all
    of the neighbourhood, of what they sent last, which is x_j - z_ij / beta + epsilon sgn(z_ij)
    as above; the participants then hear of the new y_i. Where the graph is connected and epsilon
    is 0, x_j and y_i are all the same in a stationary point, and sum_i z_ij is the gradient of F_j.

    Parameters
    ----------
    beta : float
        Penalty; the theory asks for more than 2 L^2 + L + 2, L the largest Lipschitz constant of
        the clients' gradients. With "sound" and "descent" a smaller one gives a warning, if the
        problem knows L. It is exact, or for wide data found by power iteration; if neither is done
        in a few seconds, a warning reports that beta was not checked, unless `watch` is set.
    epsilon : float or list of float
        Room between x_j and y in every coordinate, for all clients or for each. With 0 and kappa 1
        the method is Walkman, which finds the minimum of the mean of the F_j.
    kappa : float
        Step of the multipliers.
    kappa_decay : float
        Factor on kappa from round to round (0.99 in the paper, whose kappa begins at 0.001).
    formulation : "sound" or "descent" or "printed" or "released-code"
        The updates above; that of the paper's slides as printed, which diverges; or what the
        authors' code does, which is nearer to a proximal FedAvg.
    mix : float
        With "released-code": the share of the mean of the x_j in the server's next model.
    tokens : "one" or "neighbourhood"
        Whether the server carries one y, or every client keeps one for its neighbourhood, which
        needs ``select: walk`` on a topology whose links stay: a client keeps three models for
        each neighbourhood that it is in, and room for as many as anybody is in. If the visited
        client is away, so is its token, and nothing happens in the step.
    users : int
        With "released-code": the number M by which it divides changes of its token.
    watch : bool
        Whether evaluated rows have the columns `lagrangian`, the mean over clients of
        F_j(x_j) + beta/2 dist(...)^2 - ||z_j||^2 / (2 beta); `stationarity`, the norm of the
        gradient of their sum in all x_j, z_j and y, and `stationarity_best`, the least so far,
        which the theorem bounds; and `beta_bound`, what beta should be above. NaN where L is not
        known, or not all clients are evaluated. It costs no simulated time, but a gradient on all
        rows a client and row.

    Notes
    -----
    ``local`` gives the number of local steps and the minibatches; their step size is 1 / beta.
    The model that is evaluated is y, or the mean of the y_i; the personal ones are the x_j. The
    setting `weights` has no effect.

    Deviations from the paper: as printed, the signs, the factor of epsilon and the scaling of the
    token's change do not follow from the sub-problems, and the inequality is treated as an
    equation; "sound" is what does follow, and "descent" is
    not of the paper. Clients meet a token when the server
    first comes to its neighbourhood, and it counts in their sub-problem from then on. In
    "released-code" only the asked clients train, and its kappa decays with
    every local step, as in the code.

    Examples
    --------
    >>> sorted(RWSADMM().client_state(np.zeros(2)))
    ['x', 'z']
    """

    name: ClassVar[str] = "rwsadmm"
    coded: ClassVar[Coded] = {}
    # One kappa counts the steps of earlier rounds; the step size is the method's own.
    needs: ClassVar[Terms] = frozenset({MEAN, FRESH, ALL_STEPS, EXACT_DOWNLOADS, GRADIENTS})
    gives: ClassVar[Terms] = frozenset({MODEL, OWN_MODELS})
    aim: ClassVar[Aim] = "plain"
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(
            "token_distance",
            about="Mean distance of the participants' models from the token before the round.",
        ),
    )
    theory: ClassVar[tuple[type[Measure], ...]] = (Lagrangian,)

    beta: Annotated[float, Gt(0)] = 10.0
    epsilon: Annotated[float, Ge(0)] | tuple[Annotated[float, Ge(0)], ...] = 0.0
    kappa: Annotated[float, Gt(0)] = 1.0
    kappa_decay: Annotated[float, Interval(gt=0, le=1)] = 1.0
    formulation: Literal["sound", "descent", "printed", "released-code"] = "sound"
    tokens: Tokens = "one"
    mix: Annotated[float, Interval(ge=0, le=1)] = 0.9
    users: Annotated[int, Ge(1)] = 10
    watch: bool = False
    _sizes: Ints | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.watch and self.formulation not in SOUND:
            text = f"found true, but '{self.formulation}' follows from no Lagrangian"
            raise ScenarioError("watch", f"{text}; use sound or descent, or leave it out")
        if WALK in self.setting_needs and (self.watch or self.formulation not in SOUND):
            other = "watch: true" if self.watch else f"'{self.formulation}'"
            text = f"found neighbourhood with {other}, which knows one token; leave out either"
            raise ScenarioError("tokens", text)

    def check_solver(self, solver: Solver) -> None:
        """Refuse local steps that are not plain ones."""
        if not isinstance(solver, SGD) or solver.momentum or solver.mu:
            text = "found momentum, a proximal term or another solver than sgd"
            raise ScenarioError("local", f"{text}; '{self.name}' brings its own: leave them out")

    def bound(self, shards: Shards, population: Population, objective: Objective) -> RWSADMM:
        """Refuse widths that are not one for each client."""
        if isinstance(self.epsilon, tuple) and len(self.epsilon) != shards.clients:
            text = f"found {len(self.epsilon)} widths for {shards.clients} clients"
            raise ScenarioError("epsilon", f"{text}; give one for each, or a number for all")
        return self

    def on_graphs(self, graphs: Graphs, selection: Selection) -> RWSADMM:
        """Return the algorithm with the size of every neighbourhood.

        Raises
        ------
        ScenarioError
            If links change, so that there is no end of the neighbourhoods that a client may be in,
            or if neighbours do not take part.
        """
        if not graphs.fixed:
            text = "found neighbourhood, but links change and clients would meet ever more tokens"
            raise ScenarioError("tokens", f"{text}; use a topology that stays, or tokens: one")
        if isinstance(selection, Walking) and not selection.neighbours:
            text = "found neighbourhood, but `select` has neighbours: false: no token joins clients"
            raise ScenarioError("tokens", f"{text}; leave out either")
        bound = copy(self)
        sizes = 1 + graphs.at(1).degrees(np.arange(graphs.count))
        object.__setattr__(bound, "_sizes", sizes)
        return bound

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measure of the bound on beta, and with `watch` of the Lagrangian."""
        label = self.label or self.name
        if self.watch:
            return (Lagrangian(label=label, beta=self.beta, epsilon=self.epsilon),)
        if self.formulation in SOUND:
            return (Penalty(label=label, beta=self.beta),)
        return ()

    @property
    def setting_needs(self) -> Terms:
        """A walking server and clients that stay, if there is a token for each neighbourhood.

        A client that is lost when the others have moved would leave a token that is no mean of its
        parts.
        """
        apart = self.tokens == "neighbourhood"
        return where({WALK: apart, STAYING: apart})

    def client_state(self, x0: Array) -> State:
        """Every client's model x_j (p,), multiplier z_j (p,), and further state.

        That is its part of y with "descent". With tokens of neighbourhoods it is y_j (p,), and for
        each of the S neighbourhoods that it may be in the token as it last heard of it, the
        multiplier and the part (S, p).
        """
        if WALK in self.setting_needs:
            most = int(self._neighbourhoods.max())
            return {"x": x0, "token": x0, **self._pairs.places(x0, most)}
        return {"x": x0, "z": np.zeros_like(x0), **self._formulation.client_state(x0)}

    def models(self, clients: Clients, x: Array) -> Array:
        """Return x_j (K, p)."""
        return clients.state["x"]

    def round(self, state: State) -> Round:
        """Server function: carry y, or fetch the visited client's y_i and leave it there."""
        x = state["x"]
        if WALK not in self.setting_needs:
            y, diagnostics = yield from self._step(x)
            return {"x": y}, diagnostics
        visited = yield Ask("token", send={}, up={"token": x.size}, cost=0, clients="visited")
        here, y = visited.ids, visited.mean["token"]
        up = {"change": y.size, "distance": 1}
        sent = {"y": y, "here": here}
        reply = yield Ask("walk_from", send=sent, up=up, plain=("change",))
        step = (len(reply.ids) / int(self._neighbourhoods[here[0]])) * reply.mean["change"]
        yield Ask("hear", send={"y": y + step, "here": here}, up={}, cost=0)
        yield Ask("keep", send={"token": y + step}, up={}, cost=0, clients="visited")
        distance = float(np.mean(reply.each["distance"]))
        return {"x": x + step / visited.population}, {"token_distance": distance}

    @property
    def _neighbourhoods(self) -> Ints:
        """The number of clients in each neighbourhood (N,)."""
        if self._sizes is None:
            raise ValueError("these tokens need a graph; see `on_graphs`")
        return self._sizes

    def _step(self, y: Array) -> Generator[Ask, Reply, tuple[Array, Diagnostics]]:
        """Move y (p,) by the changes at the clients that were asked."""
        formulation = self._formulation
        up = {**dict.fromkeys(formulation.uploads, y.size), "distance": 1}
        reply = yield Ask(
            "walk", send={"y": y}, up=up, plain=formulation.uploads if formulation.plain else ()
        )
        distance = float(np.mean(reply.each["distance"]))
        return formulation.moved(y, reply), {"token_distance": distance}

    # -- client functions ---------------------------------------------------------------------

    def token(self, clients: Clients) -> Upload:
        """Client function: hand out the neighbourhood's token y_i (1, p)."""
        return Upload({"token": clients.state["token"]})

    def keep(self, clients: Clients, token: Array) -> Upload:
        """Client function: store the neighbourhood's token y_i (p,)."""
        return Upload({}, state={"token": namespace(token).tile(token, (len(clients.ids), 1))})

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: x_j and z_j as above; upload the change of the terms of y."""
        return self._formulation.walk(clients, y)

    def walk_from(self, clients: Clients, y: Array, here: Array) -> Upload:
        """Client function: the same around all tokens, y (p,) of client `here` (1,) among them."""
        return self._pairs.walk_from(clients, y, here)

    def hear(self, clients: Clients, y: Array, here: Array) -> Upload:
        """Client function: remember that the token of client `here` (1,) is now y (p,)."""
        return Upload({}, state=Places.visited(clients.state, here, y).state)

    @cached_property
    def _formulation(self) -> Formulation:
        """The updates, with these settings."""
        shared = {f.name: getattr(self, f.name) for f in fields(Formulation)}
        return FORMULATIONS[self.formulation](**shared)

    @cached_property
    def _pairs(self) -> Pairs:
        """The updates with a token for each neighbourhood."""
        shared = {f.name: getattr(self, f.name) for f in fields(Formulation)}
        return PAIRS[self.formulation](**shared)


class Sound(Formulation):
    """The updates that follow from the sub-problems, as `RWSADMM` gives them."""

    def walk(self, clients: Clients, y: Array) -> Upload:
        """Client function: upload the change (K, p) of x_j - z_j / beta + epsilon sgn(z_j)."""
        z = copied(clients.state["z"])
        xp, epsilon = namespace(z), widths(self.epsilon, clients, z)

        def slope(g: Array, x: Array, index: Ints) -> Array:
            descent: Array = g - z[index] + self.beta * (x - y + epsilon[index] * xp.sign(g))
            return descent

        def part(x: Array, z: Array) -> Array:
            held: Array = x - z / self.beta + epsilon * xp.sign(z)
            return held

        old = part(clients.state["x"], z)
        local = self.steps(clients, slope, self.following(clients, z, y))
        return self.upload(local, z, y, {"change": part(local.x, z) - old})


FORMULATIONS: dict[str, type[Formulation]] = {
    "sound": Sound,
    "descent": LagrangianDescent,
    "printed": Printed,
    "released-code": Released,
}
PAIRS: dict[str, type[Pairs]] = {"sound": Pairs, "descent": PairsDescent}
