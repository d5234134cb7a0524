"""Everything that the generators of the documentation import from rayfed, in one place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rayfed
from rayfed import messages, run
from rayfed.cli.main import app as commands
from rayfed.core import plugins
from rayfed.core.yamlfile import MOST_VALUES
from rayfed.reproduce.claims import SUFFIX, Claims, load_claims
from rayfed.study import Study, load
from rayfed.study.forecast.checks import MOST_STEPS
from rayfed.study.scenario.fields import LARGEST, LARGEST_SEED, LONGEST_S
from rayfed.study.scenario.study import MOST_RUNS

__all__ = [
    "LARGEST",
    "LARGEST_SEED",
    "LONGEST_S",
    "MOST_RUNS",
    "MOST_STEPS",
    "MOST_VALUES",
    "SUFFIX",
    "Claims",
    "Study",
    "commands",
    "load",
    "load_claims",
    "messages",
    "package",
    "plugins",
    "public",
    "run",
    "scenarios",
    "surveyed",
]

public: tuple[str, ...] = tuple(rayfed.__all__)
"""The public names of the package."""


def surveyed() -> dict[str, Any]:
    """Return what ``reproduce --all`` wrote last, from ``reproduced.json``; empty without one."""
    path = Path(__file__).parents[1] / "reproduced.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def package() -> Path:
    """Return the folder of the package."""
    return Path(rayfed.__file__).parent


def scenarios() -> Path:
    """Return the folder of the published studies."""
    return Path(__file__).parents[2] / "scenarios"
