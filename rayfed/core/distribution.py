"""Distributions of a scenario's values in a search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from rayfed.core.errors import ScenarioError, clipped, unknown

Kind: TypeAlias = Literal["log", "uniform", "int", "choice"]
DIGITS = 4
"""Significant digits of numbers that are drawn."""


@dataclass(frozen=True)
class Distribution:
    """Search space of one key.

    Parameters
    ----------
    kind : "log", "uniform", "int" or "choice"
        Numbers between two, evenly in their logarithm or in themselves; whole numbers between two,
        both included; or one of a list.
    values : tuple
        The least and the largest number, or the list.

    Examples
    --------
    >>> Distribution("log", (1e-4, 1.0)).at(0.5)
    0.01
    >>> [Distribution("int", (1, 3)).at(u) for u in (0.0, 0.4, 0.99)]
    [1, 2, 3]
    """

    kind: Kind
    values: tuple[Any, ...]

    @classmethod
    def of(cls, key: str, given: Any) -> Distribution:
        """Return the distribution that a scenario gives for a key.

        Raises
        ------
        ScenarioError
            If it is not one of the four, or its numbers make no sense.
        """
        place = f"search.{key}"
        if not isinstance(given, Mapping) or len(given) != 1:
            text = f"found '{clipped(str(given), 60)}'; give one of log: [a, b], uniform: [a, b]"
            raise ScenarioError(place, f"{text}, int: [a, b] and choice: [...]")
        (kind, values), kinds = next(iter(given.items())), get_args(Kind)
        if kind not in kinds:
            raise ScenarioError(place, unknown("distribution", str(kind), kinds))
        held = tuple(values) if isinstance(values, (list, tuple)) else (values,)
        made = cls(kind, held if kind == "choice" else tuple(map(_number, held)))
        problem = made._problem()
        if problem:
            raise ScenarioError(f"{place}.{kind}", problem)
        return made

    def _problem(self) -> str:
        """Return the error of the values with its remedy; empty for valid ones."""
        shown = clipped(str(list(self.values)), 60)
        if self.kind == "choice":
            texts = [str(value) for value in self.values]
            if not texts or len(set(texts)) < len(texts):
                return f"found {shown}; give different values"
            return ""
        integral = self.kind == "int"
        numbers = all(
            isinstance(value, int if integral else (int, float)) and not isinstance(value, bool)
            for value in self.values
        )
        if len(self.values) != 2 or not numbers or not self.values[0] < self.values[1]:
            what = "whole numbers" if integral else "numbers"
            return f"found {shown}; give two {what}, the smaller one first"
        if self.kind == "log" and self.values[0] <= 0:
            return f"found {shown}; a logarithm needs numbers above 0"
        return ""

    def at(self, u: float) -> Any:
        """Return the value at a place from 0 to 1, exclusive of 1; uniform places give this law."""
        if self.kind == "choice":
            return self.values[min(int(u * len(self.values)), len(self.values) - 1)]
        low, high = self.values
        if self.kind == "int":
            return low + min(int(u * (high - low + 1)), high - low)
        if self.kind == "log":
            return self.rounded(math.exp(math.log(low) + u * (math.log(high) - math.log(low))))
        return self.rounded(low + u * (high - low))

    def rounded(self, value: Any) -> Any:
        """Return a number with few digits that is still within the bounds."""
        if self.kind in ("choice", "int"):
            return value
        low, high = self.values
        return min(max(float(f"{value:.{DIGITS}g}"), float(low)), float(high))

    def place(self, value: Any) -> float:
        """Return where a value lies, from 0 to 1; `at` takes it back, but for rounding."""
        if self.kind == "choice":
            return (int(self.to_law(value)) + 0.5) / len(self.values)
        low, high = self.values
        if self.kind == "int":
            return float((value - low + 0.5) / (high - low + 1))
        if self.kind == "log":
            return math.log(value / low) / math.log(high / low)
        return float((value - low) / (high - low))

    @property
    def law(self) -> Any:
        """The same distribution in Optuna; a choice is one of indices."""
        from optuna import distributions  # here: it is an extra, and takes half a second

        if self.kind == "choice":  # values may be mappings, which Optuna does not take
            return distributions.CategoricalDistribution(range(len(self.values)))
        if self.kind == "int":
            return distributions.IntDistribution(*self.values)
        low, high = self.values
        return distributions.FloatDistribution(low, high, log=self.kind == "log")

    def to_law(self, value: Any) -> Any:
        """Return a value as `law` has it: the index of a choice, else itself."""
        return [*map(str, self.values)].index(str(value)) if self.kind == "choice" else value

    def from_law(self, value: Any) -> Any:
        """Return the value that `to_law` was given."""
        return self.values[value] if self.kind == "choice" else value

    def at_edge(self, value: Any) -> bool:
        """Whether a number is so close to a bound that better ones may lie beyond it.

        That is the first or last whole number, and else a twentieth of the range.
        """
        if self.kind == "choice":
            return False
        if self.kind == "int":
            return value in self.values
        return not 0.05 <= self.place(value) <= 0.95


def _number(value: Any) -> Any:
    """Return a text such as 1e-4, which YAML takes for no number, as the number that it is."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value
