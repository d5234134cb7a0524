"""Differences between result folders, which label their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayfed.core.dotted import flat
from rayfed.report.read.settings import short_keys

MOST_KEYS = 3
"""Settings in a label; if more differ, the name of the folder replaces them."""
_NO_SETTING = {
    "algorithms", "grid", "search", "sweep", "name", "description", "seeds", "executor",
    "checkpoint", "clock",
}  # fmt: skip
_OF_DATA = ("problem.", "drift")
"""Keys of the function that is minimised, and of the rows that it is of."""
_OF_WORLD = ("partition.", "clients.", "topology.")
"""Keys of the circumstances that algorithms meet."""


@dataclass(frozen=True)
class Compared:
    """Differences between folders.

    Parameters
    ----------
    folders : tuple of str
        Their names, which are distinct.
    table : mapping of str to tuple of str
        For each dotted key that differs, its value in each folder.
    """

    folders: tuple[str, ...]
    table: Mapping[str, tuple[str, ...]]

    @property
    def unlike(self) -> str:
        """The reason why the folders do not allow a comparison of algorithms; empty if they do.

        What algorithms and servers do may differ, and how the model begins; data and circumstances
        may not.
        """
        data = self._below(_OF_DATA)
        if data:
            return (
                f"These folders do not minimise the same function of the same rows: {data}. Their "
                "losses, gaps and costs to a target cannot be compared with each other."
            )
        world = self._below(_OF_WORLD)
        if world:
            return (
                f"These folders have different circumstances: {world}. Which algorithm is better "
                "cannot be told from them."
            )
        return ""

    def _below(self, heads: tuple[str, ...]) -> str:
        """Return the first difference below some keys, and the number of further ones."""
        keys = [key for key in self.table if decides(key, heads)]
        if not keys:
            return ""
        found: dict[str, list[str]] = {}
        for value, folder in zip(self.table[keys[0]], self.folders, strict=True):
            found.setdefault("not given" if value == "-" else value, []).append(folder)
        first = ", ".join(f"{value} in {listed(names)}" for value, names in found.items())
        more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
        return f"{keys[0]} is {first}{more}"


def scenario_facts(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run's scenario by dotted key, without those of algorithms.

    Of a plug-in that has a name and settings, all are given; seeds, names and where it ran are not.
    """
    scenario = info.get("scenario")
    held = scenario if isinstance(scenario, Mapping) else {}
    return flat({key: value for key, value in held.items() if key not in _NO_SETTING})


def own_facts(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run's algorithm by dotted key."""
    settings = info.get("settings")
    held = settings if isinstance(settings, Mapping) else {}
    return flat({key: value for key, value in held.items() if key not in ("label", "grid")})


def decides(key: str, heads: tuple[str, ...] = (*_OF_DATA, *_OF_WORLD)) -> bool:
    """Return whether algorithms cannot be compared where a setting differs."""
    return key.startswith(heads) and key != "problem.init"


def unequal(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys that do not hold the same in all of several settings."""
    keys = dict.fromkeys(key for held in facts for key in held)
    return [key for key in keys if len({str(held.get(key)) for held in facts}) > 1]


def differing(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys that are `unequal`; of a plug-in with unequal names, only the name.

    Examples
    --------
    >>> differing([{"a": 1, "d.name": "x", "d.s": 1}, {"a": 1, "d.name": "y"}])
    ['d.name']
    """
    found = unequal(facts)
    named = {key.removesuffix("name") for key in found if key.endswith(".name")}
    return [key for key in found if key.endswith(".name") or not key.startswith(tuple(named))]


def text(facts: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return settings as they stand in a label.

    Examples
    --------
    >>> text({"local.lr": 0.1, "clients.delay.name": "pareto"}, ["local.lr", "clients.delay.name"])
    'lr=0.1, delay=pareto'
    """
    heads = short_keys([key.removesuffix(".name") for key in keys])
    return ", ".join(
        f"{head}={shown(facts.get(key))}" for head, key in zip(heads, keys, strict=True)
    )


def shown(value: Any) -> str:
    """Return a value as YAML writes it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    return "none" if value is None else str(value)


def listed(names: Sequence[str]) -> str:
    """Return names as they stand in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
