"""YAML files of a user's, read safely; what is wrong with one is a single line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from rayfed.core.errors import ScenarioError

POWER = r"^\d+\^[-+]?\d+$"
"""What a power such as ``2^-7`` looks like."""


class _Strict(yaml.SafeLoader):
    """The safe loader, which also refuses a key that is given twice: YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                text = f"the key '{key.value}' is given twice; remove one"
                raise yaml.MarkedYAMLError(problem=text, problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _power(loader: _Strict, node: yaml.ScalarNode) -> float:
    """Return what ``2^-7`` stands for; a whole number where it is one."""
    base, exponent = map(int, node.value.split("^"))
    try:
        value = float(base) ** exponent
    except (OverflowError, ZeroDivisionError) as error:
        text = f"'{node.value}' is no number that can be held"
        raise yaml.MarkedYAMLError(problem=text, problem_mark=node.start_mark) from error
    return int(value) if exponent >= 0 and value <= 2**53 else value


_Strict.add_implicit_resolver("!power", re.compile(POWER), list("0123456789"))
_Strict.add_constructor("!power", _power)


def parse_yaml(text: str) -> Any:
    """Return what a text in YAML holds: plain values, and powers such as ``2^-7``.

    Raises
    ------
    yaml.YAMLError
        If it is no YAML, or holds more than plain values.

    Examples
    --------
    >>> parse_yaml("[2^-7, 2^3, '2^3']")
    [0.0078125, 8, '2^3']
    """
    return yaml.load(text, Loader=_Strict)


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds.

    Raises
    ------
    ScenarioError
        If it cannot be read, is no YAML, or holds more than plain values.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(str(path), "is no text in UTF-8; is it a scenario file?") from error
    except yaml.constructor.ConstructorError as error:
        text = "holds a value that is no plain YAML (a Python object?); remove its tag"
        raise ScenarioError(_line(path, error), f"{text}: {error.problem}") from error
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "a character that is not allowed"
        raise ScenarioError(_line(path, error), f"is no valid YAML: {problem}") from error


def _line(path: Path, error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"{path}:{mark.line + 1}" if mark else str(path)
