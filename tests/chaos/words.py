"""What refusals and failures say: their kind, without numbers, and whether it is readable."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rayfed.core.errors import LONGEST, ScenarioError
from rayfed.study.scenario.invalid import errors_of

_OF_MODULE = re.compile(r"cannot be made: \w+: ")
"""An error of the constructor of a module, which a refusal quotes."""
_NUMBER = re.compile(r"(?<!\w)-?\d[\d,]*(\.\d+)?(e[+-]?\d+)?")


def reason_of(error: Exception) -> str:
    """Return a refusal without names of keys, plug-ins and numbers.

    Examples
    --------
    >>> reason_of(ScenarioError("seeds.0", "found -1; it should be at least 0"))
    'seeds.#: it should be at least #'
    """
    first = errors_of(error)[0] if isinstance(error, ScenarioError) else error
    place = getattr(first, "place", "")
    text = getattr(first, "problem", str(first))
    text = text.partition("; ")[2] or text
    plain = re.sub(r"'[^']*'|\S*/\S+", "...", f"{place}: {text}")
    return _NUMBER.sub("#", plain)


def failure_of(reason: str) -> str:
    """Return why a run failed, without its numbers."""
    return re.sub(r"'[^']*'", "...", _NUMBER.sub("#", reason))


def wordy(error: Exception) -> Iterator[str]:
    """Yield what is wrong with the text of a refusal."""
    for each in errors_of(error) if isinstance(error, ScenarioError) else [error]:
        text = str(each)
        if not text.isprintable() or not text.strip():
            yield f"a refusal is not one line: {text!r}"
        if len(text) > LONGEST:
            yield f"a refusal has {len(text)} characters: {text}"
        if re.search(r"pydantic|Traceback|Error\b", _OF_MODULE.sub("", text)):
            yield f"a refusal speaks of its programs: {text}"
