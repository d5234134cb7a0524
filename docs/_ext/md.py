"""Markdown from docstrings and JSON schemas, and where generated pages are written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.S)
_URL = re.compile(r"https?://[^\s)>,;]*[^\s)>,;.:]")
_SPECIAL = re.compile(r"([\\*_<\[\]|$#])")
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)


def write(folder: Path, name: str, text: str) -> None:
    """Write a generated page, unless it is there already: unchanged pages are not built anew."""
    path = folder / "generated" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")


def escaped(text: str) -> str:
    """Return plain text of a docstring as Markdown: code stays code, addresses become links."""
    parts = _CODE.split(text)
    parts[1::2] = [part.replace("|", "\\|") for part in parts[1::2]]
    parts[::2] = [_plain(part) for part in parts[::2]]
    return "".join(parts)


def _plain(text: str) -> str:
    done, end = "", 0
    for match in _URL.finditer(text):
        done += _SPECIAL.sub(r"\\\1", text[end : match.start()]) + f"<{match[0]}>"
        end = match.end()
    return done + _SPECIAL.sub(r"\\\1", text[end:])


def sections(cls: Any) -> dict[str, str]:
    r"""Return the parts of a numpydoc docstring by title; the text before them as "".

    Examples
    --------
    >>> sections(type("A", (), {"__doc__": "Summary.\n\nNotes\n-----\nMore."}))
    {'': 'Summary.', 'Notes': 'More.'}
    """
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")
    parts = _SECTION.split(text)
    named = zip(parts[1::2], parts[2::2], strict=True)
    return {"": parts[0].strip(), **{title: body.strip("\n") for title, body in named}}


def prose(text: str) -> str:
    """Return the text of a docstring as Markdown.

    Doctests and indented lines become code, ``.. math::`` becomes a formula.
    """
    text = re.sub(r"^(\.\. math::)\s*\n\s*\n", r"\1\n", inspect.cleandoc(text), flags=re.M)
    blocks = re.split(r"\n\s*\n", text)
    return "\n\n".join(_block(block) for block in blocks if block.strip())


def _block(block: str) -> str:
    lines = block.splitlines()
    if block.startswith(">>>"):
        return f"```pycon\n{block}\n```"
    if block.startswith(".. math::"):
        inner = inspect.cleandoc("\n".join([lines[0][9:], *lines[1:]]))
        return f"```{{math}}\n{inner}\n```"
    if all(line.startswith("  ") for line in lines):
        return f"```text\n{inspect.cleandoc(block)}\n```"
    if block.endswith("::"):
        block = block[:-1]
    return escaped(block)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(" ".join(c.split()) for c in row) + " |" for row in lines)


# -- JSON schemas --------------------------------------------------------------------------


def settings(schema: dict[str, Any], names: Iterable[str], home: str | None = None) -> str:
    """Return the table of some properties of an object.

    Parameters
    ----------
    schema : mapping
        Of the object.
    names : iterable of str
        Its properties to show.
    home : str, optional
        Dotted key of the object in a scenario, if its mappings have sections of their own.
    """
    rows = []
    for name in names:
        given = schema["properties"][name]
        required = name in schema.get("required", ())
        default = "required" if required else value(given.get("default", {}))
        key = "" if home is None else f"{home}.{name}".lstrip(".")
        kind = words(given, key)
        rows.append((f"`{name}`", kind, default, escaped(given.get("description", ""))))
    return table(("setting", "type", "default", "meaning"), rows)


def value(given: Any) -> str:
    """Return a default as a scenario file gives it."""
    if isinstance(given, dict) and len(given) > 3:  # each key has its default where it is listed
        return ""
    text = yaml.safe_dump(given, default_flow_style=True, width=10_000, sort_keys=False)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"


def words(schema: dict[str, Any], key: str = "") -> str:
    """Return a type in words, with its bounds."""
    found = dict.fromkeys(_words(schema, key))  # each once, in their order
    return " or ".join(found)


def _words(schema: dict[str, Any], key: str) -> list[str]:
    if "$ref" in schema:
        return [_reference(schema["$ref"].rpartition("/")[2], key)]
    for form in ("anyOf", "oneOf"):
        if form in schema:
            found = [word for item in schema[form] for word in _words(item, key)]
            return [word for word in found if word] or ["string"]
    if "pattern" in schema:  # a power, which every number may be given as
        return [""]
    if "const" in schema or "enum" in schema:
        return [f"`{item}`" for item in schema.get("enum", [schema.get("const")])]
    kind = schema.get("type")
    if kind == "array":
        inner = words(schema.get("items", {}), key)
        return [f"list of {inner}" if inner else "list"]
    if kind == "object":
        return [_mapping(schema, key)]
    return [_bounded(schema, str(kind))] if kind else ["any value"]


def _reference(name: str, key: str) -> str:
    kind, _, plugin = name.partition(".")
    if plugin.endswith(".unnamed"):
        return ""
    if name[:1].isupper():
        return f"[mapping](#key-{key.replace('.', '-')})" if key else "mapping"
    return f"{{ref}}`{kind} <gallery-{kind}>`"


def _mapping(schema: dict[str, Any], key: str) -> str:
    if key and "properties" in schema:
        return f"[mapping](#key-{key.replace('.', '-')})"
    names = ", ".join(f"`{name}`" for name in schema.get("properties", ()))
    return f"mapping of {names}" if names else "mapping"


def _bounded(schema: dict[str, Any], kind: str) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "\\<"}
    bounds = [f"{sign} {_number(schema[name])}" for name, sign in signs.items() if name in schema]
    return " ".join([kind, ", ".join(bounds)]).strip()


def _number(given: float) -> str:
    return f"{given:g}" if isinstance(given, float) else str(given)
