"""Values that a scenario may hold, before anything is made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayfed.core.errors import ScenarioError, clipped
from rayfed.study.scenario.yamlfile import DEEPEST, MOST_VALUES

LONGEST_TEXT = 4096
"""Characters of a text or a key, the longest path of common systems."""


def check_values(raw: Mapping[str, Any]) -> None:
    """Refuse values that no scenario file can hold, or that nothing can be made of.

    Parameters
    ----------
    raw : mapping
        What a scenario file holds; other objects, such as plug-in values, are not looked into.

    Raises
    ------
    ScenarioError
        If a text is too long or holds control characters or lone surrogates, a mapping has
        such a key, or the values are nested too deep or too many.
    """
    for count, (place, value) in enumerate(_walk("", raw, 1), start=1):
        if count > MOST_VALUES:
            text = f"holds more than {MOST_VALUES:,} values; give fewer"
            raise ScenarioError(place.partition(".")[0], text)
        problem = _problem(value)
        if problem:
            raise ScenarioError(place, problem)


def _walk(place: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield everything in a value with its dotted key, from the outside to the inside."""
    yield place, value
    if depth > DEEPEST:
        raise ScenarioError(place, f"lies more than {DEEPEST} deep in lists and mappings")
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield place, key
            yield from _walk(f"{place}.{key}" if place else str(key), item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _walk(f"{place}.{index}", item, depth + 1)


def _problem(value: Any) -> str:
    """Return what is wrong with one value, and what to change; empty if nothing is."""
    if not isinstance(value, str):
        return ""
    if len(value) > LONGEST_TEXT:
        found = f"found a text of {len(value):,} characters, '{clipped(value, 40)}'"
        return f"{found}; give at most {LONGEST_TEXT:,}"
    wrong = next((c for c in value if _unprintable(c)), "")
    if wrong:
        kind = "half of a character" if wrong >= "\ud800" else "a control character"
        return f"found {kind}, {wrong!a}, in '{clipped(value, 40)}'; remove it"
    return ""


def _unprintable(character: str) -> bool:
    """Return whether a character is a control character or a lone surrogate."""
    control = character < " " or "\x7f" <= character < "\xa0"
    return (control and character not in "\t\n\r") or "\ud800" <= character <= "\udfff"
