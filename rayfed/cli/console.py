"""The consoles that the commands print on."""

from __future__ import annotations

from rich.console import Console

out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


def say(line: str, console: Console = out, style: str | None = None) -> None:
    """Print a line as it is: neither wrapped nor read as markup."""
    console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)
