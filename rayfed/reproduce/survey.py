"""All published studies together: how many claims hold, which do not, and why; on what machine."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rayfed.api import cpus
from rayfed.reproduce.provenance import here
from rayfed.reproduce.studies import Outcome
from rayfed.reproduce.verdicts import Verdict
from rayfed.runs.files.store import publish_text

SURVEY = "all.json"
"""What ``rayfed reproduce --all`` writes, beside the folders of the studies."""


@dataclass(frozen=True)
class Surveyed:
    """One study of a survey.

    Parameters
    ----------
    outcome : Outcome
        What came of it.
    seconds : float
        Wall-clock time of its runs, also of those that were kept, and of its checks.
    """

    outcome: Outcome
    seconds: float

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.outcome.study.name

    def verdicts(self, *states: str) -> list[Verdict]:
        """Return the verdicts of the states; see `Verdict.status`."""
        return [verdict for verdict in self.outcome.verdicts if verdict.status in states]


@dataclass(frozen=True)
class Survey:
    """All studies, in the order in which they ran.

    Parameters
    ----------
    studies : sequence of Surveyed
        The studies.
    wall_s : float
        Wall-clock time of the command so far, without what it kept.
    """

    studies: Sequence[Surveyed]
    wall_s: float

    @property
    def counts(self) -> Counter[str]:
        """How many claims have which status."""
        return Counter(v.status for study in self.studies for v in study.outcome.verdicts)

    @property
    def seconds(self) -> float:
        """The time of all studies."""
        return sum(study.seconds for study in self.studies)

    def holds(self) -> bool:
        """Return whether every claim of every study stands as its file expects."""
        return all(study.outcome.holds() for study in self.studies)

    def as_plain(self) -> dict[str, Any]:
        """Return the survey as plain values."""
        plain = [
            study.outcome.as_plain() | {"seconds": round(study.seconds, 1)}
            for study in self.studies
        ]
        return {
            **here(), "cpus": cpus(), "ended": time.strftime("%Y-%m-%d", time.gmtime()),
            "wall_s": round(self.wall_s, 1), "seconds": round(self.seconds, 1),
            "counts": dict(self.counts), "studies": plain,
        }  # fmt: skip

    def write(self, folder: Path) -> Path:
        """Write ``all.json`` into a folder and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / SURVEY
        publish_text(path, json.dumps(self.as_plain(), indent=1, ensure_ascii=False) + "\n")
        return path
