"""The part of a scenario file that says who takes part, and for whom the server waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args

from annotated_types import Interval
from pydantic import model_validator

from rayfed.algorithms.staleness import Polynomial, Staleness
from rayfed.engine.run import Corrected, IfFewer, Interruption, LatePolicy, Retry
from rayfed.selection import Selection, Uniform
from rayfed.study.scenario.bounds import LARGEST, Count
from rayfed.study.scenario.fields import Plugin, Settings, fail
from rayfed.study.scenario.invalid import short
from rayfed.study.scenario.parts import PositiveSeconds

MOST_RETRIES = 100
"""Attempts of one client in a round, after the first; each is timed and recorded."""
_OLDER = "too_few"
"""What `if_fewer` was called; scenarios with it are read."""


class Participation(Settings):
    """Who takes part in a round, and how long the server waits.

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
        Virtual seconds after which the server gives up a piece of work, in rounds and in
        asynchronous runs, and asks again, if `retries` are left; it waits on if null.
    retries : int
        How often it asks again in the place of a client whose work is timed out, or lost because
        the client goes away, gives up or loses its connection.
    retry : "same" or "other"
        Whom it asks then: the client itself, if it is there, or another one that it has not asked
        in the round. In asynchronous runs the selection fills places, so there it is "same".
    interrupted : "drop" or "resume"
        What becomes of work whose client goes away: it is dropped, or it stands still and goes on
        when the client is back.
    late : "drop", "partial" or "stale"
        What becomes of local work that is not done when the server stops waiting. "drop": it is
        lost. "partial": a client stops in time to upload before the deadline what it has done by
        then. "stale": it goes on, and enters the round in which it arrives.
    staleness : name or mapping
        With "stale": the factor of a reply in the mean, by the rounds that it is late.
    minimum : int
        Clients that have to be there, and idle, before a cohort is chosen.
    if_fewer : "wait" or "skip"
        What a round does when fewer are there: it waits for the next who comes, or it passes
        without participants, and the next round tries again at the next change of availability.
    patience_s : float, optional
        Virtual seconds that a round waits for clients at most; then it passes without participants
        and the next one waits again.
    correct : "known" or "intervals", optional
        Weighs replies by the inverse of the probability that their clients take part, so that the
        mean is right for all clients on average. "known": the availability and the selection say
        the probability. "intervals": it is estimated from how often each client has replied.
        Nothing is corrected if null.
    """

    cohort: Count | None = None
    select: Annotated[Selection, Plugin("selections")] = Uniform()
    over_select: Annotated[float, Interval(ge=1, le=LARGEST)] = 1.0
    deadline_s: PositiveSeconds | None = None
    timeout_s: PositiveSeconds | None = None
    retries: Annotated[int, Interval(ge=0, le=MOST_RETRIES)] = 0
    retry: Retry = "same"
    interrupted: Interruption = "drop"
    late: LatePolicy = "drop"
    staleness: Annotated[Staleness, Plugin("staleness")] = Polynomial()
    minimum: Count = 1
    if_fewer: IfFewer = "wait"
    patience_s: PositiveSeconds | None = None
    correct: Corrected | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_its_older_name(cls, given: Any) -> Any:
        """Take `if_fewer` by its older name, unless both are given and differ."""
        if not isinstance(given, Mapping) or _OLDER not in given:
            return given
        found, rest = given[_OLDER], {key: given[key] for key in given if key != _OLDER}
        if found not in get_args(IfFewer) or rest.get("if_fewer", found) != found:
            fail(f"found {short(found)}; give if_fewer alone: wait or skip", found, _OLDER)
        return {**rest, "if_fewer": found}
