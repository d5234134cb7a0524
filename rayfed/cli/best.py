"""The command `best`, and what it prints at the end of a sweep."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from rayfed.cli import tables
from rayfed.cli.arguments import Folder, returned
from rayfed.cli.console import err, out, say
from rayfed.core.errors import listed, many
from rayfed.runs.files.outcome import damaged
from rayfed.runs.files.place import shown


def best(
    folder: Folder,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What is compared, such as accuracy. If not given, the first that was recorded of "
            "validation_loss (problem.validation), loss_gap and loss.",
        ),
    ] = None,
    at: Annotated[
        int | None, typer.Option(metavar="ROUND", min=0, help="Compared there; at the end if not.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=NUMBER",
            help="The fewest rounds to this value are best, for example loss_gap=1e-6.",
        ),
    ] = None,
) -> None:
    """Print the best setting of every algorithm, and write them down as a scenario.

    For a study that sweeps settings by grid: or search:, or lists an algorithm several times.
    Values are means over seeds; a setting of which a run failed never wins. Within noise of the
    winner are settings with a seed as good as the winner's worst. Test values are printed of
    winners alone, and only where they were chosen by other rows. best.yaml, in the same folder,
    holds the winners and can be run; best.csv the table.

    Exit status: 0, or 1 if every setting of every algorithm failed.
    """
    from rayfed import api

    missing = api.unfinished(folder) if (folder / "scenario.yaml").is_file() else []
    missing = [run for run in missing if not damaged(folder, [run])]  # those have their own line
    if missing:
        again = f"rayfed resume {shlex.quote(shown(folder))}"
        text = f"{many(len(missing), 'run')} not ended ({listed(missing)}); go on by: {again}"
        say(f"warning: this study is unfinished: {text}", err, style="yellow")
    with returned(folder):
        choice = print_best(folder, by, at, target)
    raise typer.Exit(1 if all(winner.best.failed for winner in choice.winners) else 0)


def print_best(
    folder: Path, by: str | None = None, at: int | None = None, target: str | None = None
) -> Any:
    """Print the best setting of every algorithm, write them down, and return them."""
    from rayfed.report.best import Aim, Best
    from rayfed.report.read.results import Results

    results = Results.read(folder)
    for run in results.damaged:
        say(f"warning: {run.folder.name}: {run.info['reason']}", err, style="yellow")
    choice = Best(results, Aim.of(results, by, at, target))
    table, settings = tables.best(choice, out.width)
    out.print(table)
    for line in (*settings, *choice.says):
        say(line)
    for path in choice.write():
        say(f"run it by: rayfed run {shlex.quote(str(path))}")
    return choice
