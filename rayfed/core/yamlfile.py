"""YAML files of a user's, read safely, and values that a scenario may hold.

What is wrong with one is a single line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.files import open_regular, reading
from rayfed.core.machine import in_words

POWER = r"^\d+\^[-+]?\d+$"
"""What a power such as ``2^-7`` looks like."""
EXPONENT = r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"
"""What a number such as ``1e-3`` looks like, which is a text in YAML 1.1 and a number in 1.2."""
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
_SCALARS = ("null", "bool", "int", "float", "str", "merge")
_PLAIN = {
    yaml.ScalarNode: {*(f"tag:yaml.org,2002:{name}" for name in _SCALARS), "!power"},
    yaml.SequenceNode: {"tag:yaml.org,2002:seq"},
    yaml.MappingNode: {"tag:yaml.org,2002:map"},
}
_FLOAT = "tag:yaml.org,2002:float"
_NUMBERS = {"tag:yaml.org,2002:int", _FLOAT, "!power"}


class _Strict(_Fast):  # type: ignore[misc]
    """The safe loader, for plain values only: no dates, no tags, no key given twice."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        _check_tag(node)
        if node.tag in _NUMBERS:
            _check_number(node)
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError, OverflowError, IndexError) as error:
            kind = node.tag.rpartition(":")[2]
            raise _wrong(f"'{clipped(node.value, 40)}' is not a valid {kind}", node) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            _check_key(key)
            if key.value in seen:
                raise _wrong(f"the key '{clipped(key.value, 40)}' is given twice; remove one", key)
            seen.add(key.value)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, value in node.value:
            if not key.tag.endswith(":merge"):
                continue
            _check_tag(value)
            for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                _check_tag(merged)
                if not isinstance(merged, yaml.MappingNode):
                    raise _wrong("'<<' takes a mapping, or a list of mappings", merged)
                for inner, _ in merged.value:
                    _check_key(inner)
        super().flatten_mapping(node)


def _check_tag(node: yaml.Node) -> None:
    if node.tag not in _PLAIN[type(node)]:
        tag = clipped(node.tag, 60)
        raise yaml.constructor.ConstructorError(problem=tag, problem_mark=node.start_mark)


def _check_key(node: yaml.Node) -> None:
    if not isinstance(node, yaml.ScalarNode):
        raise _wrong("a key is a list or a mapping; write a name", node)


def _wrong(text: str, node: Any) -> yaml.MarkedYAMLError:
    """Return an error at a node, or an event, of the text."""
    return yaml.MarkedYAMLError(problem=text, problem_mark=node.start_mark)


def _check_number(node: yaml.Node) -> None:
    """Refuse a number that is too long, or that YAML 1.1 and 1.2 read differently."""
    text = node.value
    if len(text) > MOST_DIGITS:
        raise _wrong(f"a number of {len(text):,} characters; give fewer digits", node)
    if not _AMBIGUOUS.fullmatch(text):
        return
    old = f"'{text}' is {yaml.safe_load(text)} in YAML 1.1, in base"
    if ":" in text:
        raise _wrong(f"{old} 60, and a text in YAML 1.2; quote it", node)
    raise _wrong(f"{old} 8, and {int(text.replace('_', ''))} in YAML 1.2; write one", node)


def _power(loader: _Strict, node: yaml.ScalarNode) -> float:
    """Return the value of ``2^-7``; an int where it is whole."""
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
_Strict.add_implicit_resolver(_FLOAT, re.compile(EXPONENT), list("+-0123456789"))
_Strict.add_constructor("!power", _power)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which quotes texts that `_Strict` would read as numbers."""


_Dumper.add_implicit_resolver("!power", re.compile(POWER), list("0123456789"))
_Dumper.add_implicit_resolver(_FLOAT, re.compile(EXPONENT), list("+-0123456789"))


def yaml_text(value: Any, **settings: Any) -> str:
    """Return plain values as YAML text, in the order of mappings; settings are PyYAML's.

    Examples
    --------
    >>> print(yaml_text({"lr": 0.1, "tag": "1e-3"}), end="")
    lr: 0.1
    tag: '1e-3'
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, **settings)
    return text


