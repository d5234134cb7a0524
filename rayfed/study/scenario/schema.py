"""The JSON schema of a scenario file, from which editors complete names and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from rayfed.core import plugins
from rayfed.core.yamlfile import POWER
from rayfed.study.scenario.fields import KIND, UNNAMED, schema_of

BASE = "base"
"""The key under which a file names those that it builds on."""
_OWN = {"type": "string", "pattern": r"^[\w.]+:\w+$", "description": "package.module:Class"}


def completed(
    schema: JsonSchemaValue, extra: Mapping[str, Mapping[str, JsonSchemaValue]]
) -> JsonSchemaValue:
    """Return the schema of a scenario with the schemas of all plug-ins in place of their marks.

    Parameters
    ----------
    schema : mapping
        As pydantic makes it; `Plugin` fields are marked with their kind.
    extra : mapping
        Schemas of the keys allowed next to the settings of all plug-ins of a kind.
    """
    parts: dict[str, JsonSchemaValue] = schema.pop("$defs", {})
    for kind in plugins.KINDS:  # those too that only a user's own class has a setting for
        parts.update(_schemas(kind, extra.get(kind, {})))
    path: JsonSchemaValue = {"type": "string"}
    either = {"anyOf": [path, {"type": "array", "items": path}]}
    schema["properties"][BASE] = {
        **either,
        "description": "Scenario files that this one builds on.",
    }
    needed = schema.pop("required")  # it may come from the base
    schema["anyOf"] = [{"required": needed}, {"required": [BASE]}]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    linked: JsonSchemaValue = _linked({"$schema": dialect, **schema, "$defs": parts})
    return linked


def _schemas(kind: str, extra: Mapping[str, JsonSchemaValue]) -> dict[str, JsonSchemaValue]:
    """Return the schemas of a kind and of each of its plug-ins, by name.

    ``extra`` holds the schemas of keys allowed next to the settings of every plug-in.
    """
    each: dict[str, JsonSchemaValue] = {}
    alone: list[str] = []  # names that need no settings
    for name, cls in plugins.find(kind).items():
        named = schema_of(cls, extra)
        required = named["required"][1:]
        each[f"{kind}.{name}"] = named
        each[f"{kind}.{name}.unnamed"] = {**named, "required": required}
        alone += [] if required else [name]
    choice: list[JsonSchemaValue] = [
        {"enum": alone},
        _OWN,
        *({"$ref": f"#/$defs/{kind}.{name}"} for name in plugins.find(kind)),
        {"type": "object", "properties": {"name": _OWN}, "required": ["name"]},
    ]
    return {kind: {"oneOf": choice}, **each}


def _linked(schema: Any) -> Any:
    """Return a schema with the marks made into JSON references."""
    if isinstance(schema, list):
        return [_linked(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    linked = {key: _linked(item) for key, item in schema.items() if key not in (KIND, UNNAMED)}
    if schema.get("type") in ("number", "integer"):
        return _or_power(linked)
    if KIND not in schema:
        return linked
    reference = {"$ref": f"#/$defs/{schema[KIND]}"}
    if UNNAMED not in schema:
        return linked | reference
    unnamed = {"$ref": f"#/$defs/{schema[KIND]}.{schema[UNNAMED]}.unnamed"}
    return linked | {"anyOf": [reference, unnamed]}


def _or_power(number: JsonSchemaValue) -> JsonSchemaValue:
    """Return the schema of a number, which a scenario may also give as a power such as 2^-7."""
    either: list[JsonSchemaValue] = [number, {"type": "string", "pattern": POWER}]
    linked: JsonSchemaValue = {"anyOf": either}
    for key in ("title", "description", "default"):
        if key in number:
            linked[key] = number.pop(key)
    return linked
