"""What pydantic finds wrong with a scenario, as one line that says what to change."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from rayfed.core.errors import ScenarioError

Error = Mapping[str, Any]

BRANCHES = ("(mapping)", "(other)")
"""Our own names of the branches of a union, in the paths of pydantic's errors."""
_MAPPING = "a mapping of keys and values"
_WANTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": _MAPPING,
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "model_type": _MAPPING,
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}


def complaint(error: ValidationError, raw: Any) -> ScenarioError:
    """Return pydantic's error as one line: the place, what was found, what to change.

    Parameters
    ----------
    error : ValidationError
        May hold several; the first place is named and the others are counted.
    raw : mapping
        What was validated: it tells which parts of pydantic's path are places of the scenario.
    """
    places: dict[str, list[Error]] = {}
    for one in error.errors(include_url=False):
        place = _place(one, raw)
        inside = any(other.startswith(f"{place}.") for other in places)
        if not (inside and one["type"] == "too_short"):  # it only lacks what was wrong inside
            places.setdefault(place, []).append(one)
    places = {
        place: errors for place, errors in places.items() if not _outside(errors, place, places)
    }
    place, first = next(iter(places.items()))
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return ScenarioError(place, _sentence(first) + more)


def _outside(errors: list[Error], place: str, places: Iterable[str]) -> bool:
    """Whether a place is only of another type than wanted, while something in it is wrong."""
    inside = any(other.startswith(f"{place}.") for other in places)
    return inside and all(str(error["type"]).endswith("_type") for error in errors)


def _place(error: Error, raw: Any) -> str:
    """Return the dotted key of an error; pydantic's names of union branches are left out."""
    kept, node = [], raw
    for part in error["loc"]:
        inside, below = _below(node, part)
        if inside:
            kept.append(str(part))
            node = below
    last = [part for part in error["loc"] if part not in BRANCHES][-1:]
    if error["type"] in ("missing", "scenario") and last and str(last[0]) not in kept[-1:]:
        kept.append(str(last[0]))
    return ".".join(kept)


def _below(node: Any, part: str | int) -> tuple[bool, Any]:
    """Return whether `part` names something inside a node of the scenario, and that."""
    if isinstance(node, Mapping):
        return part in node, node.get(part)
    if isinstance(node, (list, tuple)):
        inside = isinstance(part, int) and part < len(node)
        return inside, node[int(part)] if inside else None
    if dataclasses.is_dataclass(node):
        return hasattr(node, str(part)), getattr(node, str(part), None)
    return False, None


def _sentence(errors: list[Error]) -> str:
    """Return what was found at one place and what to change, of all branches of a union."""
    first = errors[0]
    if first["type"] == "missing":
        return "nothing found; give it"
    if first["type"] == "scenario":
        return str(first["msg"])
    wanted = dict.fromkeys(_wanted(error) for error in errors)
    return f"found {short(first['input'])}; it should be {' or '.join(wanted)}"


def _wanted(error: Error) -> str:
    """Return what pydantic wanted, in words of a scenario file."""
    if error["type"] in _WANTED:
        bounds = error.get("ctx", {})
        shown = {k: f"{v:g}" if isinstance(v, float) else v for k, v in bounds.items()}
        return _WANTED[error["type"]].format(**shown)
    text = str(error["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return text.partition(", unable to parse")[0].partition(", got a number with")[0]


def short(value: Any) -> str:
    """Return what was found on one line of modest length."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return " ".join(reprlib.repr(value).split())
