"""YAML files of a user's, read safely, and values that a scenario may hold.

What is wrong with one is a single line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import reading
from rayfed.core.machine import in_words

POWER = r"^\d+\^[-+]?\d+$"
"""What a power such as ``2^-7`` looks like."""
MOST_BYTES = 2**23
"""Of a file; the resolved scenario of a study with many clients in groups is long."""
MOST_VALUES = 100_000
"""Values in a file, those that aliases repeat included."""
DEEPEST = 50
"""Lists and mappings within each other."""
MOST_DIGITS = 100
"""Characters of a number."""
LONGEST_TEXT = 4096
"""Characters of a text or a key, the longest path of common systems."""

_AMBIGUOUS = re.compile(r".*:.*|[-+]?0[0-9_]+")
"""Base 60 and base 8 of YAML 1.1, such as ``1:30`` and ``010``."""

_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, ten times as fast
_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "merge")}
_NUMBERS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "!power"}


class _Strict(_Fast):  # type: ignore[misc]
    """The safe loader, for plain values only: no dates, no tags, no key given twice.

    Files whose values would fill the memory are refused before they are constructed.
    """

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _measure(node, {}, 1)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError, OverflowError, IndexError) as error:
            kind = node.tag.rpartition(":")[2]
            raise _wrong(f"'{clipped(node.value, 40)}' is not a valid {kind}", node) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise _wrong(f"the key '{clipped(key.value, 40)}' is given twice; remove one", key)
            seen.add(key.value)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


def _wrong(text: str, node: Any) -> yaml.MarkedYAMLError:
    """Return an error at a node, or an event, of the text."""
    return yaml.MarkedYAMLError(problem=text, problem_mark=node.start_mark)


def _measure(
    node: yaml.Node, known: dict[int, tuple[int, int] | None], depth: int
) -> tuple[int, int]:
    """Return how many values a node holds, aliases expanded, and how deep it is.

    ``known`` holds the nodes that were measured, and None for those that contain this one.
    """
    if id(node) in known:
        held = known[id(node)]
        if held is None:
            raise _wrong("an alias stands within what it repeats; write the value", node)
        return held
    known[id(node)] = None
    values, below = 1, 0
    for inner in _check(node):
        number, deep = _measure(inner, known, depth + 1) if depth <= DEEPEST else (0, DEEPEST)
        values, below = values + number, max(below, deep)
    if below >= DEEPEST:
        raise _wrong(f"lists and mappings lie more than {DEEPEST} deep in each other", node)
    if values > MOST_VALUES:
        raise _wrong(f"more than {MOST_VALUES:,} values, aliases included", node)
    known[id(node)] = (values, below + 1)
    return values, below + 1


def _check(node: yaml.Node) -> list[yaml.Node]:
    """Return the nodes within a node.

    Raises
    ------
    yaml.MarkedYAMLError
        If a scenario cannot have its tag, one of its keys or so long a number.
    """
    if isinstance(node, yaml.ScalarNode):
        if node.tag not in _PLAIN and node.tag != "!power":
            raise _tagged(node)
        if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
            raise _wrong(f"a number of {len(node.value):,} characters; give fewer digits", node)
        if node.tag in _NUMBERS and _AMBIGUOUS.fullmatch(node.value):
            raise _wrong(_two_readings(node), node)
        return []
    if isinstance(node, yaml.SequenceNode):
        if node.tag != "tag:yaml.org,2002:seq":
            raise _tagged(node)
        return list(node.value)
    if node.tag != "tag:yaml.org,2002:map":
        raise _tagged(node)
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _wrong("a key is a list or a mapping; write a name", key)
    return [inner for pair in node.value for inner in pair]


def _two_readings(node: yaml.ScalarNode) -> str:
    """Return why a number is refused that YAML 1.1 and 1.2 read differently."""
    old = yaml.safe_load(node.value)
    if ":" in node.value:
        return f"'{node.value}' is {old} in YAML 1.1, in base 60, and a text in YAML 1.2; quote it"
    new = int(node.value.replace("_", ""))
    return f"'{node.value}' is {old} in YAML 1.1, in base 8, and {new} in YAML 1.2; write one"


def _tagged(node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(
        problem=clipped(node.tag, 60), problem_mark=node.start_mark
    )


def _power(loader: _Strict, node: yaml.ScalarNode) -> float:
    """Return what ``2^-7`` stands for; a whole number where it is one."""
    base, exponent = map(int, node.value.split("^"))
    try:
        value = float(base) ** exponent
    except (OverflowError, ZeroDivisionError) as error:
        raise _wrong(
            f"'{clipped(node.value, 40)}' is too large or too small a number", node
        ) from error
    return int(value) if exponent >= 0 and value <= 2**53 else value


_Strict.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if not tag.endswith((":timestamp", ":value"))]
    for first, forms in _Fast.yaml_implicit_resolvers.items()
}  # a date is a text
_Strict.add_implicit_resolver("!power", re.compile(POWER), list("0123456789"))
_Strict.add_constructor("!power", _power)


def parse_yaml(text: str) -> Any:
    """Return what a text in YAML holds: plain values, and powers such as ``2^-7``.

    Raises
    ------
    yaml.YAMLError
        If it is not YAML, or holds more than plain values.

    Examples
    --------
    >>> parse_yaml("[2^-7, 2^3, '2^3', 2001-01-31]")
    [0.0078125, 8, '2^3', '2001-01-31']
    """
    return parse_with_lines(text)[0]


def parse_with_lines(text: str) -> tuple[Any, KeyLines]:
    """Return what a text in YAML holds, and where in the text each of it stands.

    Raises
    ------
    yaml.YAMLError
        If it is not YAML, or holds more than plain values.
    """
    try:
        _scan(text)
        loader = _Strict(text)
        try:
            node = loader.get_single_node()
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except UnicodeEncodeError as error:
        raise yaml.YAMLError("half of a character (a lone surrogate)") from error
    return value, KeyLines(node)


def _scan(text: str) -> None:
    """Refuse a text that is too deep or too long, before anything recursive reads it."""
    depth, count = 0, 0
    for event in yaml.parse(text, Loader=_Fast):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        count += isinstance(event, yaml.NodeEvent)
        if depth > DEEPEST:
            raise _wrong(f"lists and mappings lie more than {DEEPEST} deep in each other", event)
        if count > MOST_VALUES:
            raise _wrong(f"more than {MOST_VALUES:,} values", event)


class KeyLines:
    """The lines of a YAML text on which its keys stand.

    Parameters
    ----------
    node : yaml.Node, optional
        Of the whole text; None of an empty one.
    """

    def __init__(self, node: yaml.Node | None = None) -> None:
        self._root = node

    def of(self, place: str) -> int | None:
        """Return the line, from 1, of a dotted key, or of what it would stand in.

        None where not even the first of its parts is in the text.
        """
        lines = self._lines(place)
        return lines[-1] if lines else None

    def depth(self, place: str) -> int:
        """Return how many parts of a dotted key, from its first, are in the text."""
        return len(self._lines(place))

    def _lines(self, place: str) -> list[int]:
        """Return the lines of the parts of a dotted key, as far as they are in the text."""
        node, lines = self._root, []
        for part in place.split("."):
            key, node = _below(node, part)
            if key is None:
                break
            lines.append(key.start_mark.line + 1)
        return lines


def _below(node: yaml.Node | None, part: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the node that marks a part of a dotted key, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == part), (None, None))
    if isinstance(node, yaml.SequenceNode):  # a part may have thousands of digits
        entries = (value for k, value in enumerate(node.value) if part == str(k))
        entry = next(entries, None)
        return entry, entry
    return None, None


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises
    ------
    ScenarioError
        If it cannot be read, is not YAML, or holds more than plain values.
    """
    return read_with_lines(path)[0]


