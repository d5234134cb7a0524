"""Everything that the generators of the documentation import from rayfed, in one place."""

from __future__ import annotations

from pathlib import Path

import rayfed
from rayfed import plugins
from rayfed.algorithms import base as messages
from rayfed.cli import app as commands
from rayfed.study import Study, load
from rayfed.study.claims import SUFFIX, Claims, load_claims

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
