"""The page of commands, from what the command line says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import md
import sources
from sphinx.application import Sphinx
from typer.main import get_command


def page() -> str:
    """Return the page: each command with its arguments and options."""
    group: Any = get_command(sources.commands)
    shown = [_command(name, command) for name, command in group.commands.items()]
    head = f"(commands)=\n# Commands\n\n{md.prose(group.help)}"
    return "\n\n".join([head, *shown]) + "\n"


def _command(name: str, command: Any) -> str:
    rows = [
        (", ".join(f"`{flag}`" for flag in _names(param)), md.escaped(param.help or ""))
        for param in command.params
    ]
    return f"## `rayfed {name}`\n\n{md.prose(command.help)}\n\n" + (
        md.table(("argument", "meaning"), rows) if rows else ""
    )


def _names(param: Any) -> list[str]:
    flags = [*param.opts, *param.secondary_opts]
    return flags if flags[0].startswith("-") else [param.metavar or param.name.upper()]


def _generate(app: Sphinx) -> None:
    md.write(Path(app.srcdir), "commands.md", page())


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx reads its sources."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True}
