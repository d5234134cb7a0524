"""Everything that the generators of the documentation import from rayfed, in one place."""

from __future__ import annotations

from pathlib import Path

import rayfed
from rayfed import messages
from rayfed.cli.main import app as commands
from rayfed.core import plugins
from rayfed.reproduce.claims import SUFFIX, Claims, load_claims
from rayfed.study import Study, load

__all__ = [
    "SUFFIX",
    "Claims",
    "Study",
    "commands",
    "load",
    "load_claims",
    "messages",
    "plugins",
    "public",
    "scenarios",
]

public: tuple[str, ...] = tuple(rayfed.__all__)
"""The public names of the package."""


def scenarios() -> Path:
    """Return the folder of the published studies."""
    return Path(__file__).parents[2] / "scenarios"
