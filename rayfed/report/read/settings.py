"""The settings of a grid and of cases, and their names on the page.

Cases are worlds in which algorithms are compared, no trials of a search. The rule: what a grid or
``cases`` varies makes a case if its key belongs to the environment, such as ``partition.alpha``,
``clients.count`` or ``participation.cohort``. Keys below ``algorithms`` are settings of an
algorithm, of which the best is sought, and so is all that ``rayfed sweep`` tries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import yaml

from rayfed.core.distribution import Distribution
from rayfed.core.dotted import case_setting, combinations, flat, put, resolved, setting_name
from rayfed.core.yamlfile import parse_yaml

_NO_SETTINGS = ("algorithms", "grid", "seeds", "name", "description")
_COUNTS = {"clients.count": "clients"}  # numbers that are shown with a noun
_INTEGER = re.compile(r"(?<== )(-?\d+)\.0\b")


def tried(scenario: str) -> dict[str, dict[str, Any]]:
    """Return the keys set by each setting of grid and cases, by its name in ``run.json``.

    Parameters
    ----------
    scenario : str
        The text of ``scenario.yaml``; without either, or where it is no YAML, there are none.
    """
    return _tried(_read(scenario))


def labels(scenario: str, info: Mapping[str, Any]) -> list[str]:
    """Return the labels of the algorithms of a run's case, or of its study if there are no cases.

    Parameters
    ----------
    scenario : str
        The text of ``scenario.yaml``.
    info : mapping
        Contents of ``run.json``, which has some settings that the text lacks.
    """
    held, setting = _read(scenario), str(info.get("setting") or "")
    for name, _, case in _cases(held):
        if setting == name or setting.startswith(f"{name}, "):
            held = case
    entries = held.get("algorithms") or (info.get("scenario") or {}).get("algorithms") or []
    return [str(entry.get("label") or entry.get("name")) for entry in entries]


def has_cases(scenario: str) -> bool:
    """Return whether a scenario names its settings itself."""
    return bool(_read(scenario).get("cases"))


def case_values(scenario: str) -> dict[str, dict[str, Any]]:
    """Return the keys set by each of the ``cases`` of a scenario, by its name."""
    return {name: _settings_of_case(values) for name, values, _ in _cases(_read(scenario))}


def planned(scenario: str) -> int:
    """Return the number of runs that a scenario plans; 0 where it is unknown, as for a sweep."""
    held = _read(scenario)
    if held.get("search"):
        return 0
    cases = [case for _, _, case in _cases(held)] or [held]
    return sum(
        len(case.get("seeds") or ()) * _combinations(case) * _combinations(algorithm)
        for case in cases
        for algorithm in case.get("algorithms") or ()
    )


def _combinations(held: Any) -> int:
    grid = held.get("grid") if isinstance(held, Mapping) else None
    return prod(len(values) for values in (grid or {}).values())


def _cases(held: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], Mapping[str, Any]]]:
    """Yield the cases of a scenario: name, values, and the scenario that each of them is."""
    for name, values in (held.get("cases") or {}).items():
        case: Mapping[str, Any] = {**held, "cases": {}}
        for key, value in values.items():
            case = put(case, key, value)
        yield str(name), values, case


def _tried(held: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    if held.get("cases"):
        return {
            case_setting(name, inner): _settings_of_case(values) | more
            for name, values, case in _cases(held)
            for inner, more in (_tried(case) or {"": {}}).items()
        }
    settings: dict[str, dict[str, Any]] = {}
    algorithms = held.get("algorithms") or [{}]
    for shared in combinations(held.get("grid") or {}):
        for index, algorithm in enumerate(algorithms):
            grid = algorithm.get("grid") if isinstance(algorithm, Mapping) else None
            for own in combinations(grid or {}):
                placed = {f"algorithms.{index}.{key}": value for key, value in own.items()}
                if shared or own:
                    settings.setdefault(setting_name(shared | own), {}).update(shared | placed)
    return settings


def _settings_of_case(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys set by a case, without those that identify its runs."""
    return {key: value for key, value in values.items() if key not in _NO_SETTINGS}


@lru_cache(maxsize=8)
def _read(scenario: str) -> Mapping[str, Any]:
    """Return the content of a scenario's text; empty if it is no YAML."""
    try:
        held = parse_yaml(scenario)
    except yaml.YAMLError:
        return {}
    return held if isinstance(held, Mapping) else {}


def key_by_place(scenario: str, key: str) -> str:
    """Return a dotted key with the places of algorithms in place of their labels."""
    return resolved(_read(scenario), key)


def searched(scenario: str) -> dict[str, Distribution]:
    """Return the distributions of a search, by dotted key with indices of algorithms.

    Parameters
    ----------
    scenario : str
        The text of ``scenario.yaml``; without a search, or where it is no YAML, there are none.
    """
    held = _read(scenario)
    space = {}
    for key, given in (held.get("search") or {}).items():
        parts = resolved(held, key).split(".")
        every = parts[:2] == ["algorithms", "*"]
        for index in range(len(held.get("algorithms") or ()) if every else 1):
            placed = [parts[0], str(index), *parts[2:]] if every else parts
            space[".".join(placed)] = Distribution.of(key, given)
    return space


