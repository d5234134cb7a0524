"""Upper bounds of settings, so that counts fit int64 and a run can end."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import Interval, Le

from rayfed.core.errors import ScenarioError

LARGEST = 2**31 - 1
"""Of whole numbers: a product of two of them, or a sum over 2**32 clients, fits int64."""
LARGEST_SEED = 2**53 - 1
"""Of seeds: float64 and JavaScript hold every whole number up to here."""
LONGEST_S = 1e12
"""Seconds, about 30,000 years: a float64 clock still resolves 0.1 ms there."""
MOST_RUNS = 10_000
"""Runs of a study: settings of the grid times algorithms times seeds."""

Whole = Annotated[int, Interval(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Interval(ge=1, le=LARGEST)]
Seed = Annotated[int, Interval(ge=0, le=LARGEST_SEED)]
Seconds = Annotated[float, Le(LONGEST_S)]


def bounded(hint: Any, name: str) -> Any:
    """Return a type hint of a plug-in's setting whose whole numbers and seconds have bounds.

    Parameters
    ----------
    hint : type
        May be annotated, a union, or a tuple.
    name : str
        Of the setting; those that end in ``_s`` are seconds.
    """
    if hint is int:
        return Seed if name == "seed" else Annotated[int, Le(LARGEST)]
    if hint is float and name.endswith("_s"):
        return Seconds
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return Annotated[bounded(inner, name), *marks]
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(bounded(part, name) for part in get_args(hint))]  # noqa: UP007
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        return tuple[tuple(p if p is ... else bounded(p, name) for p in parts)]  # type: ignore[misc]
    return hint


def check_runs_number(values: Iterable[int], algorithms: int, seeds: int) -> None:
    """Refuse a study of too many runs.

    Parameters
    ----------
    values : iterable of int
        How many values each key of the grid has.

    Raises
    ------
    ScenarioError
        If there are more than `MOST_RUNS`.
    """
    settings = math.prod(values)
    if seeds > MOST_RUNS:
        raise ScenarioError("seeds", f"found {seeds:,} seeds; give at most {MOST_RUNS:,}")
    runs = settings * algorithms * seeds
    if runs > MOST_RUNS:
        text = f"{settings:,} settings, {algorithms} algorithms and {seeds} seeds are more than"
        raise ScenarioError("grid", f"{text} {MOST_RUNS:,} runs; split the study")
