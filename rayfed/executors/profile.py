"""Profile: the wall-clock seconds of each step of a run's rounds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

STEPS = (
    "selection", "clock", "sending", "computing", "adding up", "algorithm", "evaluation", "records",
    "other",
)  # fmt: skip
"""Steps of a round: who is asked; when work begins and ends; what travels to actors and back, and
waiting for them; the clients' functions at the slowest host; sums; the server's function; losses of
all clients and their columns; tables and checkpoints on the disk; and what is between them."""


class Profile:
    """Durations of methods of some objects.

    At each moment one step is counted, the innermost one; what it calls and is watched as well is
    counted there. A profile takes the place of the methods that it watches, so that a run without
    one does nothing for it.

    Attributes
    ----------
    seconds : dict of str to float
        Wall-clock seconds of each step so far.
    mean_s : float
        Seconds of computing at the mean host of those that were asked; 0 in one process.
    begun : Counter
        How often each step has begun.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS, 0.0)
        self.mean_s = 0.0
        self.begun: Counter[str] = Counter()
        self._step: str | None = None
        self._inclusive = False
        self._since = 0.0

    @property
    def rounds(self) -> int:
        """Number of rounds that have begun."""
        return self.begun["other"]

    @property
    def total_s(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())

    def watch(
        self, owner: object, method: str, step: str, *, opens: bool = False, inclusive: bool = False
    ) -> None:
        """Measure a method of an object from now on.

        Parameters
        ----------
        owner : object
        method : str
        step : str
            Among `STEPS`.
        opens : bool
            Whether it also counts outside any other step: a round does, and what is written.
        inclusive : bool
            Whether all that it calls belongs to this step.
        """
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **options: Any) -> Any:
            before = self._step
            if self._inclusive or (before is None and not opens):
                return inner(*args, **options)
            self.begun[step] += 1
            self._go_to(step, inclusive)
            try:
                return inner(*args, **options)
            finally:
                self._go_to(before)

        setattr(owner, method, timed)

    def computed(self, seconds: Sequence[float]) -> None:
        """Count the seconds that actors computed; the current step waited for the slowest.

        Parameters
        ----------
        seconds : sequence of float
            Of each actor that was asked.
        """
        if self._inclusive or self._step is None or not seconds:
            return
        self.seconds[self._step] -= max(seconds)
        self.seconds["computing"] += max(seconds)
        self.mean_s += sum(seconds) / len(seconds)

    def _go_to(self, step: str | None, inclusive: bool = False) -> None:
        now = time.perf_counter()
        if self._step is not None:
            self.seconds[self._step] += now - self._since
        self._step, self._since, self._inclusive = step, now, inclusive

    def record(self) -> dict[str, Any]:
        """Return the measurements, for a file."""
        known: dict[str, Any] = {"rounds": self.rounds, "seconds": self.seconds}
        return known | ({"computing_mean_actor": self.mean_s} if self.mean_s else {})