def read_with_lines(path: Path) -> tuple[Any, KeyLines]:
    """Return what a YAML file holds, and where in it each of it stands.

    Raises
    ------
    ScenarioError
        If it cannot be read, is not YAML, or holds more than plain values.
    """
    text = read_text(path)
    try:
        return parse_with_lines(text)
    except yaml.constructor.ConstructorError as error:
        problem = "holds a value that is not plain YAML (a Python object?); remove its tag"
        raise ScenarioError(_line(path, error), f"{problem}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(
            _line(path, error), f"is not valid YAML: {problem_of(error)}"
        ) from error


def problem_of(error: yaml.YAMLError) -> str:
    """Return what is wrong with a text in YAML, in a few words."""
    marked = getattr(error, "problem", None)
    if marked:
        return str(marked)
    unmarked = bool(error.args) and not isinstance(error, yaml.reader.ReaderError)
    return str(error) if unmarked else "a character that is not allowed"


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8.

    Raises
    ------
    ScenarioError
        If there is no such file, it is not a regular file, too long, or no text.
    """
    with reading(path, "a scenario file"):
        size = path.stat().st_size
        if size > MOST_BYTES:
            found = f"has {in_words(size)}; a scenario file has at most {in_words(MOST_BYTES)}"
            raise ScenarioError(str(path), found)
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            problem = "is not text in UTF-8; is it a scenario file?"
            raise ScenarioError(str(path), problem) from error


def _line(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{path}:{mark.line + 1}" if mark else str(path)


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
