"""The command `dashboard`: the page, live, over many studies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rayfed.cli.arguments import Folders, OwnPanels, folders_of
from rayfed.cli.console import say


def dashboard(
    panel: OwnPanels,
    folders: Folders = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8270,
    host: Annotated[
        str,
        typer.Option(
            help="Where it listens; others than this machine reach it unless that is a loopback "
            "address."
        ),
    ] = "127.0.0.1",
    control: Annotated[
        bool,
        typer.Option(
            "--control",
            help="Let the browser stop, resume and extend studies, edit their notes, archive and "
            "delete them.",
        ),
    ] = False,
    token: Annotated[
        bool,
        typer.Option(
            "--token/--no-token",
            help="Whether reading needs the token of the address that is printed. Without it every "
            "user of this machine reads your results.",
        ),
    ] = True,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """Show all studies below some folders in a browser, also while they run.

    The overview lists every run with its progress; ticked runs are compared on the panels of the
    page, which grow with the rows that are written. Every view has an address that opens it again.
    It is read-only without --control. Ctrl-C ends it; studies continue.
    """
    from rayfed.dashboard import serve

    serve(
        folders_of(folders), host=host, port=port, control=control, token=token, panels=panel,
        log=say, browse=open_,
    )  # fmt: skip


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Serve the dashboard of a result folder in a process of its own meanwhile."""
    from rayfed.dashboard import check_needed

    check_needed()
    with subprocess.Popen(
        # -P: a folder named rayfed in the current one is not taken for the library
        [sys.executable, "-P", "-m", "rayfed", "dashboard", str(folder), "--port", "0"],
        stdin=subprocess.DEVNULL, start_new_session=True,
    ) as server:  # fmt: skip
        try:
            yield
        finally:
            server.terminate()
