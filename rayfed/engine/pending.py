"""Work that goes on after its round (``participation.late: stale``), as values between rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rayfed.core.arrays import Array, Bools, Floats, Ints
from rayfed.core.columns import names
from rayfed.engine import columns

if TYPE_CHECKING:
    from rayfed.engine.exchange import Work
    from rayfed.engine.run import Run

Send = Mapping[str, Array]
"""What clients download."""

_INTS = ("client", "round", "ask", "steps")
DRAWS = names(columns.DRAWS)
_FLOATS = ("weight", "start_s", "compute_s", "end_s", "gone_s")


@dataclass(frozen=True)
class Pending:
    """Works that began in earlier rounds and have not entered any.

    They are computed when they arrive: until then nobody else changes their clients' state.

    Parameters
    ----------
    works : mapping of str to (K,) array
        Columns, ordered by round, then by client. "weight" is the raw weight of the client,
        "gone_s" when it goes away, "draws" how often it was drawn, where that may be repeatedly.
    sends : mapping of int to mapping of str to array
        What clients downloaded, by round, as long as a work of that round is among `works`.
    """

    works: Mapping[str, Array] = field(
        default_factory=lambda: {
            **{name: np.empty(0, dtype=np.int64) for name in _INTS},
            **{name: np.empty(0) for name in _FLOATS},
        }
    )
    sends: Mapping[int, Send] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: Run) -> Pending:
        """Return no works of a run."""
        if not run.participation.selection.repeats:
            return cls()
        return cls({**cls().works, **{name: np.empty(0, dtype=np.int64) for name in DRAWS}})

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def clients(self) -> Ints:
        """Who is at work (K,)."""
        return self.works["client"]

    @property
    def over_s(self) -> Floats:
        """When each work (K,) is over: at the reply, or when the client goes away."""
        return np.minimum(self.works["end_s"], self.works["gone_s"])

    @property
    def fails(self) -> Bools:
        """Which clients (K,) go away before they are done."""
        return np.asarray(self.works["gone_s"] < self.works["end_s"])

    def busy(self, ids: Ints, time_s: float) -> Bools:
        """Return which clients (K,) are still at work at a virtual time."""
        return np.isin(ids, self.clients[self.over_s > time_s])

    def next_s(self, time_s: float) -> float:
        """Return when the next work after a virtual time is over; infinity if none is."""
        over_s = self.over_s
        return float(np.min(over_s[over_s > time_s], initial=np.inf))

    def split(self, time_s: float) -> tuple[Pending, Pending]:
        """Return the works that are over at a virtual time, and those that are not."""
        over = self.over_s <= time_s
        return self.part(over), self.part(~over)

    def part(self, chosen: Bools) -> Pending:
        """Return some of the works."""
        works = {name: column[chosen] for name, column in self.works.items()}
        rounds = set(works["round"].tolist())
        return Pending(works, {r: send for r, send in self.sends.items() if r in rounds})

    def by_round(self) -> Iterator[Pending]:
        """Yield the works of one round after the other."""
        for number in np.unique(self.works["round"]):
            yield self.part(self.works["round"] == number)

    def plus(self, work: Work, weights: Floats, chosen: Bools, round: int, ask: int) -> Pending:
        """Return these works and some of those of an Ask of the newest round.

        Parameters
        ----------
        work : Work
        weights : (K,) array of float
            Raw weights of its clients.
        chosen : (K,) array of bool
            Which of its clients go on.
        round, ask : int
            The round, and the number of the Ask in it.
        """
        if not chosen.any():
            return self
        timing, one = work.timing, np.ones(len(chosen), dtype=np.int64)
        fresh = {
            "client": work.clients.ids, "round": round * one, "ask": ask * one,
            "steps": timing.steps, "draws": work.clients.counts, "weight": weights,
            "start_s": timing.start_s * one, "compute_s": timing.compute_s,
            "end_s": timing.end_s, "gone_s": timing.gone_s,
        }  # fmt: skip
        works = {
            name: np.concatenate([column, fresh[name][chosen]])
            for name, column in self.works.items()
        }
        return Pending(works, {**self.sends, round: work.ask.send})

    def arrays(self) -> dict[str, Array]:
        """Return everything as named arrays."""
        arrays = {f"work.{name}": column for name, column in self.works.items()}
        arrays["rounds"] = np.array(list(self.sends), dtype=np.int64)
        for name in next(iter(self.sends.values()), {}):
            arrays[f"send.{name}"] = np.stack([send[name] for send in self.sends.values()])
        return arrays

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> Pending:
        """Return what `arrays` returned as pending works again."""
        works = {k.removeprefix("work."): v for k, v in arrays.items() if k.startswith("work.")}
        stacks = {k.removeprefix("send."): v for k, v in arrays.items() if k.startswith("send.")}
        sends = {
            number: {name: stack[k] for name, stack in stacks.items()}
            for k, number in enumerate(arrays["rounds"].tolist())
        }
        return cls(works, sends)
