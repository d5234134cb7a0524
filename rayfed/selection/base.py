"""Base class of selections: generators that name the clients of a round.

It is of the same kind as an algorithm's round: it may yield Asks (a poll for losses) and is charged
for them; it returns the ids and its new state. Its draws are keyed by the run's seed alone, so
that all algorithms of a study see the same cohorts, or the same candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.columns import Column, names
from rayfed.core.errors import RunFailed
from rayfed.core.needs import (
    BLIND,
    CHANCES,
    COHORT,
    COINS,
    EVERYONE,
    GRAPHS,
    KNOWN_SIZE,
    NO_SCALARS,
    NOTHING,
    ONE_MORE,
    ROUNDS,
    VECTORS_ALIKE,
    WALK,
    Terms,
    refuse_flags,
    where,
)
from rayfed.messages import Ask, Reply, State, Wait
from rayfed.topology import Graphs
from rayfed.topology.walks.metropolis import Walk

POSITION = "position"
"""The diagnostic of a walking selection with the position of the server."""
CONNECTED = "connected"
"""The diagnostic of whether the graph was connected, before any repair: 1, 0 or NaN."""
REPAIRED = "repaired"
"""The diagnostic of whether links were added to connect the graph: 1 or 0."""


def _one_step(ids: Ints, rows: int | None = None) -> Floats:
    return np.ones(len(ids))


@dataclass(frozen=True)
class SelectionView:
    """A selection's view of its round.

    Parameters
    ----------
    count : int
        Number N of clients.
    round : int
        Round number, from 1.
    time_s : float
        Virtual clock in seconds.
    wanted : int
        How many to draw: the cohort, over-selection included.
    seed : int
        Seed of the run.
    available : callable
        ``available(ids) -> (K,) bool``, at the time when it is called.
    mass : callable
        ``mass(ids) -> (K,) float``: what each client counts for, its training rows n_i unless the
        data sets other masses.
    x : (p,) array
        The server's model, for clients that a selection asks for their loss.
    steps : callable
        ``steps(ids, rows) -> (K,) float``: the local steps that are as dear as to look at so many
        rows of each client, or at all of them if None.
    graphs : Graphs or None
        The links between clients, where the scenario has a topology.
    idle : (K,) array of int, optional
        The only clients that may be available, ascending; any may be if None.
    cache : dict
        What a run needs to compute once; it lives as long as the run and is no state.
    """

    count: int
    round: int
    time_s: float
    wanted: int
    seed: int
    available: Callable[[Ints], Bools]
    mass: Callable[[Ints], Floats]
    x: Array = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    steps: Callable[[Ints, int | None], Floats] = _one_step
    graphs: Graphs | None = None
    idle: Ints | None = None
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def most(self) -> int:
        """Largest number of clients that may be available."""
        return self.count if self.idle is None else len(self.idle)


OLD_FLAGS: Mapping[str, str] = {
    "own_cohort": "removes = frozenset({COHORT})",
    "needs_graphs": "needs = frozenset({GRAPHS})",
}
"""Flags of earlier releases, and the declaration in place of each."""
Choice: TypeAlias = Generator[Ask | Wait, Reply, tuple[Ints, State]]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Base of all selections.

    Attributes
    ----------
    needs, removes : set of Term
        What others must leave to it, such as `GRAPHS`, and what it does not leave to others, from
        `rayfed.core.needs`. One that removes `COHORT` decides itself how many clients take part.
        What follows from the other attributes is added to both.
    size_weighted : bool
        Large clients are drawn more often, so the mean over participants is uniform by default.
    repeats : bool
        A client may be drawn more than once; the column ``draws`` of `events` counts its draws.
    listens : bool
        `learn` is given the mean loss of each participant's local steps. Every upload after local
        steps is one number longer.
    asks : bool
        It asks clients before it selects.
    may_be_empty : bool
        A round without a selected client, though some are available, is a round.
    diagnostics : tuple of Column
        Numbers of its state that are columns of `rounds`.
    """

    name: ClassVar[str]
    needs: ClassVar[Terms] = NOTHING
    removes: ClassVar[Terms] = NOTHING
    size_weighted: ClassVar[bool] = False
    repeats: ClassVar[bool] = False
    listens: ClassVar[bool] = False
    asks: ClassVar[bool] = False
    may_be_empty: ClassVar[bool] = False
    diagnostics: ClassVar[tuple[Column, ...]] = ()

    def __init_subclass__(cls) -> None:
        refuse_flags(cls, OLD_FLAGS)
        looks, own = cls.asks or cls.listens, COHORT in cls.removes
        cls.needs |= where({ROUNDS: looks or cls.may_be_empty or GRAPHS in cls.needs})
        cls.removes |= where(
            {
                EVERYONE: own or cls.may_be_empty or cls.repeats,
                ONE_MORE: looks or own or cls.may_be_empty,
                CHANCES: looks or cls.may_be_empty,
                NO_SCALARS: cls.listens, VECTORS_ALIKE: cls.repeats,
                WALK: POSITION not in names(cls.diagnostics), COINS: not cls.may_be_empty,
                KNOWN_SIZE: cls.may_be_empty,
                BLIND: looks or own or cls.size_weighted or cls.repeats,
            }
        )  # fmt: skip

    def named(self, names: Sequence[str]) -> Self:
        """Return the selection among clients that the data name, empty if they do not.

        Raises
        ------
        ScenarioError
            If it is about a client of another name.
        """
        return self

    def check(self, wanted: int, count: int) -> None:
        """Refuse settings that do not fit.

        Parameters
        ----------
        wanted, count : int
            How many are drawn, of how many clients.

        Raises
        ------
        ScenarioError
            If they do not fit; its place is one of the selection's settings.
        """
        return

    def check_graphs(self, graphs: Graphs) -> None:
        """Refuse a topology that does not fit; called only if it needs `GRAPHS`.

        Raises
        ------
        ScenarioError
            If it does not fit.
        """
        return

    def walk_on(self, graphs: Graphs) -> Walk | None:
        """Return the walk by which it moves on these graphs, as walked; None if it does not.

        One that walks has its place as the diagnostic `POSITION`, and may have `CONNECTED` and
        `REPAIRED`.
        """
        return None

    def visited(self, state: State) -> int | None:
        """Return the client that a walking server is at; None if it does not walk."""
        return None

    def init(self, count: int) -> State:
        """Return the state before the first round of N = count clients."""
        return {}

    def select(self, view: SelectionView, state: State) -> Choice:
        """Yield Asks, if any, and return the ids (K,), ascending, and the new state."""
        raise NotImplementedError

    def at_once(self, view: SelectionView, state: State) -> Ints:
        """Return the ids (K,) that `select` returns, where it asks no client.

        Raises
        ------
        RunFailed
            If it asks.
        """
        choice = self.select(view, state)
        try:
            next(choice)
        except StopIteration as end:
            ids: Ints = end.value[0]
            return ids
        raise RunFailed(f"'{self.name}' asks clients before it selects")

    def expected_shares(
        self, view: SelectionView, state: State, losses: Floats, draws: int
    ) -> Floats | None:
        """Return the expected share of each client in the cohort.

        It costs no simulated time and asks no client.

        Parameters
        ----------
        view : SelectionView
            What `select` sees of the round.
        state : mapping of str to array
            The state before the round.
        losses : (N,) array of float
            F_k(x) of all clients at the model that the round starts from.
        draws : int
            Cohorts to draw anew, with random numbers of their own, where the expectation has no
            closed form.

        Returns
        -------
        (N,) array of float or None
            Shares that add up to 1; None if they cannot be known from these losses.
        """
        return None

    def awaited(self, view: SelectionView, state: State) -> Ints | None:
        """Return the clients worth waiting for after an empty `select`; all if None.

        The virtual clock then moves to the next change of one of them, and `select` is asked again
        with the state that it returned. Where none of them ever changes with time, the round
        passes without participants.
        """
        return None

    def learn(self, state: State, reply: Reply) -> State:
        """Return the state after the local steps of this round; called only if `listens`.

        Parameters
        ----------
        reply : Reply
            ``reply.each["loss"]`` (K,) holds the mean loss of each participant's local steps.
        """
        return state
