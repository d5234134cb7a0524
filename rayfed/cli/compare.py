"""The command `compare`: one page over several result folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayfed.cli.arguments import OwnPanels, local, local_copy
from rayfed.cli.console import err, out, say


def compare(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="DIR DIR...", help="Result folders or their URLs, two or more."),
    ],
    panel: OwnPanels,
    page: Annotated[
        Path,
        typer.Option("--out", metavar="PAGE", help="The page, such as page.html.", parser=local),
    ] = Path("compare.html"),
) -> None:
    """Write one page over several result folders, and print the comparison.

    The page is that of a study. Runs are told apart by the settings that differ between the
    folders, such as "FedAvg (lr=0.1)", or by the folders' names where many differ; a table at the
    end lists all that differ. Runs that differ in nothing but the seed become seeds of one
    algorithm. Where the folders solve different problems the page says so and names no winner. Of a
    sweep the best trial of each algorithm is shown.
    """
    from rayfed.cli import tables
    from rayfed.report.page.compare import compare as write
    from rayfed.report.panels.base import PageSource

    results = write([local_copy(folder) for folder in folders], page, panel)
    out.print(tables.compared(results))
    if results.unlike:
        say(f"warning: {results.unlike}", err, style="yellow")
    else:
        say(PageSource.of(results).answer)
    say(f"page: {page}")
