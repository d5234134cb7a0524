"""The command line: its commands, and errors of the user's in one line."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from rayfed.cli import completion, dashboard, notes, own, plans, reproduce, results, runs
from rayfed.cli.completion import LISTED
from rayfed.cli.console import err, out, say
from rayfed.core.errors import RayfedError, ScenarioError, clipped, unknown
from rayfed.core.extras import DISTRIBUTION
from rayfed.core.plugins import KINDS, find, raised, users_frames

app = typer.Typer(
    help="Simulate federated learning with clients that differ in data, speed, network and "
    "availability. Start with: rayfed run quickstart",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # which joins the lines of a paragraph
    context_settings={"help_option_names": ["-h", "--help"]},
)
_UsageError: type[Any] = typer.BadParameter.__mro__[1]  # of click, or of typer's copy of it


def _version(asked: bool) -> None:
    if asked:
        say(f"rayfed {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def options(
    asked: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that stand before the command."""


app.command()(runs.run)
app.command()(runs.sweep)
app.command()(runs.resume)
app.command()(runs.stop)
app.command()(runs.extend)
app.command()(dashboard.dashboard)
app.command()(notes.studies)
app.command()(notes.note)
app.command()(reproduce.reproduce)
app.command()(plans.check)
app.command()(plans.topology)


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            help=f"One of: {', '.join(LISTED)}, or the name of one of them; without, all names.",
            metavar="KIND",
            autocompletion=completion.of_list,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, in detail.", autocompletion=completion.of_kind),
    ] = None,
) -> None:
    """Print the algorithms, problems, data sets and so on that were found.

    With "columns": the columns of the result tables, those of plug-ins included.
    """
    from rayfed.cli.catalogue import details, kinds, overview

    if kind is None:
        out.print(kinds())
        return
    if kind not in LISTED and name is None:  # the name of a plug-in does as well
        kinds_of = [each for each in KINDS if kind in find(each)]
        if len(kinds_of) > 1:
            text = f"is among {' and '.join(kinds_of)}; write rayfed list {kinds_of[0]} {kind}"
            raise ScenarioError(kind, text)
        if kinds_of:
            kind, name = kinds_of[0], kind
    if kind not in LISTED:
        every = (*LISTED, *(each for home in KINDS for each in find(home)))
        near = unknown("kind", kind, every)
        text = near if "did you mean" in near and name is None else unknown("kind", kind, LISTED)
        raise ScenarioError("", text)
    if kind == "columns":
        _list_columns(name)
        return
    if name is None:
        out.print(overview(kind))
        return
    text, settings = details(kind, name)
    out.print(text, highlight=False, markup=False)
    out.print()
    out.print(settings)


def _list_columns(name: str | None) -> None:
    from rayfed.cli.catalogue import column, columns

    if name is not None:
        out.print(column(name), highlight=False, markup=False)
        return
    for table in columns():
        out.print(table)
        out.print()


app.command()(results.report)
app.command()(results.figures)
app.command()(results.compare)
app.command()(results.export)
app.command()(results.best)


@app.command()
def schema() -> None:
    """Print the JSON schema of scenario files, so that editors complete them.

    For example in the first line of a scenario

    ```
    # yaml-language-server: $schema=rayfed.schema.json
    ```
    """
    from rayfed.study import Study

    sys.stdout.write(json.dumps(Study.json_schema(), indent=1) + "\n")


app.command()(own.test)
app.command()(own.init)


@cache
def _command() -> Callable[..., Any]:
    """Return the command line, made of the signatures of all commands once in a process."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; every error of the user's is one line."""
    signal.signal(signal.SIGTERM, _terminated)
    for stream in (sys.stdout, sys.stderr):  # names may hold what a terminal cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _command()(sys.argv[1:] or ["--help"], prog_name="rayfed", standalone_mode=False)
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "rayfed"
        _fail(f"{clipped(error.format_message().rstrip('.'), 200)}; see {command} --help", 2)
    except ScenarioError as error:
        _fail(error, 2)
    except RayfedError as error:
        _fail(error, 1)
    except MemoryError as error:  # of what no forecast knows, such as a plug-in's arrays
        why = clipped(error, 120) or "nothing more can be allocated"
        _fail(f"needs more memory than there is ({why}); use less data or a smaller model", 1)
    except Exception as error:
        if not users_frames(error):
            raise  # a bug of rayfed: show the full trace
        _fail(clipped(f"a plug-in failed: {raised(error)}"), 2)
    sys.exit(status or 0)


def _terminated(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM as Ctrl-C, also in background shells that ignore the latter."""
    interrupted = signal.getsignal(signal.SIGINT)
    stop = interrupted if callable(interrupted) else signal.default_int_handler
    stop(number, frame)


def _fail(error: object, status: int) -> NoReturn:
    say(f"rayfed: {error}", err, style="red")
    sys.exit(status or 0)
