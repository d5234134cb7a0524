"""Plug-ins as fields of a scenario: read from names and settings, written back, described.

A field annotated with `Plugin` holds the plug-in's frozen value. It is given as a name, as a
mapping of a name and settings, as ``package.module:Class``, or in Python as a class or a value.
The settings are checked by a pydantic model that is made from the plug-in's dataclass, so that
the plug-in itself needs no pydantic.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Hashable, Mapping
from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from annotated_types import Interval, Le
from pydantic import (
    AfterValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationInfo,
    create_model,
)
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rayfed.core import plugins
from rayfed.core.errors import ScenarioError, listed
from rayfed.core.own import Untrusted
from rayfed.datasets.fetch import SCHEME
from rayfed.solvers import override
from rayfed.study.scenario.invalid import short
from rayfed.study.scenario.settings import Settings, fail, mistyped, plain, settings_of

KIND = "x-plugin"  # where the JSON schema refers to all plug-ins of a kind
UNNAMED = "x-unnamed"  # and to the one that settings without a name are for

LARGEST = 2**31 - 1
"""Of whole numbers: a product of two of them, or a sum over 2**32 clients, fits int64."""
LARGEST_SEED = 2**53 - 1
"""Of seeds: float64 and JavaScript hold every whole number up to here."""
LONGEST_S = 1e12
"""Seconds, about 30,000 years: a float64 clock still resolves 0.1 ms there."""

Integer = Annotated[int, Interval(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, Interval(ge=1, le=LARGEST)]
Seed = Annotated[int, Interval(ge=0, le=LARGEST_SEED)]
Seconds = Annotated[float, Le(LONGEST_S)]


class _Built:
    """Annotation of a field with a value that `_build` makes and `plain` writes."""

    def _build(self, given: Any, info: ValidationInfo) -> Any:
        raise NotImplementedError

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `_build`, write by `plain`."""
        return core_schema.with_info_plain_validator_function(
            self._build, serialization=core_schema.plain_serializer_function_ser_schema(plain)
        )


@dataclasses.dataclass(frozen=True)
class Plugin(_Built):
    """Annotation of a field that holds a plug-in of a kind (see `rayfed.core.plugins.KINDS`).

    Parameters
    ----------
    kind : str
    default : object, optional
        Where a mapping names no plug-in, it changes this one.
    base : type
        What the plug-in must extend.
    some : bool
        Whether a mapping that names no plug-in is kept as it is: it changes one that stands
        elsewhere.
    """

    kind: str
    default: Any = None
    base: type[Any] = object
    some: bool = False

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Refer to the schema of the kind, and without a name to that of the default."""
        if self.some:
            return {"anyOf": [{KIND: self.kind}, {"type": "object", "not": {"required": ["name"]}}]}
        unnamed = plugins.KINDS[self.kind].unnamed if self.default is None else self.default.name
        return {KIND: self.kind} if unnamed is None else {KIND: self.kind, UNNAMED: unnamed}

    def _build(self, given: Any, info: ValidationInfo) -> Any:
        if self.some and isinstance(given, Mapping) and "name" not in given:
            return dict(given)
        value = build(self.kind, given, self.default, info.context)
        if not isinstance(value, self.base):
            fail(f"found '{plugins.name_of(value)}'; give a kind of {self.base.__name__}", given)
        return value


@dataclasses.dataclass(frozen=True)
class SettingsOf(_Built):
    """Annotation of a field that holds a frozen dataclass that is not a plug-in.

    Parameters
    ----------
    cls : type
        The dataclass; a mapping with a name is for the kind of it that has that name.
    some : bool
        Whether the field holds a mapping of the settings that are given, and no others.
    """

    cls: type[Any]
    some: bool = False

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Show the dataclass's fields; those of a part of it have no defaults."""
        shown = model_of(self.cls).model_json_schema()
        if self.some:
            for each in shown["properties"].values():
                each.pop("default", None)
        named = [schema_of(cls) for cls in self._kinds.values()]
        return {"anyOf": [shown, *named]} if named else shown

    @property
    def _kinds(self) -> dict[str, type[Any]]:
        """The kinds of the dataclass that have a name."""
        return {cls.name: cls for cls in self.cls.__subclasses__() if hasattr(cls, "name")}

    def _build(self, given: Any, info: ValidationInfo) -> Any:
        if isinstance(given, self.cls):
            return make(type(given), settings_of(given), info.context)
        if not isinstance(given, Mapping):
            names = ", ".join(model_of(self.cls).model_fields)
            mistyped(f"a mapping of {names}", given)
        if self.some:
            checked = model_of(self.cls).model_validate(dict(given), context=info.context)
            return {key: getattr(checked, key) for key in given}
        if not self._kinds or "name" not in given:
            return make(self.cls, given, info.context)
        rest = dict(given)
        name = rest.pop("name")
        if name not in self._kinds:
            fail(f"found {short(name)}; give {listed(self._kinds)}, or no name", given, "name")
        return make(self._kinds[name], rest, info.context)


