"""The consoles of the commands, and the volume of commands that run studies."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rayfed.core.errors import ScenarioError
from rayfed.runs.files.place import shown

out = Console(emoji=False)
err = Console(stderr=True, emoji=False)

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print errors and the result folder alone.")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v",
        help="Also print details of each round: sampled clients, outcomes and checkpoints.",
    ),
]  # fmt: skip


def say(line: str, console: Console = out, style: str | None = None) -> None:
    """Print a line as it is: neither wrapped nor read as markup."""
    console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Volume:
    """Volume of a command's output.

    Parameters
    ----------
    quiet, verbose : bool
        At most one of them.

    Raises
    ------
    ScenarioError
        If both are asked for.
    """

    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise ScenarioError("--quiet", "cannot stand with --verbose; leave one out")

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Apply the volume to the output and the logger meanwhile."""
        with _muted() if self.quiet else _logged(self.verbose):
            yield

    def watch(self, total: int, *, bars: bool = True) -> Any:
        """Return a display of the progress of a number of runs."""
        from rayfed.runs.backend import ProgressDisplay
        from rayfed.runs.progress import watch

        return ProgressDisplay() if self.quiet else watch(total, err, bars=bars)

    def warn(self, line: str) -> None:
        """Print a warning, unless only errors are asked for."""
        if not self.quiet:
            say(f"warning: {line}", err, style="yellow")

    def end(self, folder: Path) -> None:
        """Print the folder of the results where nothing else was printed."""
        if self.quiet:
            say(shown(folder))


@contextmanager
def _muted() -> Iterator[None]:
    """Drop the output of this process and its child processes."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        saved = os.dup(1)
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


@contextmanager
def _logged(wanted: bool) -> Iterator[None]:
    """Print the lines of rayfed's logger where errors are printed, above bars of progress."""
    logger, handler = logging.getLogger("rayfed"), _Printed()
    before = logger.level
    if wanted:
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


class _Printed(logging.Handler):
    """Prints each line."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), err, style="dim")
