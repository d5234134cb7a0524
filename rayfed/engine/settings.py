"""Settings of the engine: participation and stopping rules."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Gt, Interval

from rayfed.algorithms.staleness import Polynomial, Staleness
from rayfed.core.columns import names
from rayfed.core.shares import at_least
from rayfed.engine import columns
from rayfed.selection.base import Selection
from rayfed.selection.simple import UniformSelection

Interruption: TypeAlias = Literal["drop", "resume"]
"""Handling of tasks of clients that drop out."""
LatePolicy: TypeAlias = Literal["drop", "partial", "stale"]
"""Handling of tasks that are unfinished at the end of their round."""
IfFewer: TypeAlias = Literal["wait", "skip"]
"""What a round does for which too few clients are there."""
Retry: TypeAlias = Literal["same", "other"]
"""Who is asked again in the place of a client whose task failed."""
Corrected: TypeAlias = Literal["known", "intervals"]
"""Where the probability that a client takes part comes from."""
MOST_RETRIES = 100
"""Attempts of one client in a round, after the first; each is timed and recorded."""


@dataclass(frozen=True, kw_only=True)
class Participation:
    """Participation of clients in a round, and the server's waiting rules.

    Parameters
    ----------
    cohort : int, optional
        Clients to a round; all if null.
    select : name or mapping
        How they are chosen among the available ones.
    over_select : float
        Factor on the cohort; the server takes the first replies and drops the others.
    deadline_s : float, optional
        Virtual seconds after which a round ends without those who are late. Asynchronous methods
        have no rounds; they take `timeout_s`.
    timeout_s : float, optional
        Virtual seconds after which the server gives up a task, in rounds and in
        asynchronous runs, and asks again, if `retries` are left; it waits on if null.
    retries : int
        How often it asks again in the place of a client whose task is timed out, or lost because
        the client goes away, gives up or loses its connection.
    retry : "same" or "other"
        The client that it asks then: the same one, if it is available, or another one that it has
        not asked in the round. In asynchronous runs the selection fills places, so it is "same".
    interrupted : "drop" or "resume"
        Handling of tasks of clients that drop out: a task is dropped, or it pauses and continues
        when the client is back.
    late : "drop", "partial" or "stale"
        Handling of local steps that are unfinished when the server stops waiting. "drop": it is
        lost. "partial": a client stops in time to upload its result before the deadline.
        "stale": it continues, and enters the round in which it arrives.
    staleness : name or mapping
        With "stale": the factor of a reply in the mean, by its delay in rounds.
    minimum : int
        Clients that have to be there, and idle, before a cohort is chosen.
    if_fewer : "wait" or "skip"
        What a round does when fewer are there: it waits for the next who comes, or it passes
        without participants, and the next round tries again at the next change of availability.
    patience_s : float, optional
        Virtual seconds that a round waits for clients at most; then it passes without participants
        and the next one waits again. In gossip, how long a node waits for messages after its own
        step; later ones are not mixed.
    correct : "known" or "intervals", optional
        Weighs replies by the inverse of the probability that their clients take part, so that the
        mean is right for all clients on average. "known": the availability and the selection say
        the probability. "intervals": it is estimated from how often each client has replied.
        Nothing is corrected if null.
    """

    cohort: Annotated[int, Ge(1)] | None = None
    select: Selection = UniformSelection()
    over_select: Annotated[float, Interval(ge=1, le=2**31 - 1)] = 1.0
    deadline_s: Annotated[float, Gt(0)] | None = None
    timeout_s: Annotated[float, Gt(0)] | None = None
    retries: Annotated[int, Interval(ge=0, le=MOST_RETRIES)] = 0
    retry: Retry = "same"
    interrupted: Interruption = "drop"
    late: LatePolicy = "drop"
    staleness: Staleness = Polynomial()
    minimum: Annotated[int, Ge(1)] = 1
    if_fewer: IfFewer = "wait"
    patience_s: Annotated[float, Gt(0)] | None = None
    correct: Corrected | None = None

    def asked(self, count: int) -> int:
        """Return the number of clients asked in a round: the cohort and over-selection."""
        if self.cohort is None:
            return count
        return min(at_least(self.over_select, self.cohort), count)

    @property
    def may_retry(self) -> bool:
        """Whether the server may give up an attempt, or ask again."""
        return self.timeout_s is not None or self.retries > 0


AT_MOST = ("loss", "loss_gap", "loss_change", "model_change")
CHANGES = names(columns.CHANGES)
"""Columns that rows have only where a rule asks for them."""


@dataclass(frozen=True)
class Stop:
    """Rules that end a run early; the first that is met does.

    Parameters
    ----------
    time_s : float, optional
        Simulated seconds.
    client_updates : int, optional
        Replies of clients that have been used, in all rounds together.
    loss_gap : float, optional
        Loss above the optimum at most this.
    accuracy : float, optional
        Accuracy at least this.
    loss : float, optional
        Loss at most this.
    loss_change : float, optional
        Tolerance on the cost: the loss changed by at most this from one evaluation to the next.
    model_change : float, optional
        Tolerance on the solution: the model moved by at most this (Euclidean norm) in a round.
    metrics : mapping of str to float
        Values of columns of measures and of own code, to be reached in their better direction.
    """

    time_s: Annotated[float, Gt(0)] | None = None
    client_updates: Annotated[int, Ge(1)] | None = None
    loss_gap: Annotated[float, Gt(0)] | None = None
    accuracy: Annotated[float, Interval(ge=0, le=1)] | None = None
    loss: float | None = None
    loss_change: Annotated[float, Ge(0)] | None = None
    model_change: Annotated[float, Ge(0)] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def rule(self, row: Mapping[str, Any], updates: int, higher: Container[str] = ()) -> str | None:
        """Return the name of the rule that a row meets, or None.

        Parameters
        ----------
        row : mapping of str to object
        updates : int
            Replies that have been used.
        higher : container of str
            Metrics of which higher values are better.
        """
        if self.time_s is not None and row["time_s"] >= self.time_s:
            return "time_s"
        if self.client_updates is not None and updates >= self.client_updates:
            return "client_updates"
        for name in AT_MOST:
            bound = getattr(self, name)
            if bound is not None and row[name] <= bound:
                return name
        if self.accuracy is not None and row["accuracy"] >= self.accuracy:
            return "accuracy"
        for name, bound in self.metrics.items():
            if row[name] >= bound if name in higher else row[name] <= bound:
                return name
        return None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of rows that only these rules need."""
        return tuple(name for name in CHANGES if getattr(self, name) is not None)
