"""Output of client functions, with the run, the round and the clients in front of each line."""

from __future__ import annotations

import io
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import Any, ClassVar, TextIO

MOST = 1000
"""Lines of one Ask that travel from another process; of more, how many there were is said."""


class Prints:
    """Leaves the output of client functions alone.

    Attributes
    ----------
    captured : tuple of str
        Lines that travel to the process that shows them.
    """

    captured: tuple[str, ...] = ()

    def labelled(self, label: object) -> AbstractContextManager[object]:
        """Put a label in front of every line that is printed meanwhile."""
        return nullcontext()

    def muted(self) -> AbstractContextManager[object]:
        """Drop output printed meanwhile."""
        return nullcontext()


DIRECT = Prints()


class Labelled(Prints):
    """Shows labelled lines in this process as soon as they end."""

    def labelled(self, label: object) -> AbstractContextManager[object]:
        """Write labelled lines where this process writes."""
        return _Redirected(_Lines(label, sys.stdout))

    def muted(self) -> AbstractContextManager[object]:
        """Drop output printed meanwhile."""
        return redirect_stdout(io.StringIO())


class Captured(Labelled):
    """Keeps labelled lines, for another process to show."""

    def __init__(self) -> None:
        self.text = io.StringIO()

    def labelled(self, label: object) -> AbstractContextManager[object]:
        """Keep labelled lines."""
        return _Redirected(_Lines(label, self.text))

    @property
    def captured(self) -> tuple[str, ...]:  # type: ignore[override]
        """The first `MOST` lines, and the number of further ones."""
        lines = self.text.getvalue().splitlines()
        more = len(lines) - MOST
        return (*lines[:MOST], *([f"... and {more} more lines"] if more > 0 else []))


class _Lines(io.TextIOBase):
    """Puts a label in front of every line on its way to another stream."""

    encoding: ClassVar[str] = "utf-8"  # type: ignore[misc]

    def __init__(self, label: object, into: TextIO) -> None:
        self.label, self.into, self.begun = label, into, ""

    def write(self, text: str) -> int:
        """Pass on the lines that are whole."""
        *complete, self.begun = (self.begun + text).split("\n")
        for line in complete:
            self.into.write(f"{self.label}: {line}\n")
        return len(text)

    def end(self) -> None:
        """Pass on a last line without an end."""
        if self.begun:
            self.write("\n")


class _Redirected(redirect_stdout[_Lines]):
    """Output stream that passes printed text to lines; the last one may lack an end."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__(lines)
        self.lines = lines

    def __exit__(self, *error: Any) -> None:
        """Pass on the last line, and print to where it was printed before."""
        try:
            self.lines.end()
        finally:
            super().__exit__(*error)
