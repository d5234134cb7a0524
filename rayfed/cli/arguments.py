"""Arguments and options that several commands take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rayfed.cli import completion
from rayfed.cli.console import err, say
from rayfed.core.errors import ScenarioError
from rayfed.core.inside import real
from rayfed.runs.files.place import is_url, read_note, shown


def readable(folder: Path) -> Path:
    """Return a folder with a valid path; its existence is checked elsewhere."""
    try:
        folder.stat()
    except FileNotFoundError:
        return folder
    except OSError as error:
        text = f"cannot be read ({(error.strerror or str(error)).lower()})"
        raise ScenarioError(str(folder), text) from error
    return folder


def given(text: str) -> str | Path:
    """Return a result folder as it is given: a URL stays text."""
    return text if is_url(text) else Path(text)


def known(context: typer.Context, place: str | None) -> str | None:
    """Return where results go, after a look at whether the protocol of a URL is known."""
    if place is not None and is_url(place) and not context.resilient_parsing:
        from rayfed.runs.remote.objects import Objects

        Objects(place)
    return place


def brought(context: typer.Context, folder: str | Path) -> Path | None:
    """Return the local folder of results; of a URL the copy that is brought here."""
    if context.resilient_parsing:  # for completion, which takes nothing from anywhere
        return None
    return local_copy(folder)


def local_copy(folder: str | Path) -> Path:
    """Return the local folder of results, see `api.local_copy`; its messages go to stderr."""
    if not is_url(folder):
        return readable(real(Path(folder)))
    from rayfed.runs.remote.copies import bring

    return bring(str(folder), partial(say, console=err))


@contextmanager
def returned(folder: Path) -> Iterator[None]:
    """Upload files that a command writes into the local copy of a URL."""
    if not read_note(folder):
        yield
        return
    from rayfed.runs.remote.copies import returned

    with returned(folder):
        yield
    say(f"uploaded to {shown(folder)}")


def local(text: str) -> Path:
    """Return a path of this machine.

    Raises
    ------
    ScenarioError
        If it is a URL.
    """
    if is_url(text):
        raise ScenarioError(text, "is a URL; give a path of this machine")
    return Path(text)


def folders_of(given: list[Path] | None) -> list[Path]:
    """Return folders with results below them, ``results`` if none are given.

    Raises
    ------
    ScenarioError
        If one is no folder.
    """
    places = given or [Path("results")]
    for place in places:
        if not place.is_dir():
            raise ScenarioError(str(place), "is no folder; give one with results below it")
    return places


ScenarioFile = Annotated[
    Path,
    typer.Argument(
        help="A scenario file (YAML), or the name of one that comes with rayfed.",
        metavar="FILE",
        autocompletion=completion.of_scenarios,
    ),
]
_SCENARIOS = typer.Argument(
    help="A scenario file (YAML), or the name of one that comes with rayfed. Several make one "
    "study with the runs of all.",
    metavar="FILE...",
    autocompletion=completion.of_scenarios,
)
ScenarioFiles = Annotated[list[Path], _SCENARIOS]
ScenarioFilesOrNone = Annotated[list[Path] | None, _SCENARIOS]
Folder = Annotated[
    Path,
    typer.Argument(
        help="A result folder, or its URL.", metavar="DIR", parser=given, callback=brought
    ),
]
Folders = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DIR...",
        parser=local,
        help="Folders with results below them; results if not given.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Result folder; results/NAME if not given. Earlier results there are moved aside. "
        "Or a URL, such as s3://bucket/study, at which nothing is.",
        callback=known,
    ),
]
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

Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import the modules that the scenario names although you did not make this folder on "
        "this machine: their code runs.",
    ),
]

Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Run everything in this process, so that breakpoints are hit, and print full "
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


Trackers = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="TOOL",
        help="Send each row while it runs to mlflow, tensorboard or wandb, as rayfed export does "
        "afterwards. May be repeated.",
    ),
]


OwnPanels = Annotated[
    list[str],
    typer.Option(
        "--panel",
        metavar="MODULE:CLASS",
        help="A panel of your own for the page, such as mine:Panel in mine.py. May be repeated.",
        default_factory=list,
        show_default=False,
    ),
]
