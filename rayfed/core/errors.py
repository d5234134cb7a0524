"""The errors that rayfed raises on purpose, each one line for the user."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
        super().__init__(f"{place}: {problem}" if place else problem)
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

    All are listed where none is near, or two are as near as each other.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    ratios = [difflib.SequenceMatcher(None, near, name).ratio() for near in close]
    sure = len(close) == 1 or (close and ratios[0] > ratios[1])
    hint = f"did you mean '{close[0]}'?" if sure else f"known: {', '.join(names)}"
    return f"unknown {what} '{name}'; {hint}"
