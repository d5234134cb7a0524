"""The gallery: a page for each kind of plug-in, and one for each algorithm.

They are made from what the plug-in search finds.
"""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import md
import sources
from sphinx.application import Sphinx

from rayfed.core.columns import names

FORMULAS = Path(__file__).parents[1] / "formulas.toml"
"""LaTeX of plug-ins whose docstrings write their formulas in plain characters, by kind and name."""
APART = ("algorithms",)
"""Kinds whose plug-ins have a page each: all algorithms on one are 44,000 pixels tall."""


def formulas() -> dict[str, dict[str, str]]:
    """Return the formulas by kind and name."""
    return tomllib.loads(FORMULAS.read_text("utf-8"))


def pages(kind: str, parts: dict[str, Any], tex: dict[str, str]) -> dict[str, str]:
    """Return the page of one kind, and those of its plug-ins that are apart, by file.

    Parameters
    ----------
    parts : mapping
        The ``$defs`` of the JSON schema.
    tex : mapping
        Formulas of this kind, by name.
    """
    told = {name: _plugin(kind, name, parts, tex) for name in sources.plugins.find(kind)}
    if kind not in APART:
        return {f"{kind}.md": "\n\n".join([*_head(kind, parts), *told.values()]) + "\n"}
    below = "\n".join(f"{kind}/{name}" for name in told)
    tree = f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{below}\n```"
    apart = {f"{kind}/{name}.md": f"{text}\n" for name, text in told.items()}
    return {f"{kind}.md": "\n\n".join([*_head(kind, parts), tree]) + "\n"} | apart


def _head(kind: str, parts: dict[str, Any]) -> list[str]:
    """Return what a kind is, the table of its plug-ins, and the settings that they share."""
    base, found = sources.plugins.base(kind), sources.plugins.find(kind)
    shared = [field.name for field in sources.plugins.settings(base)]
    rows = [
        (_anchor(kind, name) + _link(kind, name), md.escaped(_summary(cls)))
        for name, cls in found.items()
    ]
    head = [f"(gallery-{kind})=\n# {kind.capitalize()}", md.prose(md.sections(base)[""])]
    head.append(md.table(("name", "what it is"), rows))
    some = parts[f"{kind}.{next(iter(found))}"]
    if shared:
        named = "availability models" if kind == "availability" else kind
        head.append(f"## Settings of all {named}\n\n{md.settings(some, shared)}")
    return head


def _plugin(kind: str, name: str, parts: dict[str, Any], tex: dict[str, str]) -> str:
    cls, schema = sources.plugins.find(kind)[name], parts[f"{kind}.{name}"]
    text = md.sections(cls)
    summary, _, more = text[""].partition("\n\n")
    level = "#" if kind in APART else "##"
    shown = [f"({kind}-{name})=\n{level} `{name}`", md.prose(summary)]
    if name in tex:
        shown.append(f"```{{math}}\n{tex[name].strip()}\n```")
    shown.append(md.prose(more))
    own = _own(cls, sources.plugins.base(kind))
    if own:
        shown.append(md.settings(schema, own))
    columns = getattr(cls, "diagnostics", ())
    if columns:
        shown.append(f"Adds the columns {', '.join(f'`{column}`' for column in names(columns))}.")
    paper = _paper(cls)
    if paper and paper not in text[""]:
        shown.append(f"Source: {md.escaped(paper)}")
    for title in ("Notes", "Examples"):
        if title in text:
            shown.append(f"```{{rubric}} {title}\n```\n\n{md.prose(text[title])}")
    return "\n\n".join(part for part in shown if part)


def _summary(cls: type[Any]) -> str:
    return " ".join(md.sections(cls)[""].partition("\n\n")[0].split())


def _own(cls: type[Any], base: type[Any]) -> list[str]:
    """Return the settings that the base has not, or that have another default there."""
    shared = {field.name: _default(field) for field in sources.plugins.settings(base)}
    return [
        field.name
        for field in sources.plugins.settings(cls)
        if (field.name not in shared or _default(field) != shared[field.name])
    ]


def _default(field: Any) -> str:
    made = field.default_factory() if callable(field.default_factory) else field.default
    return repr(made)


def _paper(cls: type[Any]) -> str:
    """Return the reference in the docstring of a plug-in's module: the paragraph with a link."""
    text = inspect.getdoc(inspect.getmodule(cls)) or ""
    return next((" ".join(part.split()) for part in text.split("\n\n") if "http" in part), "")


def _index(kinds: list[str]) -> str:
    rows = [
        (f"{{ref}}`{kind} <gallery-{kind}>`", ", ".join(_link(kind, name) for name in names))
        for kind, names in ((kind, sources.plugins.find(kind)) for kind in kinds)
    ]
    return "\n\n".join(
        (
            "(gallery)=\n# Gallery",
            "Everything that a scenario can name. The pages are generated from what the plug-in "
            "search finds: a file dropped into the folder of its kind appears here.",
            md.table(("kind", "plug-ins"), rows),
            "```{toctree}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(kinds) + "\n```\n",
        )
    )


def _link(kind: str, name: str) -> str:
    return f"{{ref}}`{name} <{kind}-{name}>`"


def _anchor(kind: str, name: str) -> str:
    """Return where links lead that know a plug-in on the page of its kind."""
    return f'<span id="{name}"></span><span id="{kind}-{name}"></span>' if kind in APART else ""


def _generate(app: Sphinx) -> None:
    kinds, parts = list(sources.plugins.KINDS), sources.Study.json_schema()["$defs"]
    folder, tex = Path(app.srcdir), formulas()
    md.write(folder, "gallery/index.md", _index(kinds))
    for kind in kinds:
        for file, text in pages(kind, parts, tex.get(kind, {})).items():
            md.write(folder, f"gallery/{file}", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
