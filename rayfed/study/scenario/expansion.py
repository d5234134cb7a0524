"""The settings that a study runs: the combinations of its grid, and its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.bounds import MOST_RUNS
from rayfed.study.scenario.dotted import (
    case_setting,
    combinations,
    matches,
    put,
    resolved,
    setting_name,
)
from rayfed.study.scenario.invalid import errors_of, together
from rayfed.study.scenario.names import canonical, distinct_settings
from rayfed.study.scenario.study import Study


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
    base = study.given() | {"grid": {}}
    if any(algorithm.grid for algorithm in study.algorithms):
        return _expand_own(study, base)
    if not study.grid:
        return [("", _set(base, {}))]
    grid = [
        (setting_name(values), values, _set(base, values)) for values in combinations(study.grid)
    ]
    names = distinct_settings((name, values, made.to_dict()) for name, values, made in grid)
    return [(name, made) for name, (_, _, made) in zip(names, grid, strict=True)]


def _expand_cases(study: Study) -> list[tuple[str, Study]]:
    """Return the settings of each case, which may have a grid of its own."""
    base = study.given() | {"cases": {}}
    made: list[tuple[str, Study]] = []
    first: dict[str, str] = {}
    for case, values in study.cases.items():
        for setting, one in expand(_set(base, values, f"cases.{case}")):
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


def _expand_own(study: Study, base: Mapping[str, Any]) -> list[tuple[str, Study]]:
    """Return the settings of a study some of whose algorithms have grids of their own.

    A setting holds the algorithms that have one of its name.
    """
    members: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for shared in combinations(study.grid):
        for index, algorithm in enumerate(study.algorithms):
            made = []
            for own in combinations(algorithm.grid):
                values = shared | {f"algorithms.{index}.{key}": own[key] for key in own}
                whole = _subset(base, [(index, values)])
                made.append((setting_name(shared | own), values, whole.to_dict()))
            try:
                names = distinct_settings(made)
            except ScenarioError as error:
                raise ScenarioError(f"algorithms.{index}.grid", error.problem) from None
            for name, (_, values, _) in zip(names, made, strict=True):
                members.setdefault(name, []).append((index, values))
    return [(name, _subset(base, versions)) for name, versions in members.items()]


def _subset(base: Mapping[str, Any], versions: Sequence[tuple[int, Mapping[str, Any]]]) -> Study:
    """Return a study of some algorithms, by their indices, with values for dotted keys."""
    raw = dict(base)
    indices = [index for index, _ in versions]
    own = {index: f"algorithms.{index}." for index in indices}
    try:
        for index in indices:
            raw = put(raw, f"algorithms.{index}.grid", {})
        for _, values in versions:
            for key, value in values.items():
                raw = put(raw, key, value)
        return Study.parse(raw | {"algorithms": [raw["algorithms"][index] for index in indices]})
    except ScenarioError as error:
        raise together(
            _blamed_own(_moved(each, indices), versions, own, base) for each in errors_of(error)
        ) from None


def _moved(error: ScenarioError, indices: Sequence[int]) -> ScenarioError:
    """Return an error about some algorithms of a study with their indices in the whole study."""
    head, _, rest = error.place.partition(".")
    index, dot, key = rest.partition(".")
    if head != "algorithms" or index not in map(str, range(len(indices))):
        return error
    return ScenarioError(f"algorithms.{indices[int(index)]}{dot}{key}", error.problem)


def _blamed_own(
    error: ScenarioError,
    versions: Sequence[tuple[int, Mapping[str, Any]]],
    own: Mapping[int, str],
    base: Mapping[str, Any],
) -> ScenarioError:
    """Return an error with the key of an algorithm's grid that it comes from, if it does."""
    for index, values in versions:
        for key in values:
            if key.startswith(own[index]) and matches(resolved(base, key), error.place):
                place = f"algorithms.{index}.grid.{key.removeprefix(own[index])}"
                return ScenarioError(place, error.problem)
    return _blamed(error, versions[0][1], base)


def _set(base: Mapping[str, Any], setting: Mapping[str, Any], place: str = "grid") -> Study:
    """Return the study of one setting; what is wrong is blamed on the key below a place."""
    raw = dict(base)
    try:
        for key, value in setting.items():
            raw = put(raw, key, value)
        return Study.parse(raw)
    except ScenarioError as error:
        raise together(_blamed(each, setting, base, place) for each in errors_of(error)) from None


def _blamed(
    error: ScenarioError, setting: Mapping[str, Any], base: Mapping[str, Any], place: str = "grid"
) -> ScenarioError:
    """Return an error with the key of a setting that it comes from, if it comes from one."""
    for key in setting:
        if matches(resolved(base, key), error.place):
            return ScenarioError(f"{place}.{key}", error.problem)
    return error
