"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayfed.cli import completion
from rayfed.core.errors import ScenarioError


def readable(folder: Path) -> Path:
    """Return a folder whose path the system takes; whether it exists is asked elsewhere."""
    try:
        folder.stat()
    except FileNotFoundError:
        return folder
    except OSError as error:
        text = f"cannot be read ({(error.strerror or str(error)).lower()})"
        raise ScenarioError(str(folder), text) from error
    return folder


ScenarioFile = Annotated[
    Path,
    typer.Argument(
        help="A scenario file (YAML), or the name of one that comes with rayfed.",
        metavar="FILE",
        autocompletion=completion.of_scenarios,
    ),
]
ScenarioFiles = Annotated[
    list[Path],
    typer.Argument(
        help="A scenario file (YAML), or the name of one that comes with rayfed. Several make one "
        "study with the runs of all.",
        metavar="FILE...",
        autocompletion=completion.of_scenarios,
    ),
]
Folder = Annotated[Path, typer.Argument(help="A result folder.", metavar="DIR", callback=readable)]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the scenario, for example --set participation.cohort=10 or "
        "--set algorithms.*.local.lr=0.05. May be repeated.",
        autocompletion=completion.of_keys,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Use an existing Ray cluster that this machine is a node of: auto, or host:port. "
        "Records land on this machine.",
    ),
]

Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Run everything in this process, so that breakpoints work, and print whole "
        "tracebacks. Results stay the same.",
    ),
]

NoPage = Annotated[
    bool,
    typer.Option(
        "--no-page",
        help="Do not write the page at the end, which takes seconds where there are many runs; "
        "rayfed report DIR writes it later.",
    ),
]
