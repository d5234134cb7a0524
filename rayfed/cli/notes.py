"""The commands `studies` and `note`: results with their notes and tags."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

import typer

from rayfed.cli import tables
from rayfed.cli.arguments import Folder, Folders, folders_of, returned
from rayfed.cli.console import out, say


def studies(
    folders: Folders = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only studies with this tag. May be repeated."),
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="List archived studies, too.")
    ] = False,
) -> None:
    """List all studies below some folders with date, duration, tags and notes."""
    from rayfed.dashboard.catalogue import Catalogue
    from rayfed.dashboard.overview import Goal, Layout, Overview

    catalogue = Catalogue(folders_of(folders))
    catalogue.look()
    found = Overview.of(catalogue, time.time(), Goal(), Layout(archived=archived))
    wanted = set(tag or ())
    rows = [row for row in found.studies if wanted <= {*row.study.notes.tags}]
    if not rows:
        say(f"no study with {' and '.join(sorted(wanted))}" if wanted else found.sentence)
        return
    out.print(tables.overview(rows))


def note(
    folder: Folder,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Replaces the notes; '' removes them.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Add a tag. May be repeated."),
    ] = None,
    untag: Annotated[
        list[str] | None,
        typer.Option("--untag", metavar="TAG", help="Remove a tag. May be repeated."),
    ] = None,
    archive: Annotated[
        bool | None,
        typer.Option("--archive/--restore", help="Leave the study out of lists, or list it again."),
    ] = None,
) -> None:
    """Print the notes and tags of a study, or change them.

    They are in notes.json in the result folder; the dashboard shows and edits the same ones.
    """
    from rayfed.core.notes import Notes
    from rayfed.runs.files.folder import usable  # imported late, as it imports NumPy
    from rayfed.runs.files.outcome import outcomes

    outcomes(folder)
    before = Notes.read(folder)
    made = Notes.of(before.text if text is None else text, [*before.tags, *(tag or ())])
    made = replace(
        made,
        tags=tuple(each for each in made.tags if each not in (untag or ())),
        archived=before.archived if archive is None else archive,
    )
    if made != before:
        with returned(folder), usable(folder):
            made.write(folder)
    for line in (made.text, " ".join(made.tags), "archived" if made.archived else ""):
        if line:
            say(line)
