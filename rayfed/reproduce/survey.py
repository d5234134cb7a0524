"""Surveys of all published studies: counts of claims by status, with the machine."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rayfed.core.errors import ScenarioError
from rayfed.core.files import read_json
from rayfed.core.machine import cpus
from rayfed.reproduce.provenance import here
from rayfed.reproduce.studies import Outcome, publish
from rayfed.reproduce.verdicts import Verdict

Claim: TypeAlias = dict[str, Any]
"""The result of `Verdict.as_plain`."""
SURVEY = "all.json"
"""The file of ``rayfed reproduce --all``, next to the folders of the studies."""


@dataclass(frozen=True)
class Surveyed:
    """One study of a survey.

    Parameters
    ----------
    outcome : Outcome
        Its verdicts.
    seconds : float
        Wall-clock time of its runs, kept ones included, and of its checks.
    parts : sequence of str
        The parts that were asked for.
    """

    outcome: Outcome
    seconds: float
    parts: Sequence[str]

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.outcome.study.name

    def as_plain(self) -> dict[str, Any]:
        """Return the study as plain values."""
        return self.outcome.as_plain() | {"seconds": round(self.seconds, 1)}

    @property
    def left_out(self) -> set[str]:
        """Claims that were not checked, about parts that were not asked for, by what they say."""
        needs = self.outcome.study.claims.needs
        return {
            verdict.claim.says
            for verdict in self.verdicts("not checked")
            if not needs(verdict.claim) <= {*self.parts}
        }

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
        Wall-clock time of the command so far, without kept runs.
    """

    studies: Sequence[Surveyed]
    wall_s: float

    @property
    def counts(self) -> dict[str, int]:
        """The number of claims of each status."""
        counts: dict[str, int] = totals([study.as_plain() for study in self.studies])["counts"]
        return counts

    def holds(self) -> bool:
        """Return whether every claim of every study has the expected status."""
        return all(study.outcome.holds() for study in self.studies)

    def as_plain(self) -> dict[str, Any]:
        """Return the survey as plain values."""
        plain = [study.as_plain() for study in self.studies]
        return {**_machine(), "wall_s": round(self.wall_s, 1), **totals(plain), "studies": plain}

    def write(self, folder: Path) -> Path:
        """Write ``all.json`` into a folder and return its path."""
        return publish(folder / SURVEY, self.as_plain())


def read(path: Path) -> dict[str, Any]:
    """Read a file of `Survey.write`.

    Raises
    ------
    ScenarioError
        If the file holds no survey.
    """
    try:
        found: dict[str, Any] = read_json(path)
        known = isinstance(found["studies"], list)
    except (OSError, ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise ScenarioError(str(path), f"is no {SURVEY}, which rayfed reproduce --all writes")
    return found


def update(path: Path, study: Surveyed) -> None:
    """Replace a study in a survey's file, with the machine, the versions and the day.

    Claims about the other length or another part, which did not run, stay as they are.
    """
    found, fresh = read(path), study.as_plain() | _machine()
    others = [each for each in found["studies"] if each["study"] != study.name]
    for before in found["studies"]:
        if before["study"] == study.name:
            fresh["claims"] = _updated(before["claims"], fresh["claims"], study.left_out)
            data = before.get("data", {}) | fresh["data"]
            fresh["data"] = {
                part: data[part] for part in study.outcome.study.every.parts if part in data
            }
    plain = sorted([*others, fresh], key=lambda each: str(each["study"]))
    publish(path, {**found, **totals(plain), "studies": plain})


def _updated(
    before: Sequence[Claim], fresh: Sequence[Claim], left_out: Collection[str]
) -> list[Claim]:
    """Return the new claims, with the earlier ones in place of those that did not run."""
    known = {claim["says"]: claim for claim in before}
    stays = {claim["says"] for claim in fresh if claim["status"] == "not run"} | {*left_out}
    return [
        known.get(c["says"], {**c, "status": "not run"}) if c["says"] in stays else c for c in fresh
    ]


def _machine() -> dict[str, Any]:
    """Return the versions, the machine and the day."""
    return {**here(), "cpus": cpus(), "ended": time.strftime("%Y-%m-%d", time.gmtime())}


def totals(studies: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the seconds of studies, and the number of claims of each status."""
    states = Counter(claim["status"] for study in studies for claim in study["claims"])
    return {
        "seconds": round(sum(study["seconds"] for study in studies), 1),
        "counts": dict(states),
    }
