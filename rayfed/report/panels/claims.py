"""Claims of a published study, as ``rayfed reproduce`` found them to hold or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rayfed.core.files import read_json, reading
from rayfed.report.panels.base import Panel, Section

FILE = "claims.json"
_ANSWERS = {"holds": "yes", "fails": "no"}


def read(folder: Path) -> dict[str, Any] | None:
    """Return what ``claims.json`` of a result folder holds; None where there is none.

    Raises
    ------
    ScenarioError
        If it cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    with reading(path, "verdicts", "was it edited?"):
        verdicts = read_json(path)
    return verdicts if isinstance(verdicts, dict) and verdicts.get("claims") else None


def title(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return how many claims hold.

    Examples
    --------
    >>> title([{"status": "holds"}, {"status": "fails"}, {"status": "holds"}])
    '2 of 3 claims of the source hold; failing: 1'
    """
    states = [claim["status"] for claim in claims]
    others = {"fails": "failing", "not reproduced": "not reproduced", "not checked": "not checked",
              "not run": "of the other length"}  # fmt: skip
    counts = [f"{words}: {states.count(s)}" for s, words in others.items() if s in states]
    return "; ".join(
        [f"{states.count('holds')} of {len(states)} claims of the source hold", *counts]
    )


def _holds(claim: Mapping[str, Any]) -> str:
    answer = _ANSWERS.get(claim["status"], claim["status"])
    return f"{answer}: {claim['remark']}" if claim.get("remark") else str(answer)


class ClaimsPanel(Panel):
    """What the source says, what was measured, and whether it holds."""

    name: ClassVar[str] = "claims"
    section = Section.SOURCE
    rank = 0

    @cached_property
    def verdicts(self) -> dict[str, Any] | None:
        """What ``claims.json`` holds; None of several folders."""
        return None if self.results.compared else read(self.results.folder)

    @property
    def applies(self) -> bool:
        """Whether claims were checked."""
        return self.verdicts is not None

    @property
    def title(self) -> str:
        """How many claims hold."""
        assert self.verdicts is not None
        return title(self.verdicts["claims"])

    @property
    def short(self) -> bool:
        """Whether runs were shorter than the source's."""
        return self.verdicts is not None and self.verdicts.get("length") == "short"

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """For each claim what the source says, whether it holds, what was measured, and where."""
        assert self.verdicts is not None
        claims = self.verdicts["claims"]
        return [(c["says"], _holds(c), c["measured"], c["where"]) for c in claims]
