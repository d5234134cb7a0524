"""The logger ``rayfed``: the events of runs, line by line, for debugging.

It is one of Python's ``logging``: nothing is written unless a program, or ``--verbose``, asks for
it. Lines of runs that go on in other processes come to the process that began the study.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rayfed.core.names import called
from rayfed.engine.run import Run
from rayfed.engine.state import Row
from rayfed.engine.tasks import STATUS, CountedTasks, columns_of

logger = logging.getLogger("rayfed")
logger.addHandler(logging.NullHandler())


class LogLine(NamedTuple):
    """A line on its way from another process, with its level in ``logging``."""

    level: int
    text: str

    def write(self) -> None:
        """Write it to the logger of this process."""
        logger.log(self.level, "%s", self.text)


class _Forwarded(logging.Handler):
    """A handler that passes lines on, instead of writing them."""

    def __init__(self, take: Callable[[LogLine], None]) -> None:
        super().__init__()
        self.take = take

    def emit(self, record: logging.LogRecord) -> None:
        self.take(LogLine(record.levelno, record.getMessage()))


def forward(level: int, take: Callable[[LogLine], None]) -> None:
    """Let the logger of this process hand on its lines, from a level on."""
    logger.setLevel(level)
    logger.propagate = False
    logger.addHandler(_Forwarded(take))


def log_round(run: Run, row: Row, ended: Sequence[CountedTasks]) -> None:
    """Log a line about a round: its clients, their outcomes, the loss, the simulated time."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s", round_line(run, row, ended))


def round_line(run: Run, row: Row, ended: Sequence[CountedTasks]) -> str:
    """Return a line about a round; see `log_round`.

    Parameters
    ----------
    run : Run
    row : mapping
        Of ``rounds``.
    ended : sequence of Ended
        Its tasks, an Ask after the other.
    """
    parts = []
    clients, status = columns_of([each.tasks for each in ended], "client", "status")
    if len(clients):
        algorithm = run.training.algorithm
        names = () if algorithm.centralised else run.federation.clients.names
        verb = "heard of" if algorithm.asynchronous else "asked"
        parts.append(f"{verb} {called(np.unique(clients), names)}")
        counts = enumerate(np.bincount(status))
        parts.append(", ".join(f"{n} {STATUS[k]}" for k, n in counts if n))
    else:  # of work that goes on in later rounds there are no events yet
        parts.append("no task ended" if ended else "nobody was asked")
    if np.isfinite(row["loss"]):
        parts.append(f"loss {row['loss']:.6g}")
    parts.append(f"{row['time_s']:.6g} s simulated")
    return f"{run.folder}, round {row['round']}: {'; '.join(parts)}"
