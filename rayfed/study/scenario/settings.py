"""Parts of a scenario as pydantic models: frozen, with keys that are known and described."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, get_args

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from rayfed.core import plugins
from rayfed.core.errors import ScenarioError, clipped, nearest
from rayfed.study.scenario.invalid import Refused, complaint, short

OTHER_KEYS = {
    "batchsize": "batch",
    "learningrate": "lr",
    "localepochs": "epochs",
    "localsteps": "steps",
    "model": "problem",
    "numclients": "count",
    "numrounds": "rounds",
    "stepsize": "lr",
    "toofew": "if_fewer",
    "weightdecay": "weight_decay",
}
"""Keys of other tools, in letters and digits only, and their names here."""
_SOLVER = "the local solver is chosen by local.name, see rayfed list solvers"
_INSTEAD = {
    "lrdecay": "write it as lr: {name: exponential, start: ..., factor: ...}",
    "optimiser": _SOLVER,
    "optimizer": _SOLVER,
    "skewdraws": "write it as measures: [{name: skew, draws: ...}]",
    "solver": _SOLVER,
}
"""Advice for keys of other tools and of older versions, in letters and digits alone."""


def fail(text: str, found: Any, *place: str | int) -> NoReturn:
    """Raise a pydantic error with a message of our own at a place below the current one."""
    refuse([ScenarioError(".".join(map(str, place)), text)], found)


def mistyped(wanted: str, found: Any) -> NoReturn:
    """Raise a pydantic error that a value is of another type, which it may be for a union."""
    kind = PydanticCustomError("mapping_type", "{wanted}", {"wanted": wanted})
    raise ValidationError.from_exception_data("scenario", [{"type": kind, "input": found}])


def refuse(errors: Iterable[ScenarioError], found: Any) -> NoReturn:
    """Raise a pydantic error with messages of our own, each at its dotted key."""
    details: list[InitErrorDetails] = []
    for error in errors:
        parts = filter(None, error.place.split("."))
        place = tuple(int(p) if p.isdecimal() else p for p in parts)
        about = {"keys": len(place), "text": error.problem}  # texts may hold '{keys}': it is last
        kind = PydanticCustomError("scenario", "{text}", about)
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
        marked = mark_unknown(given, cls.model_fields, cls.key_places())
        for key, value in marked.items():
            if isinstance(value, bool) and not _takes_bool(cls.model_fields[key].annotation):
                marked[key] = Refused(f"found {short(value)}; give a value, not yes or no")
        return marked

    @classmethod
    def key_places(cls) -> dict[str, str]:
        """Return the settings of parts of this part, and their places: ``{"mu": "local.mu"}``."""
        return _key_places(cls)

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


def plain(value: Any) -> Any:
    """Return a value as YAML can hold it: mappings, lists, texts and numbers."""
    if isinstance(value, plugins.NAMED):
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


def settings_of(value: Any) -> dict[str, Any]:
    """Return the settings of a plug-in value by name."""
    return {f.name: getattr(value, f.name) for f in plugins.settings(value)}


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
    """Return the place of an unknown key, or its name here."""
    plain_name = "".join(filter(str.isalnum, name.lower()))
    spelling = OTHER_KEYS.get(plain_name, name)
    if spelling in names:
        return f"it is '{spelling}' here"
    if plain_name in _INSTEAD:
        return _INSTEAD[plain_name]
    return (
        f"write it as {clipped(places[spelling], 60)}"
        if spelling in places
        else nearest(name, names)
    )


@cache
def _key_places(cls: type[Settings]) -> dict[str, str]:
    places: dict[str, str] = {}
    for name, field in cls.model_fields.items():
        held = field.get_default(call_default_factory=False)
        inner: Iterable[str] = ()
        part = next((mark.cls for mark in field.metadata if hasattr(mark, "cls")), None)
        if part is not None:  # settings that are no plug-in
            inner = (setting.name for setting in plugins.settings(part))
        elif isinstance(held, Settings):
            inner = type(held).model_fields
        elif dataclasses.is_dataclass(held) and not isinstance(held, type):
            inner = settings_of(held)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            inner = field.annotation.model_fields
        for key in inner:
            places.setdefault(key, f"{name}.{key}")
    return places


def _takes_bool(hint: Any) -> bool:
    return hint in (bool, Any) or any(_takes_bool(part) for part in get_args(hint))


def _given(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.given()
    return [_given(item) for item in value] if isinstance(value, tuple) else value


def described(cls: type[Any]) -> dict[str, str]:
    """Return the descriptions in the numpydoc "Parameters" of a class and its bases, by name."""
    texts: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n\S+\n---|\Z)", _doc(parent), re.S)
        for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
            head, _, text = entry.partition("\n")
            names, _, kind = head.partition(" : ")
            shown = " ".join(text.split()) or kind
            texts.update({name.strip(): shown for name in names.split(",")})
    return texts


def summary(cls: type[Any]) -> str:
    """Return the first line of a class's docstring."""
    return _doc(cls).partition("\n")[0]


def _doc(cls: type[Any]) -> str:
    return inspect.cleandoc(vars(cls).get("__doc__") or "")
