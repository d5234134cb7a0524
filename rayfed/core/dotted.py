"""Dotted keys: changing one place of a scenario, and sweeping several.

A key names a place by its keys and its indices in lists, ``algorithms.0.local.lr``; the label or
the name of an entry does as well, ``algorithms.fedavg.local.lr``, and ``*`` stands for every entry
of a list. A place that a scenario leaves out is made on the way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import yaml

from rayfed.core.errors import ScenarioError, clipped, listed
from rayfed.core.yamlfile import DEEPEST, parse_yaml, problem_of

_NUMBER = re.compile("[0-9]+")  # of any length: Python refuses to read thousands of digits

Overrides = Mapping[str, Any] | Iterable[str | tuple[str, Any]]
"""Values for dotted keys, or texts ``dotted.key=value`` with a value in YAML."""


def apply_overrides(raw: Mapping[str, Any], overrides: Overrides) -> dict[str, Any]:
    """Return a scenario with some places changed.

    Parameters
    ----------
    raw : mapping
        What a scenario file holds; it is not changed.
    overrides : mapping, or iterable of str
        Values for dotted keys, or texts ``dotted.key=value`` with a value in YAML.

    Raises
    ------
    ScenarioError
        If an override is not of that form or names a place that cannot be.

    Examples
    --------
    >>> apply_overrides({"clients": {"delay": "constant"}}, ["clients.delay.mean_s=2"])
    {'clients': {'delay': {'name': 'constant', 'mean_s': 2}}}
    """
    changed = dict(raw)
    for key, value in pairs(overrides):
        changed = put(changed, key, value)
    return changed


def pairs(overrides: Overrides) -> list[tuple[str, Any]]:
    """Return overrides as pairs of a dotted key and its value.

    Raises
    ------
    ScenarioError
        If one is not of the form ``dotted.key=value``.
    """
    if isinstance(overrides, Mapping):
        return list(overrides.items())
    return [_pair(each) if isinstance(each, str) else each for each in overrides]


def _pair(override: str) -> tuple[str, Any]:
    key, equals, text = override.partition("=")
    place = f"--set {clipped(override, 80)}"
    if not (equals and key.strip()):
        raise ScenarioError(place, "found no key=value; write dotted.key=value")
    if key.count(".") >= DEEPEST:
        raise ScenarioError(place, f"the key has {key.count('.') + 1:,} parts; no place is so deep")
    try:
        return key.strip(), parse_yaml(text)
    except yaml.YAMLError as error:
        text = f"the value is not valid YAML: {problem_of(error)}"
        raise ScenarioError(place, text) from error


def put(raw: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return a scenario with ``value`` at a dotted key; `raw` is not changed."""
    changed: dict[str, Any] = _put(raw, key.split("."), value, key)
    return changed


