"""The errors that rayfed raises on purpose, each one line for the user."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

LONGEST = 280
"""Largest length of an error message, in characters; `clipped` removes the middle."""
_NAME = 80
_KNOWN = 160


def clipped(text: object, limit: int = LONGEST) -> str:
    r"""Return a text as one line of at most `limit` characters, non-printable ones escaped.

    Examples
    --------
    >>> clipped("first\nsecond")
    'first second'
    >>> clipped("0123456789" * 10, 20)
    '012345678...23456789'
    """
    full = str(text)
    if len(full) > limit:
        tail = (limit - 3) // 2
        full = full[: limit - 3 - tail] + "..." + full[len(full) - tail :]
    printable = "".join(c if c.isprintable() else _escaped(c) for c in full)
    return printable if len(printable) <= limit else clipped(printable, limit)


def _escaped(character: str) -> str:
    return " " if character.isspace() else ascii(character)[1:-1]


class RayfedError(Exception):
    """Base of all errors that are shown to the user in one line, without a traceback."""


class ScenarioError(RayfedError):
    """Invalid input, detected before any actor starts (exit status 2).

    Parameters
    ----------
    place : str
        Location: the dotted key in the scenario (``participation.cohort``) or a file.
    problem : str
        The value found and what to change, one sentence each.
    """

    def __init__(self, place: str, problem: str) -> None:
        where = f"{clipped(place, LONGEST // 2)}: " if place else ""
        super().__init__(where + clipped(problem, LONGEST - len(where)))
        self.place = place
        self.problem = problem

    def under(self, place: str) -> ScenarioError:
        """Return the error with its place prefixed by a dotted key of the scenario."""
        kind = type(self) if isinstance(self, Missing) else ScenarioError
        return kind(".".join(filter(None, (place, self.place))), self.problem)

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.place, self.problem)


@contextmanager
def under(place: str) -> Iterator[None]:
    """Put the place of an error that is raised meanwhile below a dotted key of the scenario.

    Examples
    --------
    >>> with under("clients"):
    ...     raise ScenarioError("count", "is missing")
    Traceback (most recent call last):
    rayfed.core.errors.ScenarioError: clients.count: is missing
    """
    try:
        yield
    except ScenarioError as error:
        raise error.under(place) from error


class Missing(ScenarioError):
    """A requirement of a valid scenario is missing on this machine."""


class DataMissing(Missing):
    """A data set is not stored locally and cannot be downloaded."""


class LibraryMissing(Missing):
    """A library of one of rayfed's extras is not installed."""


class RunFailed(RayfedError):
    """A run cannot continue (exit status 1); everything recorded so far is kept.

    Parameters
    ----------
    reason : str
        One line.
    trace : str
        The traceback of the user's code that failed, for the log; empty if none did.
    """

    def __init__(self, reason: str, trace: str = "") -> None:
        super().__init__(reason)
        self.trace = trace


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with the nearest known ones."""
    return f"unknown {what} '{clipped(name, _NAME // 2)}'; {nearest(name, known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question after the most similar known name.

    If no known name is similar, or two are equally similar, the known names are listed instead, as
    many as fit on a line.

    Examples
    --------
    >>> nearest("fedavgg", ["fedavg", "fedexp"]), nearest("sgd", ["fedavg", "fedexp"])
    ("did you mean 'fedavg'?", 'known: fedavg, fedexp')
    >>> nearest("mae", [])
    'there is none here'
    """
    names = sorted(known)
    if not names:
        return "there is none here"
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.5) if len(name) < _NAME else []
    ratios = [difflib.SequenceMatcher(None, near, name).ratio() for near in close]
    unambiguous = len(close) == 1 or (close and ratios[0] > ratios[1])
    return f"did you mean '{close[0]}'?" if unambiguous else f"known: {listed(names)}"


def listed(names: Iterable[str], limit: int = _KNOWN) -> str:
    """Return names separated by commas within `limit` characters, and the number left out.

    Examples
    --------
    >>> listed(["fedavg", "fedexp", "fedprox"], limit=16)
    'fedavg, fedexp and 1 more'
    """
    items = list(names)
    for count in range(len(items), 0, -1):
        text = ", ".join(items[:count])
        if len(text) <= limit or count == 1:
            more = len(items) - count
            return clipped(text, limit) + (f" and {more} more" if more else "")
    return ""


def many(count: int, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> many(1, "run"), many(2, "run")
    ('1 run', '2 runs')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"