def build(kind: str, given: Any, default: Any = None, context: Any = None) -> Any:
    """Return the plug-in value that a scenario gives.

    Parameters
    ----------
    kind : str
        One of `rayfed.core.plugins.KINDS`.
    given : str, mapping, class or value
    default : object, optional
        The value that settings without a name, or with its name, change.
    context : mapping, optional
        ``root`` is the folder that paths are relative to.

    Raises
    ------
    pydantic.ValidationError
        If the name is not known or the settings are wrong.
    """
    if isinstance(given, plugins.base(kind)):
        return make(type(given), settings_of(given), context)
    cls, settings = split(kind, given, default)
    if type(default) is cls:
        settings = override(changes_of(default), settings)
    return make(cls, settings, context)


def split(kind: str, given: Any, default: Any = None) -> tuple[type[Any], dict[str, Any]]:
    """Return the class and the settings that a scenario gives for a plug-in."""
    if isinstance(given, (str, type)):
        return _class(kind, given), {}
    if not isinstance(given, Mapping):
        mistyped("a name, or a mapping with a name and its settings", given)
    settings = dict(given)
    name = settings.pop("name", None)
    if name is not None:
        return _class(kind, name, "name"), settings
    if default is not None:
        return type(default), settings
    unnamed = plugins.KINDS[kind].unnamed
    if unnamed is None:
        fail("the name is missing; " + _known(kind), given, "name")
    return plugins.resolve(kind, unnamed), settings


def make(cls: type[Any], settings: Mapping[str, Any], context: Any = None) -> Any:
    """Return a plug-in value from checked settings.

    Raises
    ------
    pydantic.ValidationError
        If a setting is unknown, missing or of the wrong type, or if they do not go together.
    """
    model = model_of(cls)
    checked = model.model_validate(dict(settings), context=context)
    try:
        return cls(**{name: getattr(checked, name) for name in model.model_fields})
    except ScenarioError as error:
        fail(
            error.problem, settings, *(name for name in [error.place] if name in model.model_fields)
        )


def model_of(cls: type[Any]) -> type[Settings]:
    """Return the pydantic model of a dataclass's settings."""
    return _model_of(cast(Hashable, cls))  # classes are hashable, though mypy does not know


@cache
def _model_of(cls: Any) -> type[Settings]:
    hints = get_type_hints(cls, include_extras=True)
    columns: dict[str, Any] = {}
    for field in plugins.settings(cls):
        default = _default(field)
        shown = ... if default is dataclasses.MISSING else default
        hint = _hint(hints[field.name], field.name, default)
        columns[field.name] = (hint, Field(default=shown))
    made: type[Settings] = create_model(cls.__name__, __base__=Settings, **columns)
    made.origin = cls
    return made


def schema_of(
    cls: type[Any], extra: Mapping[str, JsonSchemaValue] | None = None
) -> JsonSchemaValue:
    """Return the JSON schema of a dataclass's settings with its name and additional keys."""
    schema = model_of(cls).model_json_schema()
    properties = {"name": {"const": cls.name}, **schema.get("properties", {}), **(extra or {})}
    return {**schema, "properties": properties, "required": ["name", *schema.get("required", [])]}


