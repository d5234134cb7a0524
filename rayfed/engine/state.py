"""State of a run between two rounds, and the counts of a round while it runs.

What a server function makes of the state is looked at here, since it may be a user's.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import names
from rayfed.core.errors import RunFailed, clipped
from rayfed.engine import columns
from rayfed.engine.stopping import LastEvaluation
from rayfed.engine.tasks import CountedTasks
from rayfed.engine.timeline import Timeline
from rayfed.messages import Ask, Diagnostics, Reply, State, Wait
from rayfed.solvers.own_train import METRIC

Row = dict[str, Any]
Measured = Mapping[str, Mapping[str, Array]]
"""The state of each measure."""

COUNTS = names(columns.COUNTS)
_NONE = np.empty(0, dtype=np.int64)
_SHOWN = 60  # letters of what a server function returned


@dataclass(frozen=True)
class RunState:
    """Everything that a run is between two rounds, apart from the clients' own state.

    Parameters
    ----------
    round : int
        The last round that was run.
    time_s : float
        Virtual clock.
    state, selection, step_state : mapping of str to array
        The server's state, the selection's, and that of step counts that change over rounds.
    window : tuple of (p,) arrays
        The last iterates, for ``evaluate_last``; the newest last.
    last : LastEvaluation
        What the next evaluated row is compared with.
    measured : mapping of str to mapping of str to array
        The state of each measure.
    personal : mapping of str to (K,) array
        What the newest evaluation reported of every client's own model; empty where none are kept.
    updates : int
        Replies of clients that have been used.
    timeline : Timeline, optional
        Unfinished tasks between two rows, where tasks may outlast their row. The timeline of an
        asynchronous run belongs to its newest state alone.
    correction : mapping of str to array
        The state of the correction for who takes part.
    ahead : mapping of str to (K,) array
        The `clients` that may compute before they are asked again, and since when (`free_s`).
    channel : mapping of str to array
        The state of the server's end of the channel.
    energy, batteries : mapping of str to (C,) array
        Tasks that still cost energy, and those of the devices' batteries; see `rayfed.engine`.
    control : mapping of str to array
        The state of the declared controller.
    """

    round: int
    time_s: float
    state: Mapping[str, Array]
    selection: Mapping[str, Array]
    step_state: Mapping[str, Array]
    window: tuple[Array, ...]
    last: LastEvaluation = LastEvaluation()
    measured: Measured = field(default_factory=dict)
    personal: Mapping[str, Array] = field(default_factory=dict)
    updates: int = 0
    timeline: Timeline | None = None
    correction: Mapping[str, Array] = field(default_factory=dict)
    ahead: Mapping[str, Array] = field(default_factory=dict)
    channel: Mapping[str, Array] = field(default_factory=dict)
    energy: Mapping[str, Array] = field(default_factory=dict)
    batteries: Mapping[str, Array] = field(default_factory=dict)
    control: Mapping[str, Array] = field(default_factory=dict)

    @property
    def exhausted(self) -> bool:
        """Whether no row can follow: no task is unfinished, and no client will ever come back."""
        return self.timeline is not None and self.timeline.exhausted

    @property
    def model(self) -> Array:
        """The model that is evaluated: the mean of the window."""
        if len(self.window) == 1:
            return self.window[0]
        mean: Array = np.mean(np.stack(self.window), axis=0, dtype=self.window[0].dtype)
        return mean

    @property
    def when(self) -> str:
        """When the model is evaluated, for messages."""
        return f"evaluation of round {self.round}, time {self.time_s:.6g} s"


@dataclass
class RoundStats:
    """Costs of a round, counted during the round.

    Parameters
    ----------
    round : int
        Its number, from 1; 0 for the state before the first round.
    time_s : float
        Virtual clock.
    start_s : float
        When the cohort was known: the deadline counts from then.
    step_state : mapping of str to array
        State of step counts that change over rounds, before the round.
    ask : int
        Number of the next Ask.
    replies : list of Reply
        Replies that the selection and the numbers of local steps learn from.
    counts : dict of str to int
        Columns of the round's row.
    ended : list of Ended
        The round's events: what is over, an Ask after the other.
    timeline : Timeline, optional
        As in `RunState`, on the way to the state after the round.
    staleness : (K,) array of int
        Rounds, or updates, that each reply is late, where late replies are used.
    corrected : (K,) array of float, optional
        Weights of the cohort in place of the raw ones, where they are corrected.
    ahead : mapping of str to (K,) array
        As in `RunState`, on the way to the state after the round.
    answered : (K,) array of int
        Whose replies to the last Ask were used, ascending, each as often as it was drawn; those of
        earlier rounds left out.
    channel : mapping of str to array
        As in `RunState`, on the way to the state after the round.
    batteries : dict of str to (C,) array
        The same; changed in place.
    begun : bool
        Whether the algorithm has asked in the round.
    wrapped : int
        Coordinates of secure sums that have wrapped around.
    squares : (2,) array of float
        Squared norms of what memories have left out, added up, and of how many replies.
    metrics : mapping of str to (2,) array of float
        Weighted sums of the metrics of local steps, and of the weights.
    edges_s : dict of int to float
        Virtual clock of each edge server that has asked in the round.
    """

    round: int
    time_s: float
    start_s: float
    step_state: Mapping[str, Array] = field(default_factory=dict)
    ask: int = 0
    replies: list[Reply] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    ended: list[CountedTasks] = field(default_factory=list)
    timeline: Timeline | None = None
    staleness: Ints = field(default_factory=lambda: _NONE)
    corrected: Floats | None = None
    ahead: Mapping[str, Array] = field(default_factory=dict)
    answered: Ints = field(default_factory=lambda: _NONE)
    channel: Mapping[str, Array] = field(default_factory=dict)
    batteries: dict[str, Array] = field(default_factory=dict)
    begun: bool = False
    wrapped: int = 0
    squares: Floats = field(default_factory=lambda: np.zeros(2))
    metrics: dict[str, Floats] = field(default_factory=dict)
    edges_s: dict[int, float] = field(default_factory=dict)

    def add_metrics(self, each: Mapping[str, Array], weights: Floats) -> None:
        """Add the metrics (K,) of local steps in a reply."""
        for name, values in each.items():
            if name.startswith(METRIC):
                terms = np.array([values @ weights, weights.sum()])
                self.metrics[name] = self.metrics.get(name, 0.0) + terms

    def lateness(self, in_flight: int) -> dict[str, float]:
        """Return the columns of a row about late replies, with so many tasks under way."""
        values, late = {"in_flight": float(in_flight)}, self.staleness.tolist()
        if late:
            values["staleness_mean"] = sum(late) / len(late)
            values["staleness_max"] = float(max(late))
        return values

    @property
    def left_out(self) -> float:
        """Root mean square of the errors in memories; NaN without replies."""
        total, count = self.squares
        return float(np.sqrt(total / count)) if count else math.nan

    @property
    def when(self) -> str:
        """When clients are asked, for messages."""
        return f"round {self.round}, time {self.time_s:.6g} s"

    def count(
        self, ended: CountedTasks, sent: int | None = None, *, participants: bool = True
    ) -> None:
        """Add tasks that are over to the counts and the events of the row; no other place does.

        Parameters are those of `Ended.add_to`.
        """
        ended.add_to(self.counts, sent, participants=participants)
        self.ended.append(ended)

    @classmethod
    def after(cls, run_state: RunState) -> RoundStats:
        """Return the empty statistics of the round after a state."""
        now = run_state.time_s
        return cls(
            run_state.round + 1, now, now, run_state.step_state, ahead=run_state.ahead,
            channel=run_state.channel, batteries=dict(run_state.batteries),
        )  # fmt: skip


class ServerFunction:
    """Checks of an algorithm's return values, with the place of a mistake in the error.

    Parameters
    ----------
    algorithm : Algorithm
        Whose server function it is.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.name = algorithm.name
        self.method = "arrival" if algorithm.asynchronous else "round"
        self.declared = frozenset(names(algorithm.diagnostics))

    def guard(self, state: State) -> None:
        """Make a state read-only: an earlier model may still be evaluated or sent."""
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def asks(self, returned: Any, round_number: int) -> Generator[Any, Any, Any]:
        """Return the result of `round` if it is a generator of Asks.

        Raises
        ------
        RunFailed
            If it is anything else.
        """
        if not isinstance(returned, Generator):
            found = f"returns {_kind(returned)} without an Ask"
            raise self._failed(round_number, f"{found}; ask by: reply = yield Ask(...)")
        return returned

    def ask(self, asked: Any, round_number: int) -> Ask | Wait:
        """Return the yielded value of a generator if it is an Ask or a Wait.

        Raises
        ------
        RunFailed
            If it is anything else.
        """
        if not isinstance(asked, (Ask, Wait)):
            raise self._failed(round_number, f"yields {_kind(asked)}; yield an Ask or a Wait")
        return asked

    def result(self, returned: Any, before: State, round_number: int) -> tuple[State, Diagnostics]:
        """Return the state and the diagnostics that a round ended with.

        Parameters
        ----------
        returned : Any
            What `round` or `arrival` returned.
        before : mapping of str to array
            The state before the round.

        Raises
        ------
        RunFailed
            If it is not a state and diagnostics that are declared, or has a model of another shape.
        """
        if not (
            isinstance(returned, (tuple, list))
            and len(returned) == 2
            and all(isinstance(part, Mapping) for part in returned)
        ):
            text = f"returns {_kind(returned)}; end it by: return state, diagnostics (two dicts)"
            raise self._failed(round_number, text)
        state, diagnostics = returned
        wanted = np.shape(before["x"])
        if "x" not in state:
            raise self._failed(round_number, "returns a state without 'x', the model; add it")
        if np.shape(state["x"]) != wanted:
            found = f"returns x of shape {np.shape(state['x'])}"
            raise self._failed(round_number, f"{found} for a model of shape {wanted}; correct it")
        undeclared = diagnostics.keys() - self.declared
        if undeclared:  # it would be lost: the columns of the table are those of its row 0
            raise self._failed(
                round_number,
                f"returns {', '.join(sorted(map(str, undeclared)))}, which its `diagnostics` do "
                "not declare; add the name there",
            )
        return state, diagnostics

    def _failed(self, round_number: int, text: str) -> RunFailed:
        return RunFailed(f"round {round_number}: '{self.method}' of '{self.name}' {text}")


def _kind(value: Any) -> str:
    """Return the type of a value in a few words."""
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    if value is None or isinstance(value, (int, float, str)):
        return clipped(repr(value), _SHOWN)
    return f"a {type(value).__name__}"
