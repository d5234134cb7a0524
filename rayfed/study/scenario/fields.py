"""Plug-ins as fields of a scenario: read from names and settings, written back, described.

A field annotated with `Plugin` holds the plug-in's frozen value. It is given as a name, as a
mapping of a name and settings, as ``package.module:Class``, or in Python as a class or a value.
The settings are checked by a pydantic model that is made from the plug-in's dataclass, so that
the plug-in itself needs no pydantic.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from types import FunctionType, GenericAlias, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from rayfed.clients.solvers import override
from rayfed.core import plugins
from rayfed.core.errors import ScenarioError, clipped, listed, nearest
from rayfed.core.own import Untrusted
from rayfed.datasets.hub import SCHEME
from rayfed.study.scenario.bounds import bounded
from rayfed.study.scenario.docstrings import described, summary
from rayfed.study.scenario.invalid import BRANCHES, Refused, complaint, short
from rayfed.study.scenario.paths import filled

KIND = "x-plugin"  # where the JSON schema refers to all plug-ins of a kind
BESIDE = "x-beside"  # the keys that a section has in addition to the settings of its plug-in
UNNAMED = "x-unnamed"  # and to the one that settings without a name are for


def fail(text: str, found: Any, *place: str | int) -> NoReturn:
    """Raise a pydantic error with a message of our own at a place below the current one."""
    error = PydanticCustomError("scenario", "{text}", {"text": text})
    details: InitErrorDetails = {"type": error, "loc": place, "input": found}
    raise ValidationError.from_exception_data("scenario", [details])


def refuse(errors: Iterable[ScenarioError], found: Any) -> NoReturn:
    """Raise a pydantic error with messages of our own, each at its dotted key."""
    details: list[InitErrorDetails] = []
    for error in errors:
        kind = PydanticCustomError("scenario", "{text}", {"text": error.problem})
        place = tuple(int(p) if p.isdecimal() else p for p in error.place.split("."))
        details.append({"type": kind, "loc": place, "input": found})
    raise ValidationError.from_exception_data("scenario", details)


if TYPE_CHECKING:  # mypy knows the fields of models by the metaclass of pydantic alone
    _Made = BaseModel
else:

    class _OneLine(type(BaseModel)):
        """Raises ScenarioError where a part is made in Python; pydantic does not call classes."""

        def __call__(cls, *args: Any, **given: Any) -> Any:
            try:
                return super().__call__(*args, **given)
            except ValidationError as error:
                raise complaint(error, given) from None

    class _Made(BaseModel, metaclass=_OneLine):
        pass


class Settings(_Made):
    """Base of all parts of a scenario: frozen, unknown keys and misplaced truth values refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )
    origin: ClassVar[type[Any] | None] = None

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        marked = mark_unknown(given, cls.model_fields, cls.beside())
        for key, value in marked.items():
            if isinstance(value, bool) and not _takes_bool(cls.model_fields[key].annotation):
                marked[key] = Refused(f"found {short(value)}; give a value, not yes or no")
        return marked

    @classmethod
    def beside(cls) -> dict[str, str]:
        """Return the settings of parts of this part, and their places: ``{"mu": "local.mu"}``."""
        return _beside(cls)

    def given(self) -> dict[str, Any]:
        """Return the keys as a scenario gives them, with plug-ins as values."""
        return {key: _given(value) for key, value in self}

    @model_serializer
    def _plain(self) -> dict[str, Any]:
        return {key: plain(value) for key, value in self.given().items()}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the keys as the docstring does."""
        described_schema = handler(schema)
        inner = handler.resolve_ref_schema(described_schema)
        texts = described(cls.origin or cls)
        inner["description"] = summary(cls.origin or cls)
        for key, shown in inner.get("properties", {}).items():
            if key in texts:
                shown["description"] = texts[key]
        return described_schema


@dataclasses.dataclass(frozen=True)
class Plugin:
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

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `build`, write by `plain`."""
        return core_schema.with_info_plain_validator_function(
            self._build, serialization=core_schema.plain_serializer_function_ser_schema(plain)
        )

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
class SettingsOf:
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

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by the dataclass's own fields."""
        return core_schema.with_info_plain_validator_function(
            self._build, serialization=core_schema.plain_serializer_function_ser_schema(plain)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Show the dataclass's fields; those of a part of it have no defaults."""
        shown = model_of(self.cls).model_json_schema()
        if self.some:
            for each in shown["properties"].values():
                each.pop("default", None)
        named = [self._named_schema(name, cls) for name, cls in self._kinds.items()]
        return {"anyOf": [shown, *named]} if named else shown

    @property
    def _kinds(self) -> dict[str, type[Any]]:
        """The kinds of the dataclass that have a name."""
        return {cls.name: cls for cls in self.cls.__subclasses__() if hasattr(cls, "name")}

    @staticmethod
    def _named_schema(name: str, cls: type[Any]) -> JsonSchemaValue:
        shown = model_of(cls).model_json_schema()
        shown["properties"] = {"name": {"const": name}, **shown["properties"]}
        shown["required"] = ["name", *shown.get("required", [])]
        return shown

    def _build(self, given: Any, info: ValidationInfo) -> Any:
        if isinstance(given, self.cls):
            return make(type(given), settings_of(given), info.context)
        if not isinstance(given, Mapping):
            names = ", ".join(model_of(self.cls).model_fields)
            fail(f"found {short(given)}; give a mapping of {names}", given)
        given = self._by_newer_names(given)
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

    def _by_newer_names(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settings by what they are called now; `older` names of the class are read, too."""
        for old, new in getattr(self.cls, "older", {}).items():
            if old in given:
                found, rest = given[old], {key: given[key] for key in given if key != old}
                if rest.get(new, found) != found:
                    fail(f"found {short(found)}; give {new} alone", found, old)
                given = rest | {new: found}
        return given


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
        fail(f"found {short(given)}; give a name, or a mapping with a name and its settings", given)
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
    for field in dataclasses.fields(cls):
        if field.init:
            default = _default(field)
            shown = ... if default is dataclasses.MISSING else default
            columns[field.name] = (
                _hint(bounded(hints[field.name], field.name), default),
                Field(default=shown),
            )
    made: type[Settings] = create_model(cls.__name__, __base__=Settings, **columns)
    made.origin = cls
    return made


def settings_of(value: Any) -> dict[str, Any]:
    """Return the settings of a plug-in value by name."""
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}


def changes_of(value: Any) -> dict[str, Any]:
    """Return the settings of a plug-in value that are not the defaults of its class."""
    defaults = {f.name: _default(f) for f in dataclasses.fields(value)}
    return {name: v for name, v in settings_of(value).items() if v != defaults[name]}


def plain(value: Any) -> Any:
    """Return a value as YAML can hold it: mappings, lists, texts and numbers."""
    if isinstance(value, (type, FunctionType)):
        return plugins.name_of(value)
    if dataclasses.is_dataclass(value):
        named = {"name": plugins.name_of(value)} if hasattr(value, "name") else {}
        return {**named, **plain(settings_of(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return value if isinstance(value, (str, int, float)) or value is None else str(value)


def absolute(path: str, info: ValidationInfo) -> str:
    """Return a path of the scenario, relative to its file, as it holds from anywhere.

    Environment variables in it, as in ``$DATA/own.csv``, are filled in. Where there is no such
    file, one of that path in the folder that ``RAYFED_DATA`` names is taken.
    """
    if path.startswith(SCHEME):
        return path
    root = (info.context or {}).get("root", "")
    try:
        made = filled(path)
    except ScenarioError as error:
        fail(error.problem, path)
    beside = os.path.abspath(os.path.join(root, os.path.expanduser(made)))
    home = os.environ.get("RAYFED_DATA")
    if home is not None and not os.path.exists(beside):
        stored = os.path.abspath(os.path.join(home, made))
        return stored if os.path.exists(stored) else beside
    return beside


OTHER_KEYS = {
    "batchsize": "batch",
    "learningrate": "lr",
    "localepochs": "epochs",
    "localsteps": "steps",
    "model": "problem",
    "numclients": "count",
    "numrounds": "rounds",
    "stepsize": "lr",
    "weightdecay": "weight_decay",
}
"""What other tools call a key, in letters and digits alone, and what it is called here."""
_SOLVER = "the local solver is chosen by local.name, see rayfed list solvers"


def mark_unknown(
    given: Mapping[Any, Any], known: Iterable[str], inside: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return settings in which the values of keys that do not exist are `Refused`.

    Parameters
    ----------
    given : mapping
    known : iterable of str
        The keys that exist.
    inside : mapping of str to str, optional
        Where keys stand that are often written one level too high, by key.
    """
    names, places = list(known), inside or {}
    marked = {}
    for key, value in given.items():
        name = key if isinstance(key, str) else str(short(key))
        if key not in names and not isinstance(value, Refused):
            value = Refused(f"unknown key '{clipped(name, 40)}'; {_hint_at(name, names, places)}")
        marked[name] = value
    return marked


def _hint_at(name: str, names: list[str], places: Mapping[str, str]) -> str:
    """Return where an unknown key stands here, or what it is called."""
    plain_name = "".join(filter(str.isalnum, name.lower()))
    here = OTHER_KEYS.get(plain_name, name)
    if plain_name in ("optimizer", "optimiser", "solver"):
        return _SOLVER
    if here in names:
        return f"it is '{here}' here"
    return f"write it as {clipped(places[here], 60)}" if here in places else nearest(name, names)


@cache
def _beside(cls: type[Settings]) -> dict[str, str]:
    places: dict[str, str] = {}
    for name, field in cls.model_fields.items():
        held = field.get_default(call_default_factory=False)
        inner: Iterable[str] = ()
        if isinstance(held, Settings):
            inner = type(held).model_fields
        elif dataclasses.is_dataclass(held) and not isinstance(held, type):
            inner = settings_of(held)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            inner = field.annotation.model_fields
        for key in inner:
            places.setdefault(key, f"{name}.{key}")
    return places


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


def _hint(hint: Any, default: Any) -> Any:
    """Return a type hint that pydantic can check: plug-ins annotated, the unknown left open."""
    if get_origin(hint) in (Union, UnionType):
        return _union(get_args(hint), default)
    if get_origin(hint) is Annotated:
        return _annotated(hint, default)
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        return GenericAlias(tuple, (_hint(get_args(hint)[0], None), ...))
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


def _annotated(hint: Any, default: Any) -> Any:
    """Return an annotated type hint that pydantic can check: what a mark of ours says, if any."""
    for mark in hint.__metadata__:
        if isinstance(mark, plugins.BesideScenario):
            return Annotated[hint, AfterValidator(absolute)]
        if isinstance(mark, plugins.SomeOf):
            return Annotated[Any, SettingsOf(plugins.load(mark.of), some=True)]
    return Annotated[_hint(get_args(hint)[0], default), *hint.__metadata__]


@dataclasses.dataclass(frozen=True)
class _AnyOf:
    """Annotation of a union whose branches may both hold, for the JSON schema."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Show the branches as alternatives, of which several may hold."""
        shown = handler(schema)
        return {"anyOf" if key == "oneOf" else key: value for key, value in shown.items()}


def _union(parts: Iterable[Any], default: Any) -> Any:
    """Return a union in which no other part complains of what is for one of them.

    A mapping is for its dataclass, a list for the one type of lists. So is a name for a plug-in,
    if the others are certain words.
    """
    made = {part: _hint(part, default) for part in parts}
    mapped = [part for part in made if isinstance(part, type) and dataclasses.is_dataclass(part)]
    kinds: Any = (Mapping, *mapped)
    if not mapped:
        mapped, kinds = [part for part in made if get_origin(part) is tuple], (list, tuple)
    others: Any = tuple(hint for part, hint in made.items() if part not in mapped)
    if len(mapped) != 1 or others in ((), (type(None),)):
        return Union[tuple(made.values())]  # noqa: UP007
    (cls,) = mapped
    if list in kinds:  # what is neither is told of both
        others = tuple(made.values())

    plugin = any(isinstance(mark, Plugin) for mark in getattr(made[cls], "__metadata__", ()))
    words = [word for part in made if get_origin(part) is Literal for word in get_args(part)]
    named = plugin and all(
        part in (cls, type(None)) or get_origin(part) is Literal for part in made
    )

    def which(given: Any) -> str:
        name = named and isinstance(given, str) and given not in words
        return BRANCHES[not (name or isinstance(given, kinds))]

    first, second = map(Tag, BRANCHES)
    tagged: Any = Union[Annotated[made[cls], first], Annotated[Union[others], second]]  # noqa: UP007
    return Annotated[tagged, Discriminator(which), _AnyOf()]


def _takes_bool(hint: Any) -> bool:
    return hint in (bool, Any) or any(_takes_bool(part) for part in get_args(hint))


def _given(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.given()
    return [_given(item) for item in value] if isinstance(value, tuple) else value