def objective(scenario: str) -> str | None:
    """Return the column that a scenario's sweep makes best; None if it names none."""
    held = _read(scenario)
    by = (held.get("sweep") or {}).get("by") if held.get("search") else None
    return None if by is None else str(by)


def short_names(
    settings: Mapping[str, Mapping[str, Any]], scenarios: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return a shorter name for each setting of a grid.

    Plug-ins are shown by name, with the settings that distinguish two of a name, and numbers of
    clients with their noun; everything else keeps its key.

    Parameters
    ----------
    settings : mapping
        What `tried` returned.
    scenarios : sequence of mapping
        Records of runs, which distinguish a plug-in from an option that is a word.

    Examples
    --------
    >>> nodes = {"topology": {"name": "ring", "loss": 0}}
    >>> both = [{"topology": "ring", "cohort": 5}, {"topology": "star", "cohort": 5}]
    >>> list(short_names(dict(zip("ab", both)), [nodes]).values())
    ['ring, cohort=5', 'star, cohort=5']
    """
    keys = list(next(iter(settings.values()), {}))
    if any(list(setting) != keys for setting in settings.values()):
        return {}  # algorithms have grids of their own
    columns = {key: [setting[key] for setting in settings.values()] for key in keys}
    heads = dict(zip(keys, short_keys(keys), strict=True))
    texts, words = {}, {}
    for key, values in columns.items():
        if any(_is_plugin(_at(scenario, key)) for scenario in scenarios):
            words[key] = _plugins(heads[key], values)
        elif key in _COUNTS and all(isinstance(value, int) for value in values):
            texts[key] = [f"{value:,} {_COUNTS[key]}" for value in values]
        else:
            texts[key] = [f"{heads[key]}={value}" for value in values]
    for key, names in words.items():
        others = {text for other in words if other != key for text in words[other]}
        clear = not others & set(names)
        texts[key] = names if clear else [f"{heads[key]}={text}" for text in names]
    names = [", ".join(parts) for parts in zip(*(texts[key] for key in keys), strict=True)]
    return dict(zip(settings, names, strict=True)) if len(set(names)) == len(names) else {}


def short_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Return short forms of dotted keys: their last parts, if these are distinct.

    Examples
    --------
    >>> short_keys(["local.lr", "cohort"]), short_keys(["local.lr", "server.lr"])
    (('lr', 'cohort'), ('local.lr', 'server.lr'))
    """
    full = tuple(keys)
    last = tuple(key.rpartition(".")[2] for key in full)
    return last if len(set(last)) == len(last) else full


def _is_plugin(value: Any) -> bool:
    return isinstance(value, Mapping) and "name" in value


def _at(scenario: Any, key: str) -> Any:
    """Return the value of a scenario at a dotted key, of a list the first entry's."""
    for part in resolved(scenario, key).split("."):
        if isinstance(scenario, list):
            scenario = dict(enumerate(scenario)).get(int(part.replace("*", "0")))
        else:
            scenario = scenario.get(part) if isinstance(scenario, Mapping) else None
    return scenario


def _plugins(head: str, values: Sequence[Any]) -> list[str]:
    """Return the names of plug-ins, each with the differences between those of its name."""
    named = [flat(v) if isinstance(v, Mapping) else {"name": v} for v in values]
    texts = []
    for plugin in named:
        alike = [other for other in named if other.get("name") == plugin.get("name")]
        more = [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in plugin.items()
            if len({str(other.get(key)) for other in alike}) > 1
        ]
        name = plugin.get("name")
        texts.append(" ".join([f"no {head}" if name is None else str(name), *more]))
    return texts


@dataclass(frozen=True)
class Placed:
    """The parts of a setting.

    Parameters
    ----------
    case : str
        What it sets of the world, as it stands in a sentence; empty if it sets nothing of it.
    own : str
        What it sets of algorithms.
    """

    case: str
    own: str


def placed(scenario: str, recorded: Sequence[Mapping[str, Any]]) -> dict[str, Placed]:
    """Return the parts of each setting of a grid or of cases, by its name in ``run.json``.

    Parameters
    ----------
    scenario : str
        The text of ``scenario.yaml``.
    recorded : sequence of mapping
        The scenarios that runs recorded, see `settings.short_names`.
    """
    named, settings = case_values(scenario), tried(scenario)
    worlds = {name: _part(values, False) for name, values in settings.items()}
    if not any(worlds.values()):
        return {name: Placed("", name) for name in settings}
    short = short_names({setting_name(world): world for world in worlds.values()}, recorded)
    found = {}
    for name, values in settings.items():
        world, own = worlds[name], setting_name(_part(values, True))
        head = next((c for c in named if name == c or name.startswith(f"{c}, ")), "")
        inner = {key: value for key, value in world.items() if key not in named.get(head, ())}
        text = setting_name(inner)
        found[name] = Placed(case_setting(head, _spaced(short.get(text, text))), own)
    return found


def _part(values: Mapping[str, Any], own: bool) -> dict[str, Any]:
    """Return the keys of algorithms, or all others."""
    return {k: value for k, value in values.items() if (k.partition(".")[0] == "algorithms") == own}


def _spaced(text: str) -> str:
    """Return a setting as a sentence has it.

    Examples
    --------
    >>> _spaced("alpha=10.0"), _spaced("ring, cohort=5")
    ('alpha = 10', 'ring, cohort = 5')
    """
    return _INTEGER.sub(r"\1", text.replace("=", " = "))
