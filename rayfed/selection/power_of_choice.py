"""Power-of-choice: of d candidates those with the largest losses take part.

Cho, Wang, Joshi, "Towards Understanding Biased Client Selection in Federated Learning", AISTATS
2022, https://proceedings.mlr.press/v151/jee-cho22a.html: pow-d, and its variants that ask for less
(cpow-d), for nothing (rpow-d), or of fewer and fewer candidates (adapow-d).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Floats, Ints, as_matrix, to_numpy
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import ROWS, Terms
from rayfed.messages import Ask, Reply, State, Upload
from rayfed.selection.base import Choice, Selection, SelectionView
from rayfed.selection.draws import distinct, redrawn
from rayfed.selection.simple import UniformSelection, equal_shares
from rayfed.solvers.sampling import Minibatch, Sampling

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class PowerOfD(Selection):
    """pow-d: d candidates are asked for their loss, the m largest take part (Cho et al. 2022).

    The candidates are drawn without replacement with probabilities p_k = n_k / n. Each downloads
    the model, evaluates F_k on all of its rows and answers with one number; the server takes the
    plain mean over the participants. The asking costs simulated time and bytes; where there are
    no more candidates than are wanted, no client is asked.

    Parameters
    ----------
    d : int, optional
        Number of candidates; twice the cohort, or as many as there are, if None.
    towards : "high" or "low"
        Whether the largest losses are kept, or the smallest (against clients with wrong labels).
    first : "ask" or "draw"
        Whether candidates are asked in the first round too, or its cohort is drawn uniformly
        without asking anybody, as in the authors' code.

    Notes
    -----
    To look at rows costs as much as the local steps that would go through them. Deviations from
    the paper: equal losses, as of all clients at a zero model, keep the order of the draws.
    """

    name: ClassVar[str] = "power-of-d"
    size_weighted: ClassVar[bool] = True
    asks: ClassVar[bool] = True

    d: Annotated[int, Ge(1)] | None = None
    towards: Literal["high", "low"] = "high"
    first: Literal["ask", "draw"] = "ask"

    def check(self, wanted: int, count: int) -> None:
        """Refuse fewer candidates than are wanted, or more than there are."""
        if self.d is not None and not wanted <= self.d <= count:
            found = f"found {self.d} candidates for a cohort of {wanted} out of {count} clients"
            raise ScenarioError("d", f"{found}; give {wanted} to {count}")

    def candidates(self, view: SelectionView) -> int:
        """Return the number of candidates in a round."""
        return min(2 * view.wanted if self.d is None else self.d, view.count)

    def select(self, view: SelectionView, state: State) -> Choice:
        """Draw candidates, rank them by their losses and return the first ids, ascending."""
        if self.first == "draw" and view.round == 1:
            ids, _ = yield from UniformSelection().select(view, {})
            return ids, state
        drawn = distinct(view, self.candidates(view))
        if len(drawn) > view.wanted:
            ids, losses = yield from self.losses(view, state, np.sort(drawn))
            rank = -losses if self.towards == "high" else losses
            rank[np.isposinf(losses)] = -np.inf  # an unknown loss comes first
            turn = np.argsort(drawn)[np.searchsorted(np.sort(drawn), ids)]
            drawn = ids[np.lexsort((turn, rank))]
        return np.sort(drawn[: view.wanted]), state

    def expected_shares(
        self, view: SelectionView, state: State, losses: Floats, draws: int
    ) -> Floats | None:
        """Return the shares (N,) of clients in cohorts drawn anew; None for minibatch losses."""
        if self.first == "draw" and view.round == 1:
            return equal_shares(view)
        known = self.known(state, losses)
        if known is None:
            return None
        drawn = redrawn(view, self.candidates(view), draws)
        rank = -known[drawn] if self.towards == "high" else known[drawn]
        rank[np.isposinf(known[drawn])] = -np.inf
        order = np.argsort(rank, axis=1, kind="stable")[:, : view.wanted]
        chosen = np.take_along_axis(drawn, order, axis=1)
        return np.bincount(chosen.ravel(), minlength=view.count) / chosen.size

    def known(self, state: State, losses: Floats) -> Floats | None:
        """Return the losses (N,) that a cohort is ranked by, from all F_k(x) (N,)."""
        return losses

    def losses(
        self, view: SelectionView, state: State, ids: Ints
    ) -> Generator[Ask, Reply, tuple[Ints, Floats]]:
        """Return which candidates uploaded a loss (K,), ascending, and the losses (K,)."""
        cost = view.steps(ids, self.rows)
        reply = yield Ask("poll", send={"x": view.x}, up={"loss": 1}, cost=cost, clients=ids)
        return reply.ids, reply.each["loss"].astype(np.float64)

    @property
    def rows(self) -> int | None:
        """Number of rows that a candidate evaluates; all if None."""
        return None

    def poll(self, clients: Clients, x: Array) -> Upload:
        """Client function: F_k(x) (K,) on all rows."""
        losses = to_numpy(clients.value(x))
        return Upload({"loss": np.broadcast_to(losses, clients.ids.shape)})


@dataclass(frozen=True, kw_only=True)
class ComputationEfficient(PowerOfD):
    """cpow-d: candidates estimate their loss on one minibatch (Cho et al. 2022).

    As power-of-d, but a candidate looks at min(batch, n_k) of its rows, drawn without replacement.

    Parameters
    ----------
    d : int, optional
        Number of candidates; twice the cohort, or as many as there are, if None.
    towards : "high" or "low"
        Whether the largest losses are kept, or the smallest.
    first : "ask" or "draw"
        Whether candidates are drawn in the first round too, or its cohort uniformly.
    batch : int
        Rows that a candidate looks at.

    Notes
    -----
    Deviations from the paper: none.
    """

    name: ClassVar[str] = "cpow-d"
    needs: ClassVar[Terms] = PowerOfD.needs | {ROWS}

    batch: Annotated[int, Ge(1)] = 32

    @property
    def rows(self) -> int | None:
        """The rows of a minibatch."""
        return self.batch

    def known(self, state: State, losses: Floats) -> Floats | None:
        """Return None: the losses of minibatches are random too."""
        return None

    def poll(self, clients: Clients, x: Array) -> Upload:
        """Client function: the mean loss (K,) over one minibatch, l2 term included."""
        once = np.ones(len(clients.ids), dtype=np.int64)
        ((index, w),) = Sampling(
            Minibatch(self.batch, "shuffle"), once, clients.ids, clients.sizes, clients.seed,
            clients.draws, clients.ask,
        ).minibatches()  # fmt: skip
        value = to_numpy(clients.problem.value(as_matrix(x), clients.take(index, w)))
        return Upload({"loss": np.broadcast_to(value, clients.ids.shape)})


@dataclass(frozen=True, kw_only=True)
class CommunicationEfficient(PowerOfD):
    """rpow-d: candidates are ranked by the last loss that they uploaded (Cho et al. 2022).

    Nobody is asked: a participant's upload holds one number more, the mean loss of its local
    steps. Candidates that never took part come first.

    Parameters
    ----------
    d : int, optional
        Number of candidates; twice the cohort, or as many as there are, if None.
    towards : "high" or "low"
        Whether the largest losses are kept, or the smallest.
    first : "ask" or "draw"
        Whether candidates are drawn in the first round too, or its cohort uniformly.

    Notes
    -----
    The server remembers a loss of every client that took part. Deviations from the paper: none.
    """

    name: ClassVar[str] = "rpow-d"
    listens: ClassVar[bool] = True

    def init(self, count: int) -> State:
        """Return an empty table of losses."""
        return {"client": np.empty(0, dtype=np.int64), "loss": np.empty(0)}

    def known(self, state: State, losses: Floats) -> Floats | None:
        """Return the last loss (N,) of each client, infinite where there is none."""
        last = np.full(len(losses), np.inf)
        last[state["client"]] = state["loss"]
        return last

    def losses(
        self, view: SelectionView, state: State, ids: Ints
    ) -> Generator[Ask, Reply, tuple[Ints, Floats]]:
        """Return the last loss of each candidate, infinity where there is none."""
        yield from ()
        at = np.searchsorted(state["client"], ids)
        known = at < len(state["client"])
        known[known] = state["client"][at[known]] == ids[known]
        losses = np.full(len(ids), np.inf)
        losses[known] = state["loss"][at[known]]
        return ids, losses

    def learn(self, state: State, reply: Reply) -> State:
        """Return the table with the losses of this round's participants."""
        silent = ~np.isin(state["client"], reply.ids)
        ids = np.concatenate([state["client"][silent], reply.ids])
        losses = np.concatenate([state["loss"][silent], reply.each["loss"]])
        order = np.argsort(ids)
        return {"client": ids[order], "loss": losses[order]}


