"""The commands that steer a study: `stop` and `extend`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from rayfed.cli.arguments import Folder, NoPage, Overrides, Trust, local
from rayfed.cli.console import say
from rayfed.cli.runs import resume
from rayfed.cli.volume import Quiet, Verbose
from rayfed.core.errors import ScenarioError, many


def stop(
    folder: Annotated[Path, typer.Argument(help="A result folder.", metavar="DIR", parser=local)],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Runs, such as FedAvg-seed0; all if not given."),
    ] = None,
) -> None:
    """Ask a study that runs elsewhere to stop, or some of its runs.

    A run that stops writes a checkpoint after its current round; rayfed resume goes on with it to
    the same bytes. The study's other runs go on. Without RUN all stop, and none begins any more.
    """
    from rayfed import api

    asked = api.stop(folder, runs or ())
    what = ", ".join(asked) if runs else f"what goes on, {many(len(asked), 'run')}"
    say(f"asked to stop: {what}; go on by: rayfed resume {shlex.quote(str(folder))}")


def extend(
    folder: Folder,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of each run from now on.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Further seeds, such as 3,4.")
    ] = None,
    set_: Overrides = None,
    trust: Trust = False,
    no_page: NoPage = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Ask more of a study that has ended or was stopped, and go on with it.

    It records, byte for byte, what a study does that asked for all of it at once. history.jsonl in
    the folder notes what was asked, and when.

    Exit status: as of rayfed resume.
    """
    from rayfed import api

    api.extend(folder, rounds=rounds, seeds=_seeds(seeds), overrides=set_ or (), trust=trust)
    resume(folder, trust=trust, no_page=no_page, quiet=quiet, verbose=verbose)


def _seeds(text: str | None) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")] if text else []
    except ValueError:
        raise ScenarioError("--seeds", f"found '{text}'; give numbers, such as 3,4") from None
