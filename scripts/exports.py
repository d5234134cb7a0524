"""Write down, for editors and type checkers, which classes the modules of plug-ins have.

``rayfed.algorithms.FedAvg`` and ``rayfed.partitions.Dirichlet`` are found when they are asked for,
by a search of the folders. An editor cannot search, so the end of each of these modules lists them
for it::

    python -m scripts.exports   # after a plug-in was added: make exports

What is not listed is found nevertheless.
"""

from __future__ import annotations

import re
from pathlib import Path

from rayfed.core.plugins import KINDS, classes

ROOT = Path(__file__).parents[1]
MARK = "if TYPE_CHECKING:  # for editors: `make exports` writes it"
_IMPORTS = """

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported
"""


def module(kind: str) -> Path:
    """Return the file that has the classes of a kind: a module of its name, or its package."""
    package = ROOT / "rayfed" / kind / "__init__.py"
    return package if package.exists() else ROOT / "rayfed" / f"{kind}.py"


def text(kind: str) -> str:
    """Return what is in the file of a kind, with the classes that there are now."""
    head = module(kind).read_text("utf-8").partition(MARK)[0].rstrip()
    if "exported" not in head:
        head = re.sub(r'(?<=""")$', _IMPORTS.rstrip(), head, count=1)
    found = sorted(
        classes(kind).items(), key=lambda item: (item[1], not item[0].isupper(), item[0].lower())
    )
    lines = [f"    from {home} import {cls} as {cls}" for cls, home in found]
    return "\n".join(
        [head, "", MARK, *lines, "else:", f'    __getattr__, __dir__ = exported("{kind}")', ""]
    )


def main() -> None:
    """Write the files of all kinds."""
    for kind in KINDS:
        module(kind).write_text(text(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
