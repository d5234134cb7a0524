"""The mistakes in a scenario, each on a line with its remedy."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rayfed.core.errors import ScenarioError, clipped

Error = Mapping[str, Any]

_OUTSIDE = ("_type", "literal_error", "too_short")
"""Types of pydantic errors that only repeat an error inside the value."""
MOST_LINES = 20
"""Mistakes that are printed; the others are counted."""
MISSING = "is missing; give it"
_MAPPING = "a mapping of keys and values"
_WANTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": _MAPPING,
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "int_type": "a whole number",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "model_type": _MAPPING,
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "string_unicode": "a text",
    "too_short": "a list of at least {min_length}",
    "tuple_type": "a list",
}


@dataclasses.dataclass(frozen=True)
class Refused:
    """Placeholder of an invalid value, so that validation continues with the rest."""

    text: str


class Mistakes(ScenarioError):
    """All that is wrong with a scenario, each with the line of the file that it stands on.

    Parameters
    ----------
    errors : sequence of ScenarioError
        At least one. `place` and `problem` are those of the first.
    lines : sequence of str
        Where in a file each of them is, such as ``study.yaml:3``; empty where it is in none.
    """

    def __init__(self, errors: Sequence[ScenarioError], lines: Sequence[str] = ()) -> None:
        self.errors = tuple(errors)
        self.lines = tuple(lines) or ("",) * len(self.errors)
        super().__init__(self.errors[0].place, self.errors[0].problem)
        self.args = (self._text(),)

    def _text(self) -> str:
        texts = [
            clipped(f"{line}: {error}" if line else error)
            for line, error in zip(self.lines, self.errors, strict=True)
        ]
        if len(texts) == 1:
            return texts[0]
        more = [f"and {len(texts) - MOST_LINES} more"] if len(texts) > MOST_LINES else []
        return "\n  ".join([f"{len(texts)} mistakes", *texts[:MOST_LINES], *more])

    def under(self, place: str) -> ScenarioError:
        """Return the errors with their places below a dotted key of the scenario."""
        return Mistakes([error.under(place) for error in self.errors], self.lines)

    def __reduce__(self) -> tuple[type, Any]:
        return type(self), (self.errors, self.lines)


def together(errors: Iterable[ScenarioError]) -> ScenarioError:
    """Return errors as one, each text once."""
    different = list({str(error): error for error in errors}.values())
    return different[0] if len(different) == 1 else Mistakes(different)


def errors_of(error: ScenarioError) -> tuple[ScenarioError, ...]:
    """Return the single errors contained in an error."""
    return error.errors if isinstance(error, Mistakes) else (error,)


def complaint(error: ValidationError, raw: Any) -> ScenarioError:
    """Return pydantic's errors, each with place, found value and remedy.

    Parameters
    ----------
    error : ValidationError
    raw : mapping
        The validated scenario, which separates its keys from other parts of pydantic's path.

    Returns
    -------
    ScenarioError
        `Mistakes` if there are several.
    """
    places: dict[str, list[Error]] = {}
    for one in error.errors(include_url=False):
        place = _place(one, raw)
        places.setdefault(place, []).append(one)
    return together(
        ScenarioError(place, text)
        for place, group in places.items()
        if not _outside(group, place, places)
        for text in _sentences(group)
    )


def _outside(errors: list[Error], place: str, places: Iterable[str]) -> bool:
    """Return whether a place only has the wrong type because something inside it is wrong."""
    inside = any(other.startswith(f"{place}.") for other in places)
    return inside and all(str(error["type"]).endswith(_OUTSIDE) for error in errors)


def _place(error: Error, raw: Any) -> str:
    """Return the dotted key of an error, without the names that pydantic has for types of unions.

    What is not in the scenario is no part of it, but for keys that the error itself is about.
    """
    about = {"missing": 1, "extra_forbidden": 1, "scenario": error.get("ctx", {}).get("keys", 0)}
    loc = error["loc"]
    if loc[:1] == ("data",) and "data" not in raw:  # files hold its keys in `problem`
        loc = ("problem", *loc[1:])
    end = len(loc) - about.get(error["type"], 0)
    path, node = [], raw
    for part in loc[:end]:
        inside, below = _below(node, part)
        if inside:
            path.append(part)
            node = below
    return ".".join(map(str, (*path, *loc[end:])))


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


def _sentences(errors: list[Error]) -> list[str]:
    """Return the found value at one place and the remedy, of all branches of a union."""
    first = errors[0]
    if isinstance(first["input"], Refused):
        return [first["input"].text]
    if first["type"] == "missing":
        return [MISSING]
    messages = [str(error["msg"]) for error in errors if error["type"] == "scenario"]
    plain = [error for error in errors if error["type"] not in ("scenario", "mapping_type")]
    number = any(str(error["type"]).endswith(("_parsing", "finite_number")) for error in plain)
    if messages and not number:
        of_union = len({error["loc"] for error in errors}) > 1
        return messages[:1] if of_union else list(dict.fromkeys(messages))
    wanted = dict.fromkeys(map(_wanted, plain or errors))
    verb = "it should be" if plain else "give"
    return [f"found {short(first['input'])}; {verb} {' or '.join(wanted)}"]


def _wanted(error: Error) -> str:
    """Return pydantic's expectation in words of a scenario file."""
    if error["type"] in _WANTED:
        bounds = error.get("ctx", {})
        shown = {k: f"{v:g}" if isinstance(v, float) else v for k, v in bounds.items()}
        return _WANTED[error["type"]].format(**shown)
    text = str(error["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return text.partition(", unable to parse")[0].partition(", got a number with")[0]


class _Short(reprlib.Repr):
    """A representation of modest length, however deep or long the value is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxset = 3, 4, 4, 4

    def repr_int(self, x: int, level: int) -> str:
        """Return a whole number; Python does not print those of thousands of digits."""
        if x.bit_length() > 2000:
            return f"a whole number of about {int(x.bit_length() * 0.30103):,} digits"
        return super().repr_int(x, level)


_SHORT = _Short()


def short(value: Any) -> str:
    """Return a found value on one line of at most 80 characters."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return clipped(" ".join(_SHORT.repr(value).split()), 80)
