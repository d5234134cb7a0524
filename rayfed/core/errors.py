"""The errors that rayfed raises on purpose, each one line for the user."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 280
"""Characters of an error's line, at most; `clipped` leaves out what is in the middle."""
_NAME = 80
_KNOWN = 160


def clipped(text: object, limit: int = LONGEST) -> str:
    r"""Return a text on one line of so many characters, what cannot be printed as escapes.

    Examples
    --------
    >>> clipped("first\nsecond")
    'first second'
    >>> clipped("0123456789" * 10, 20)
    '012345678...23456789'
    """
    whole = str(text)
    if len(whole) > limit:
        tail = (limit - 3) // 2
        whole = whole[: limit - 3 - tail] + "..." + whole[len(whole) - tail :]
    printable = "".join(c if c.isprintable() else _escaped(c) for c in whole)
    return printable if len(printable) <= limit else clipped(printable, limit)


def _escaped(character: str) -> str:
    return " " if character.isspace() else ascii(character)[1:-1]


class RayfedError(Exception):
    """Base of all errors that are shown to the user as one line, without a traceback."""


class ScenarioError(RayfedError):
    """Bad input found before any actor starts (exit status 2).

    Parameters
    ----------
    place : str
        Where: the dotted key in the scenario (``participation.cohort``) or a file.
    problem : str
        What was found and what to change, one sentence each.
    """

    def __init__(self, place: str, problem: str) -> None:
        where = f"{clipped(place, LONGEST // 2)}: " if place else ""
        super().__init__(where + clipped(problem, LONGEST - len(where)))
        self.place = place
        self.problem = problem

    def under(self, place: str) -> ScenarioError:
        """Return the error with its place below a dotted key of the scenario."""
        return ScenarioError(".".join(filter(None, (place, self.place))), self.problem)

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.place, self.problem)


class DataMissing(ScenarioError):
    """A data set is neither at hand nor to be had; nothing is wrong with the scenario."""


class RunFailed(RayfedError):
    """One run cannot go on (exit status 1); what it recorded is kept."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence for a name that does not exist, with the nearest known one.

    All are listed where none is near, or two are as near as each other, as far as they fit a line.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.5) if len(name) < _NAME else []
    ratios = [difflib.SequenceMatcher(None, near, name).ratio() for near in close]
    sure = len(close) == 1 or (close and ratios[0] > ratios[1])
    hint = f"did you mean '{close[0]}'?" if sure else f"known: {listed(names)}"
    return f"unknown {what} '{clipped(name, _NAME // 2)}'; {hint}"


def listed(names: Iterable[str], limit: int = _KNOWN) -> str:
    """Return names with commas, as many as fit so many characters, and how many there are more.

    Examples
    --------
    >>> listed(["fedavg", "fedexp", "fedprox"], limit=16)
    'fedavg, fedexp and 1 more'
    """
    every = list(names)
    for count in range(len(every), 0, -1):
        text = ", ".join(every[:count])
        if len(text) <= limit or count == 1:
            more = len(every) - count
            return clipped(text, limit) + (f" and {more} more" if more else "")
    return ""
