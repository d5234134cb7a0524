"""A walking server: the cohort is the neighbourhood of the client that it visits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Array, Ints
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.names import numbered
from rayfed.core.needs import ALIKE_LINKS, BOTH_WAYS, COHORT, GRAPHS, Terms
from rayfed.messages import State, Wait
from rayfed.selection.base import CONNECTED, POSITION, REPAIRED, Choice, Selection, SelectionView
from rayfed.topology.base import MOST_CHECKED
from rayfed.topology.walks.metropolis import Metropolis, Walk, Walker

if TYPE_CHECKING:
    from rayfed.topology import Graphs

_NOWHERE = -1


@dataclass(frozen=True, kw_only=True)
class Walking(Selection):
    """The server visits one client after another; that one and its neighbours take part.

    It moves over the links of the scenario's ``topology`` before every round but the first, and
    keeps its place as the graph changes under it. A move takes the virtual seconds of its rule.
    The column ``position`` holds its position; ``connected`` and ``repaired`` tell whether
    the graph was connected when it asked, and whether links had to be added.

    Parameters
    ----------
    rule : Walk
        Where it goes next; "metropolis" visits all clients alike.
    start : int or str, optional
        The client that it visits first, by id or by its name in the data; drawn by the seed if
        None.
    neighbours : bool
        Whether the neighbours of the visited client take part, or it alone.

    Notes
    -----
    A neighbour that is away is left out. If no client of the neighbourhood is available, the server
    waits until the availability of one of them changes, or of any client where the graph changes
    meanwhile; if their availability depends on the round and not on the clock, the round passes
    without participants.
    """

    name: ClassVar[str] = "walk"
    needs: ClassVar[Terms] = frozenset({ALIKE_LINKS, BOTH_WAYS, GRAPHS})
    removes: ClassVar[Terms] = frozenset({COHORT})
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(POSITION, about="Id of the client that the server visits."),
        Column(
            CONNECTED,
            about="1 if the links that are up connect all clients when the server asks, before any "
            "repair, else 0; NaN if the topology has `disconnected: allow` and more than "
            f"{MOST_CHECKED:,} clients.",
        ),
        Column(
            REPAIRED,
            about="1 if links were added to connect the graph that the server asks on, else 0.",
        ),
    )

    rule: Walk = field(default_factory=Metropolis)
    start: Annotated[int, Ge(0)] | str | None = None
    neighbours: bool = True

    def named(self, names: Sequence[str]) -> Walking:
        """Return the selection with the id of the first client."""
        if not isinstance(self.start, str):
            return self
        try:
            return replace(self, start=numbered([self.start], names)[0])
        except ScenarioError as error:
            raise error.under("start") from None

    def check(self, wanted: int, count: int) -> None:
        """Refuse a first client that does not exist."""
        if isinstance(self.start, int) and self.start >= count:
            found = f"found {self.start}, but clients are 0 to {count - 1}"
            raise ScenarioError("start", found)

    def check_graphs(self, graphs: Graphs) -> None:
        """Refuse graphs that the rule cannot walk on."""
        try:
            self.walk_on(graphs)
        except ScenarioError as error:
            raise ScenarioError("rule", str(error)) from error

    def walk_on(self, graphs: Graphs) -> Walk:
        """Return the rule, made lazy where it would have a period."""
        return self.rule.resolved(graphs)

    def visited(self, state: State) -> int:
        """Return the client that the server is at."""
        return int(state[POSITION])

    def init(self, count: int) -> State:
        """Return the state of a server that has no position yet."""
        return {
            POSITION: np.asarray(_NOWHERE), "arrived": np.asarray(0),
            CONNECTED: np.asarray(np.nan), REPAIRED: np.asarray(np.nan),
        }  # fmt: skip

    def select(self, view: SelectionView, state: State) -> Choice:
        """Move, and return the available clients of the neighbourhood (K,), ascending."""
        walker = self._walker(view)
        source, now = int(state[POSITION]), view.time_s
        if source == _NOWHERE:
            source = self.start if isinstance(self.start, int) else walker.first()
        elif state["arrived"] < view.round:
            target = walker.step(source, view.round, now)
            seconds = walker.seconds(source, target, view.round, now)
            source, now = target, now + seconds  # clients have moved on meanwhile
            if seconds:
                yield Wait(seconds)
        ids = self._around(source, view, now)
        return ids[view.available(ids)], _state(source, view, now)

    def awaited(self, view: SelectionView, state: State) -> Ints | None:
        """Return the neighbourhood, or None if others may come into it while the server waits."""
        assert view.graphs is not None  # as in `_walker`
        if self.neighbours and not view.graphs.lasts(view.round, view.time_s):
            return None
        return self._around(int(state[POSITION]), view, view.time_s)

    def _around(self, source: int, view: SelectionView, time_s: float) -> Ints:
        """Return the cohort at a client: itself, and its neighbours if they count."""
        if not self.neighbours:
            return np.array([source])
        return self._walker(view).neighbours(source, view.round, time_s)

    def _walker(self, view: SelectionView) -> Walker:
        """Return the walker of a run; to settle its rule takes a pass over the first graph."""
        if "walker" not in view.cache:
            assert view.graphs is not None  # the plan has refused a scenario without a topology
            view.cache["walker"] = Walker(view.graphs, self.rule)
        walker: Walker = view.cache["walker"]
        return walker


def _state(source: int, view: SelectionView, time_s: float) -> dict[str, Array]:
    """Return the state of a server at a client, and the graph at that time."""
    assert view.graphs is not None  # as in `_walker`
    epoch = view.graphs.epoch(view.round, time_s)
    connected = view.graphs.connected(epoch)
    return {
        POSITION: np.asarray(source),
        "arrived": np.asarray(view.round),
        CONNECTED: np.asarray(np.nan if connected is None else float(connected)),
        REPAIRED: np.asarray(float(view.graphs.repaired(epoch))),
    }
