"""Example values of plug-ins, made from the types of their settings.

A required setting is filled with the first of a few plain values that its annotated type allows.
Where no such guess makes sense, because the setting is a file or must fit another one, the class
gives a sensible value itself, in a class method ``example(folder: Path)`` that may write files to
the folder. Plug-ins that depend on a number of clients are asked about `COUNT` of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from rayfed.core.errors import ScenarioError

COUNT = 12
"""Clients of the population that examples are made for."""
_PLAIN = (0.5, 2, 3, 4, 1.0, 1, "a", (2,), (0.5,), ("a",))


def example(cls: type[Any], folder: Path) -> Any:
    """Return a value of a plug-in class.

    Parameters
    ----------
    cls : type
        A plug-in: a frozen dataclass of settings.
    folder : Path
        Where files may be written that settings name.

    Raises
    ------
    AssertionError
        If a required setting has no plain value; the message gives the remedy.

    Examples
    --------
    >>> from rayfed.solvers.step_counts import UniformSteps
    >>> example(UniformSteps, Path())
    UniformSteps(low=2, high=3)
    """
    if hasattr(cls, "example"):
        return cls.example(folder)
    hints = get_type_hints(cls, include_extras=True)
    settings: dict[str, Any] = {}
    for field in fields(cls):
        if field.init and _required(field):
            guesses = [
                value for value in _allowed(hints[field.name]) if value not in settings.values()
            ]
            if not guesses:
                raise AssertionError(_remedy(cls, field.name))
            settings[field.name] = guesses[0]
    try:
        return cls(**settings)
    except ScenarioError as error:
        raise AssertionError(f"{_remedy(cls, ', '.join(settings))} ({error})") from error


def examples(cls: type[Any], folder: Path) -> list[Any]:
    """Return values of a plug-in class: `example`, and others that differ in one setting.

    Every value of a `Literal`, both of a bool, and a plain value where the default is None; what
    the class refuses is left out.

    Examples
    --------
    >>> from rayfed.population import Bernoulli
    >>> [(each.period_s, each.end) for each in examples(Bernoulli, Path())]
    [(None, None), (None, 2), (0.5, None)]
    """
    first = example(cls, folder)
    hints = get_type_hints(cls, include_extras=True)
    given = {field.name: getattr(first, field.name) for field in fields(cls) if field.init}
    made = [first]
    for field in fields(cls):
        if not field.init or _required(field):
            continue
        for value in _alternatives(hints[field.name], given[field.name]):
            try:
                made.append(cls(**given | {field.name: value}))
            except ScenarioError:  # it does not fit the other settings
                continue
    return made


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _remedy(cls: type[Any], setting: str) -> str:
    return (
        f"no example of {cls.__qualname__} can be made: its setting {setting} has no plain value; "
        "give it a default, or the class a method `example(cls, folder: Path)` (a classmethod)"
    )


def _alternatives(hint: Any, now: Any) -> Iterator[Any]:
    """Yield other values of an optional setting."""
    options = [option for part in _parts(hint) for option in _listed(part)]
    if not options and now is None:
        options = _allowed(hint)[:1]
    yield from (option for option in options if option != now)


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself; bounds do not count."""
    if hasattr(hint, "__metadata__"):
        return _parts(hint.__origin__)
    members = get_args(hint)
    return members if NoneType in members else (hint,)


def _listed(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return (False, True) if hint is bool else ()


def _allowed(hint: Any) -> list[Any]:
    """Return the plain values that an annotated type allows."""
    listed = [value for part in _parts(hint) for value in _listed(part)]
    try:
        adapter = TypeAdapter(hint, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
    except PydanticSchemaGenerationError:
        return listed
    found = []
    for value in _PLAIN:
        try:
            adapter.validate_python(value)
        except ValidationError:
            continue
        found.append(value)
    return listed + found