def parse_yaml(text: str) -> Any:
    """Return the content of YAML text: plain values, and powers such as ``2^-7``.

    Raises
    ------
    yaml.YAMLError
        If it is not YAML, or holds more than plain values.

    Examples
    --------
    >>> parse_yaml("[2^-7, 2^3, '2^3', 2001-01-31]")
    [0.0078125, 8, '2^3', '2001-01-31']
    """
    return parse_with_nodes(text)[0]


def parse_with_nodes(text: str) -> tuple[Any, yaml.Node | None]:
    """Return the content of YAML text and its node, for `lines_of`; None for empty text.

    Raises
    ------
    yaml.YAMLError
        If it is not YAML, or holds more than plain values.
    """
    try:
        _measure(text)
        loader = _Strict(text)
        try:
            node = loader.get_single_node()
            return None if node is None else loader.construct_document(node), node
        finally:
            loader.dispose()
    except UnicodeEncodeError as error:
        raise yaml.YAMLError("half of a character (a lone surrogate)") from error


def _measure(text: str) -> None:
    """Refuse text with values too deep or too many, counting those that aliases repeat.

    That is known of its events alone, before anything recursive reads it or fills the memory.
    """
    values, heights = 0, [0]  # so far; how deep values lie in the text, and in what is begun
    begun: list[tuple[str | None, int]] = []  # the anchors of collections, and the values before
    known: dict[str | None, tuple[int, int]] = {}  # how many values an anchor has, and how deep
    for event in yaml.parse(text, Loader=_Fast):
        if isinstance(event, yaml.CollectionEndEvent):
            (anchor, before), height = begun.pop(), heights.pop() + 1
            known[anchor] = (values - before, height)
            heights[-1] = max(heights[-1], height)
        if not isinstance(event, yaml.NodeEvent):
            continue
        more, height = 1, 0
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in dict(begun):
                raise _wrong("an alias is part of its own anchor; write the value", event)
            more, height = known.get(event.anchor, (1, 0))
        elif isinstance(event, yaml.CollectionStartEvent):
            begun.append((event.anchor, values))
            heights.append(0)
        values += more
        heights[-1] = max(heights[-1], height)
        if len(begun) + height > DEEPEST:
            raise _wrong(f"lists and mappings lie more than {DEEPEST} deep in each other", event)
        if values > MOST_VALUES:
            raise _wrong(f"more than {MOST_VALUES:,} values, aliases included", event)


def lines_of(node: yaml.Node | None, place: str) -> list[int]:
    """Return the lines, from 1, of the parts of a dotted key, as far as they are in a text.

    Parameters
    ----------
    node : yaml.Node or None
        Of the text; None of an empty one.
    """
    lines: list[int] = []
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


def read_yaml(path: Path) -> tuple[Any, yaml.Node | None]:
    """Return the content of a YAML file and its node, as `parse_with_nodes` does.

    Raises
    ------
    ScenarioError
        If it cannot be read, is not YAML, or holds more than plain values.
    """
    text = read_text(path)
    try:
        return parse_with_nodes(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place, problem = f"{path}:{mark.line + 1}" if mark else str(path), problem_of(error)
        if isinstance(error, yaml.constructor.ConstructorError):
            text = "holds a value that is not plain YAML (a Python object?); remove its tag"
            raise ScenarioError(place, f"{text}: {problem}") from error
        raise ScenarioError(place, f"is not valid YAML: {problem}") from error


def problem_of(error: yaml.YAMLError) -> str:
    """Return the error of YAML text in a few words."""
    marked = getattr(error, "problem", None)
    if marked:
        return str(marked)
    unmarked = bool(error.args) and not isinstance(error, yaml.reader.ReaderError)
    return str(error) if unmarked else "a character that is not allowed"


def read_text(path: Path, *, results: bool = False) -> str:
    """Return the text of a file in UTF-8; no link is followed to one of a result folder.

    Raises
    ------
    ScenarioError
        If there is no such file, it is not a regular file, too long, or no text.
    """
    with reading(path, "a scenario file"):
        with open_regular(path, results) as file:
            held, size = file.read(MOST_BYTES + 1), os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            found = f"has {in_words(size)}; a scenario file has at most {in_words(MOST_BYTES)}"
            raise ScenarioError(str(path), found)
        try:
            return held.decode()
        except UnicodeDecodeError as error:
            problem = "is not text in UTF-8; is it a scenario file?"
            raise ScenarioError(str(path), problem) from error


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
    """Return the error of one value and its remedy; empty if it is valid."""
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
