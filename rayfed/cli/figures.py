"""The command `figures`: figures and tables of a result folder as files."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from rayfed.cli.arguments import Folder, local, returned
from rayfed.cli.console import err, say


def figures(
    folder: Folder,
    for_: Annotated[
        Literal["paper"],
        typer.Option("--for", help="Where they go; sizes and fonts are made for it."),
    ] = "paper",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Where to; DIR/paper if not given.", parser=local
        ),
    ] = None,
    what: Annotated[
        list[str] | None,
        typer.Option(
            "--what",
            metavar="FIGURE[:OPTION=VALUE,...]",
            help="A figure, such as convergence:x=time_s,y=accuracy or timeline:name=FedAvg,seed=1,"
            " or table-costs or table-finals. May be repeated. Without, all that the study has.",
        ),
    ] = None,
) -> None:
    """Write the figures and tables of a result folder for a paper.

    Figures are those of the page, always light, as PDF and SVG: <figure>-column is 3.3 in wide, for
    a column, and <figure>-full 7 in, for a page; letters are 8 pt high in both, so include them
    without scaling. Tables are .tex files for the LaTeX package booktabs: table-costs (what it took
    to reach the target) and table-finals (the values in the end).

    Needs kaleido and Chromium or Chrome; where one is missing it says how to install it. Nothing is
    taken from the network.
    """
    from rayfed.api import load

    result = load(folder)
    place = folder / for_ if out is None else out
    with (
        returned(folder) if out is None else nullcontext(),
        err.status("drawing; half a second a file"),
    ):
        paths = result.save_figures(place, what or ())
    for path in paths:
        say(str(path))
