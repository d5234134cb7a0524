"""Checks of panels of the page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from rayfed.api import run
from rayfed.report.page.report import content
from rayfed.report.panels.base import PageSource, Panel
from rayfed.report.read.results import Results
from rayfed.testing.checks.common import Skipped, require
from rayfed.testing.studies import mixed

EXEMPT = ("check_frozen",)
"""Checks of all plug-ins that are none of panels, which have no settings."""


@dataclass(frozen=True)
class _Folders:
    """A study that ran, and one that has only begun; both go with `held`."""

    held: TemporaryDirectory[str]
    finished: Path
    begun: Path


@cache
def _folders() -> _Folders:
    held = TemporaryDirectory()
    finished, begun = Path(held.name, "finished"), Path(held.name, "begun")
    algorithms = [
        {"name": name, "local": {"steps": 5, "batch": 4}} for name in ("fedavg", "fedexp")
    ]
    run(mixed(algorithms=algorithms, seeds=[0, 1], rounds=6), out=finished, page=False, watch=False)
    (begun / "fedavg-seed0").mkdir(parents=True)
    (begun / "fedavg-seed0" / "run.json").write_text('{"label": "fedavg", "status": "running"}')
    return _Folders(held, finished, begun)


def check_place(cls: type[Panel], folder: Path) -> None:
    """Check that it has a name that can be an anchor, and a place on the page."""
    require(re.fullmatch(r"[a-z][a-z0-9-]*", cls.name), f"'{cls.name}' cannot be an anchor")
    require(isinstance(cls.section, str) and cls.section, f"{cls.name} has no section")
    require(isinstance(cls.rank, int | float), f"the rank of {cls.name} is no number")


def check_drawn(cls: type[Panel], folder: Path) -> None:
    """Check that it is on the page of a study, where it applies, with values that JSON can hold."""
    results = Results.read(_folders().finished)
    panel = cls(PageSource.of(results))
    if not panel.applies:
        raise Skipped("the study of this check has nothing for it")
    require(panel.render().strip(), f"{cls.name} shows nothing")
    text = json.dumps(panel.payload, allow_nan=False)
    again = json.dumps(
        cls(PageSource.of(Results.read(_folders().finished))).payload, allow_nan=False
    )
    require(text == again, f"{cls.name} is another one when it is made again")
    _on_page(cls, results)


def check_begun(cls: type[Panel], folder: Path) -> None:
    """Check that a study which has recorded nothing yet has a page."""
    _on_page(cls, Results.read(_folders().begun))


def _on_page(cls: type[Panel], results: Results) -> None:
    source = PageSource.of(results)
    shown = cls.name in content(source, [cls])["payload"]["panels"]
    require(shown == cls(source).applies, f"{cls.name} is not where it applies")