@dataclass(frozen=True, kw_only=True)
class AdaptivePowerOfD(PowerOfD):
    """adapow-d: power-of-d of fewer and fewer candidates (Cho et al. 2022).

    Many candidates are fast at first, and few have a lower floor. d is halved again and again, down
    to the cohort, where candidates take part unasked.

    Parameters
    ----------
    d : int, optional
        Number of candidates at first; all clients if None.
    towards : "high" or "low"
        Whether the largest losses are kept, or the smallest.
    first : "ask" or "draw"
        Whether candidates are drawn in the first round too, or its cohort uniformly.
    halve_every : int, optional
        Rounds after which the number of candidates is halved, rounded down; never if None.
    last : int, optional
        The last round with candidates; from then on d is the cohort. None for never.

    Examples
    --------
    >>> everybody, equal = (lambda ids: ids >= 0), (lambda ids: ids * 0.0 + 1)
    >>> seen = SelectionView(30, 5001, 0.0, 3, 0, everybody, equal)
    >>> AdaptivePowerOfD(halve_every=5000).candidates(seen)
    15
    """

    name: ClassVar[str] = "adapow-d"

    halve_every: Annotated[int, Ge(1)] | None = 100
    last: Annotated[int, Ge(0)] | None = None

    def candidates(self, view: SelectionView) -> int:
        """Return the number of candidates in a round, at least the cohort."""
        first = view.count if self.d is None else min(self.d, view.count)
        if self.last is not None and view.round > self.last:
            return view.wanted
        halvings = (view.round - 1) // self.halve_every if self.halve_every else 0
        return max(view.wanted, first >> min(halvings, 64))