def flat(
    settings: Mapping[str, Any], inside: tuple[type, ...] = (Mapping,), prefix: str = ""
) -> dict[str, Any]:
    """Return nested settings by dotted keys, with indices in lists of nested values.

    Parameters
    ----------
    settings : mapping
    inside : tuple of type
        Types of values for which a list counts as nested; other lists stay whole.
    prefix : str
        Beginning of the keys.

    Examples
    --------
    >>> flat({"local": {"lr": 0.1}, "uplink": [{"k": 2}], "hidden": [4, 5]})
    {'local.lr': 0.1, 'uplink.0.k': 2, 'hidden': [4, 5]}
    """
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, (list, tuple)) and any(isinstance(item, inside) for item in value):
            value = {str(k): item for k, item in enumerate(value)}
        if isinstance(value, Mapping):
            values |= flat(value, inside, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = value
    return values


def combinations(grid: Mapping[str, Iterable[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of the values that a grid gives to its dotted keys."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def setting_name(setting: Mapping[str, Any]) -> str:
    """Return a short name of one combination; last parts of keys do where they differ.

    Examples
    --------
    >>> setting_name({"algorithms.*.local.lr": 0.1, "participation.cohort": 5})
    'lr=0.1, cohort=5'
    """
    short = [key.rpartition(".")[2] for key in setting]
    names = short if len(set(short)) == len(short) else list(setting)
    texts = (clipped(value_text(value), 80) for value in setting.values())
    return ", ".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))


def case_setting(case: str, setting: str) -> str:
    """Return the name of a setting of a case, which may have a grid.

    Examples
    --------
    >>> case_setting("skewed", "lr=0.1"), case_setting("skewed", "")
    ('skewed, lr=0.1', 'skewed')
    """
    return ", ".join(filter(None, (case, setting)))


def matches(key: str, place: str) -> bool:
    """Return whether a dotted key and a place name the same, or one lies inside the other.

    Examples
    --------
    >>> matches("algorithms.*.local", "algorithms.0.local.lr")
    True
    """
    parts = zip(key.split("."), place.split("."), strict=False)
    return all(one in (other, "*") for one, other in parts)


def value_text(value: Any) -> str:
    """Return a value of a grid on one line."""
    if isinstance(value, Mapping):
        rest = [f"{key}={value_text(item)}" for key, item in value.items() if key != "name"]
        return " ".join([str(value.get("name", "")), *rest]).strip()
    return str(value)


def _put(node: Any, parts: list[str], value: Any, key: str) -> Any:
    """Return `node` with ``value`` at the place that `parts` name below it."""
    if not parts:
        return value
    head, rest = parts[0], parts[1:]
    if isinstance(node, (list, tuple)):
        changed = list(node)
        for index in _indices(node, head, key):
            changed[index] = _put(node[index], rest, value, key)
        return changed
    settings = _settings(node)
    return {**settings, head: _put(settings.get(head), rest, value, key)}


def _indices(node: Sequence[Any], head: str, key: str) -> Sequence[int]:
    """Return which entries of a list a part of a key names."""
    if head == "*":
        return range(len(node))
    index = _index(node, head)
    if index is not None:
        return (index,)
    if _NUMBER.fullmatch(head):
        text = f"found index {clipped(head, 20)} in a list of {len(node)}; count from 0"
        raise ScenarioError(key, text)
    known = [name for name in map(called, node) if name]
    hint = f"; known: {listed(known)}" if known else ""
    text = f"found '{clipped(head, 40)}' where a list is; give an index or *"
    raise ScenarioError(key, text + hint)


def _index(node: Sequence[Any], head: str) -> int | None:
    """Return which entry of a list has a label, or else a name, or an index; None if none has."""
    labels = [k for k, entry in enumerate(node) if called(entry) == head]
    named = labels or [k for k, entry in enumerate(node) if _name(entry) == head]
    if len(named) == 1:
        return named[0]
    inside = _NUMBER.fullmatch(head) and len(head) < 10 and int(head) < len(node)
    return int(head) if inside else None


def resolved(raw: Any, key: str) -> str:
    """Return a dotted key with indices in place of the labels and names of entries of lists.

    Examples
    --------
    >>> resolved({"algorithms": ["fedavg", {"name": "fedexp"}]}, "algorithms.fedexp.local.lr")
    'algorithms.1.local.lr'
    """
    parts, node = key.split("."), raw
    for k, part in enumerate(parts):
        if isinstance(node, (list, tuple)):
            index = _index(node, part)
            parts[k] = part if index is None else str(index)
            node = None if index is None else node[index]
        else:
            node = node.get(part) if isinstance(node, Mapping) else None
    return ".".join(parts)


def replaced(raw: Any, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each dotted key that a later one of them replaces, with that key.

    Examples
    --------
    >>> list(replaced({}, ["algorithms.*.local.lr", "algorithms.*.local", "rounds"]))
    [('algorithms.*.local.lr', 'algorithms.*.local')]
    >>> list(replaced({}, ["algorithms.*.lr", "algorithms.0.lr"]))  # the others keep it
    []
    """
    before: list[tuple[str, list[str]]] = []
    for later in keys:
        pattern = resolved(raw, later).split(".")
        for earlier, path in before:
            under = len(pattern) <= len(path)
            if under and all(part in ("*", own) for part, own in zip(pattern, path, strict=False)):
                yield earlier, later
        before.append((later, pattern))


def called(entry: Any) -> str:
    """Return the label of a list's entry, or its name without a label."""
    if isinstance(entry, Mapping):
        return str(entry.get("label") or _name(entry))
    return str(getattr(entry, "label", None) or _name(entry))


def _name(entry: Any) -> str:
    given = entry.get("name") if isinstance(entry, Mapping) else entry
    name = given if isinstance(given, str) else getattr(given, "name", None)
    return name if isinstance(name, str) else ""


def _settings(node: Any) -> dict[str, Any]:
    """Return a plug-in, a part, a bare name or nothing as the mapping that it stands for."""
    if isinstance(node, Mapping):
        return dict(node)
    if is_dataclass(node) and not isinstance(node, type):
        values = {field.name: getattr(node, field.name) for field in fields(node) if field.init}
        return {"name": type(node), **values} if hasattr(node, "name") else values
    return {} if node is None else {"name": node}
