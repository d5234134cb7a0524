"""The settings that a study runs: the combinations of its grid, and its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rayfed.core.dotted import (
    case_setting,
    combinations,
    matches,
    put,
    resolved,
    setting_name,
)
from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.invalid import errors_of, together
from rayfed.study.scenario.names import canonical, distinct_settings
from rayfed.study.scenario.study import MOST_RUNS, Study


def expand(given: Study | Mapping[str, Any], root: Path | str = "") -> list[tuple[str, Study]]:
    """Return the settings of a study, those of its grid and cases, each with its name.

    There is one, without a name, if it has neither.

    Parameters
    ----------
    given : Study or mapping
        A study, or what a scenario file holds.
    root : Path
        Folder that paths in a mapping are relative to.

    Raises
    ------
    ScenarioError
        If a key of the grid or of a case does not exist, a value does not fit it, or two settings
        are the same.
    """
    study = given if isinstance(given, Study) else Study.parse(given, root)
    if study.cases:
        return _expand_cases(study)
    if any(algorithm.grid for algorithm in study.algorithms):
        return _expand_own(study)
    base, origins = study.given() | {"grid": {}}, {key: f"grid.{key}" for key in study.grid}
    grid = [
        (setting_name(values), values, changed(base, values, origins))
        for values in combinations(study.grid)
    ]
    names = distinct_settings((name, values, made.to_dict()) for name, values, made in grid)
    return [(name, made) for name, (_, _, made) in zip(names, grid, strict=True)]


def _expand_cases(study: Study) -> list[tuple[str, Study]]:
    """Return the settings of each case, which may have a grid of its own."""
    base = study.given() | {"cases": {}}
    made: list[tuple[str, Study]] = []
    first: dict[str, str] = {}
    for case, values in study.cases.items():
        origins = {key: f"cases.{case}.{key}" for key in values}
        for setting, one in expand(changed(base, values, origins)):
            name = case_setting(case, setting)
            same = first.setdefault(canonical(one.to_dict()), name)
            if same != name:
                text = f"the settings '{same}' and '{name}' are the same; leave one out"
                raise ScenarioError(f"cases.{case}", text)
            made.append((name, one))
    runs = sum(len(one.seeds) * len(one.algorithms) for _, one in made)
    if runs > MOST_RUNS:
        text = f"make {runs:,} runs, {MOST_RUNS:,} are the most; split the study"
        raise ScenarioError("cases", text)
    return made


def _expand_own(study: Study) -> list[tuple[str, Study]]:
    """Return the settings of a study with grids of single algorithms.

    A setting holds the algorithms that have one of its name.
    """
    base: dict[str, Any] = study.given() | {"grid": {}}
    origins = {}
    for index, algorithm in enumerate(study.algorithms):
        base = put(base, f"algorithms.{index}.grid", {})
        for key in algorithm.grid:
            origins[f"algorithms.{index}.{key}"] = f"algorithms.{index}.grid.{key}"
    origins |= {key: f"grid.{key}" for key in study.grid}
    members: dict[str, dict[int, dict[str, Any]]] = {}
    for shared in combinations(study.grid):
        for index, algorithm in enumerate(study.algorithms):
            made = []
            for own in combinations(algorithm.grid):
                values = shared | {f"algorithms.{index}.{key}": own[key] for key in own}
                variant = changed(base, values, origins, [index])
                made.append((setting_name(shared | own), values, variant.to_dict()))
            try:
                names = distinct_settings(made)
            except ScenarioError as error:
                raise ScenarioError(f"algorithms.{index}.grid", error.problem) from None
            for name, (_, values, _) in zip(names, made, strict=True):
                members.setdefault(name, {})[index] = values
    settings = []
    for name, versions in members.items():
        values = {key: value for own in versions.values() for key, value in own.items()}
        settings.append((name, changed(base, values, origins, list(versions))))
    return settings


def changed(
    base: Mapping[str, Any],
    values: Mapping[str, Any],
    origins: Mapping[str, str],
    only: Sequence[int] | None = None,
) -> Study:
    """Return the study of one setting: a scenario with values for dotted keys.

    Parameters
    ----------
    base : mapping
        The scenario, without what the values come from.
    values : mapping
        Values for dotted keys.
    origins : mapping of str to str
        Places of the values in the scenario, by key. An error is reported at the first place it can
        come from.
    only : sequence of int, optional
        Indices of the algorithms that it is of; all if None.

    Raises
    ------
    ScenarioError
        If the scenario is wrong with these values.
    """
    raw: dict[str, Any] = dict(base)
    try:
        for key, value in values.items():
            raw = put(raw, key, value)
        if only is not None:
            raw["algorithms"] = [raw["algorithms"][index] for index in only]
        return Study.parse(raw)
    except ScenarioError as error:
        raise together(_blamed(each, base, origins, only) for each in errors_of(error)) from None


def _blamed(
    error: ScenarioError,
    base: Mapping[str, Any],
    origins: Mapping[str, str],
    only: Sequence[int] | None,
) -> ScenarioError:
    """Return an error at its origin, else with the index of its algorithm in the study."""
    place = error.place
    head, _, rest = place.partition(".")
    index, dot, key = rest.partition(".")
    if only is not None and head == "algorithms" and index in map(str, range(len(only))):
        place = f"algorithms.{only[int(index)]}{dot}{key}"
    origin = (origins[key] for key in origins if matches(resolved(base, key), place))
    place = next(origin, place)
    return error if place == error.place else ScenarioError(place, error.problem)
