"""Optional dependencies of rayfed, by the extras of its distribution."""

from __future__ import annotations

import re
import shlex
from importlib import metadata

DISTRIBUTION = "rayfed-sim"
"""Name under which rayfed is installed; another project's distributions are named after RayFed."""


def install(extra: str) -> str:
    """Return the shell command that installs the packages of an extra.

    It names the packages, not the extra, so that it works for a checkout and for a wheel.

    Examples
    --------
    >>> install("images")
    "pip install 'pillow>=10.1'"
    """
    found = metadata.requires(DISTRIBUTION) or ()
    mark = re.compile(rf"""(.+?) *; *extra *== *['"]{extra}['"]""")
    wanted = [match[1] for match in map(mark.fullmatch, found) if match]
    return shlex.join(["pip", "install", *wanted])
