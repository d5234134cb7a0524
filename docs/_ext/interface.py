"""The pages of the Python interface: public names, and the bases that plug-ins extend."""

from __future__ import annotations

import inspect
from pathlib import Path

import md
import sources
from sphinx.application import Sphinx

import rayfed

_LONG = 500  # characters of a signature that nobody reads
MESSAGES = ("Ask", "Upload", "Reply", "Groups")


def public() -> str:
    """Return the page of the public names."""
    shown = [_documented("rayfed", name) for name in sources.public]
    head = "(interface)=\n# Python interface\n\nWhat `import rayfed` offers."
    return "\n\n".join([head, *shown]) + "\n"


def bases() -> str:
    """Return the page of what the files of plug-ins import."""
    shown = [
        f"## {kind.capitalize()}\n\n" + _directive("class", entry.base.replace(":", "."))
        for kind, entry in sources.plugins.KINDS.items()
    ]
    home = sources.messages.__name__
    messages = "\n\n".join(_directive("class", f"{home}.{name}") for name in MESSAGES)
    head = (
        "(bases)=\n# Interfaces of plug-ins\n\n"
        "The base class of each kind, and what passes between server function and client function "
        "of an algorithm. [](../howto/own-algorithm.md) shows how they are used."
    )
    tests = f"## Testing\n\n{_directive('module', 'rayfed.testing')}"
    return "\n\n".join([head, f"## Messages\n\n{messages}", *shown, tests]) + "\n"


def _documented(module: str, name: str) -> str:
    item = getattr(rayfed, name)
    kind = "class" if isinstance(item, type) else "function"
    shown = "(**keys)" if len(str(inspect.signature(item))) > _LONG else ""
    return f"## `{module}.{name}`\n\n" + _directive(kind, f"{module}.{name}{shown}")


def _directive(kind: str, path: str) -> str:
    members = "   :members:\n" if kind in ("class", "module") else ""
    return f"```{{eval-rst}}\n.. auto{kind}:: {path}\n{members}```"


def _generate(app: Sphinx) -> None:
    md.write(Path(app.srcdir), "interface.md", public())
    md.write(Path(app.srcdir), "bases.md", bases())


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
