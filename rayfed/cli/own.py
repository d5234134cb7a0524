"""Commands for what users write themselves: `test` checks it, `init` begins it."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from rayfed.cli.console import err, say
from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.plugins import ALL_KINDS, base, load, places

_OUR_OWN = ("check_paper", "check_documented")
"""Checks of how plug-ins of rayfed are written; of a user's they are advice."""


def test(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CLASS", help="A class of yours, such as mine:SignAvg in mine.py."
        ),
    ],
) -> None:
    """Check an algorithm, a problem, a delay or another plug-in of your own.

    These are the checks that rayfed's own plug-ins pass: an algorithm runs on small problems in
    stacks of 1 and 7 clients with the same bits, is stopped and resumed, learns, changes nothing
    in place and sends what it declares; gradients of a problem agree with differences; draws depend
    on the seed alone.

    Exit status: 0 if all pass, 1 if one does not, 2 if there is no such class.
    """
    from rayfed.testing.checks import Skipped, checks

    cls = load(plugin)
    kind = _kind(plugin, cls)
    failed = 0
    for name, check in checks(kind).items():
        words = name.removeprefix("check_").replace("_", " ")
        about = clipped((check.__doc__ or "").partition("\n")[0].removeprefix("Check "), 90)
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(cls, Path(folder))
            except Skipped as reason:
                say(f"  left out  {words}: {reason}")
            except Exception as error:
                advice = name in _OUR_OWN
                say(f"  {'advice ' if advice else 'FAILED '}   {words}: {about}")
                say(f"            {_reason(error)}", err, style="yellow" if advice else "red")
                failed += not advice
            else:
                say(f"  ok        {words}: {about}")
    say(f"{plugin}: {failed} checks failed" if failed else f"{plugin}: all checks passed")
    raise typer.Exit(1 if failed else 0)


def _kind(plugin: str, cls: Any) -> str:
    """Return the kind of a plug-in class."""
    kinds = [kind for kind in ALL_KINDS if isinstance(cls, type) and issubclass(cls, base(kind))]
    if not kinds:
        bases = ", ".join(base(kind).__name__ for kind in ALL_KINDS)
        raise ScenarioError(plugin, f"is no subclass of one of {bases}")
    return kinds[0]


def _reason(error: Exception) -> str:
    """Return what a check found in one line, with the user's lines where their code raised."""
    if isinstance(error, (AssertionError, RayfedError)):
        return clipped(error)
    line = traceback.format_exception_only(error)[-1].strip()
    return clipped(line, 300) + places(error)