def changes_of(value: Any) -> dict[str, Any]:
    """Return the settings of a plug-in value that are not the defaults of its class."""
    defaults = {f.name: _default(f) for f in dataclasses.fields(value)}
    return {name: v for name, v in settings_of(value).items() if v != defaults[name]}


def absolute(path: str, info: ValidationInfo) -> str:
    """Return a path of the scenario, relative to its file, as it holds from anywhere.

    Environment variables in it, as in ``$DATA/own.csv``, are filled in. Where there is no such
    file, one of that path in the folder that ``RAYFED_DATA`` names is taken; so are files that a
    pattern, such as ``hospital_*.csv``, matches.
    """
    if path.startswith(SCHEME):
        return path
    root = (info.context or {}).get("root", "")
    try:
        made = filled(path)
    except ScenarioError as error:
        fail(error.problem, path)
    relative = os.path.abspath(os.path.join(root, os.path.expanduser(made)))
    home = os.environ.get("RAYFED_DATA")
    if home is not None and not _names_files(relative):
        stored = os.path.abspath(os.path.join(home, made))
        return stored if _names_files(stored) else relative
    return relative


def _names_files(path: str) -> bool:
    """Return whether a file or folder of a path, or pattern, exists."""
    return os.path.exists(path) or next(glob.iglob(path, recursive=True), None) is not None


def filled(path: str) -> str:
    """Return a path with the values of its environment variables.

    Raises
    ------
    ScenarioError
        If one is not set.
    """
    made = os.path.expandvars(path)
    missing = re.search(r"\$(\w+|\{\w+\})", made)
    if missing:
        text = f"the environment variable {missing[0]} is not set; set it, or give the path"
        raise ScenarioError("", text)
    return made


def _class(kind: str, name: Any, *place: str) -> type[Any]:
    if isinstance(name, type) and issubclass(name, plugins.base(kind)):
        return name
    if not isinstance(name, str):
        fail(f"found {short(name)}; {_known(kind)}", name, *place)
    try:
        return plugins.resolve(kind, name)
    except Untrusted:
        raise
    except ScenarioError as error:
        fail(str(error), name, *place)


def _known(kind: str) -> str:
    return f"give one of: {listed(plugins.find(kind))}"


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _hint(hint: Any, name: str, default: Any) -> Any:
    """Return a type hint of a setting that pydantic can check.

    Whole numbers have bounds, and so have seconds, of settings that end in ``_s``. Plug-ins and
    other dataclasses are annotated; what pydantic does not know is left open.
    """
    if hint is int:
        return Seed if name == "seed" else Annotated[int, Le(LARGEST)]
    if hint is float and name.endswith("_s"):
        return Seconds
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):  # a word or a number is not looked for among plug-ins
        parts = tuple(sorted(parts, key=dataclasses.is_dataclass))
        return Union[tuple(_hint(part, name, default) for part in parts)]  # noqa: UP007
    if origin is Annotated:
        return _annotated(hint, name, default)
    if origin is tuple:
        return GenericAlias(tuple, tuple(p if p is ... else _hint(p, name, None) for p in parts))
    for kind in plugins.KINDS:
        if isinstance(hint, type) and issubclass(hint, plugins.base(kind)):
            shown = default if isinstance(default, hint) and settings_of(default) else None
            return Annotated[hint, Plugin(kind, shown, hint)]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return Annotated[hint, SettingsOf(hint)]
    try:
        TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return Any
    return hint


def _annotated(hint: Any, name: str, default: Any) -> Any:
    """Return an annotated type hint for pydantic from a mark of this package, if there is one."""
    for mark in hint.__metadata__:
        if isinstance(mark, plugins.ScenarioPath):
            return Annotated[hint, AfterValidator(absolute)]
        if isinstance(mark, plugins.SomeOf):
            return Annotated[Any, SettingsOf(plugins.load(mark.of), some=True)]
    return Annotated[_hint(get_args(hint)[0], name, default), *hint.__metadata__]
