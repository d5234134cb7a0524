"""The reference of scenario files, from their JSON schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import md
import sources
from sphinx.application import Sphinx

_INTRO = f"""\
# Scenario files

A scenario file is YAML. This page is generated from its JSON schema, which `rayfed schema`
prints, so that editors can complete names and settings. Unknown keys are refused. A plug-in is
given as a name, as a mapping of its `name` and settings, or as `package.module:Class`. A number
may be written as a power, such as `2^-7`. A key in `grid`, `--set` or `overrides` is the dotted
path to it, such as `participation.cohort`.

Settings have bounds, so that sums of counts fit 64 bits and every run can end. The tables show
those of each key; a value beyond them is refused. In general:

| setting | at most |
|---|---|
| whole numbers, such as `rounds` | {sources.LARGEST:,} |
| seeds | {sources.LARGEST_SEED:,} |
| seconds | {sources.LONGEST_S:g} |
| local steps of a client in a round | {sources.MOST_STEPS:,} |
| runs of a study: settings times algorithms times seeds | {sources.MOST_RUNS:,} |
| values in a file, aliases included | {sources.MOST_VALUES:,} |
"""


def page(schema: dict[str, Any]) -> str:
    """Return the page: a table for the scenario and one for each mapping in it."""
    parts = [_INTRO]
    for key, found in mappings(schema, schema["$defs"]):
        title = f"`{key}`" if key else "The whole file"
        about = md.escaped(found.get("description", "")) if key else ""
        table = md.settings(found, found["properties"], home=key)
        label = f"(key-{key.replace('.', '-') or 'scenario'})="
        parts.append(f"{label}\n## {title}\n\n{about}\n\n{table}")
    return "\n\n".join(parts) + "\n"


def mappings(
    schema: dict[str, Any], parts: dict[str, Any], key: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every mapping of a scenario with its dotted key, the outermost first."""
    yield key, schema
    for name, given in schema["properties"].items():
        inner = next(_objects(given, parts), None)
        if inner is not None:
            yield from mappings(inner, parts, f"{key}.{name}" if key else name)


def _objects(schema: dict[str, Any], parts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the mappings, other than plug-ins, that a value may be."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name == "problems":
        yield _problem(parts)
    elif name[:1].isupper():
        yield from _objects(parts[name], parts)
    elif schema.get("properties"):
        yield schema
    for item in (*schema.get("anyOf", ()), *filter(None, [schema.get("items")])):
        yield from _objects(item, parts)


def _problem(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the keys that stand beside the settings of every problem."""
    plugins = sources.plugins.find("problems")
    name = next(iter(plugins))
    own = {field.name for each in plugins.values() for field in sources.plugins.settings(each)}
    given = parts[f"problems.{name}"]["properties"]
    shown = {key: item for key, item in given.items() if key not in own}
    shown["name"] = {"enum": list(plugins), "description": "The problem, or `module:Class`."}
    about = "What is learnt, from which data. The problem's settings stand beside these keys."
    return {"properties": shown, "description": about, "required": ["name"]}


def _generate(app: Sphinx) -> None:
    md.write(Path(app.srcdir), "scenario.md", page(sources.Study.json_schema()))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
