"""Claims of the source, checked against the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from rayfed.core.files import read_json, reading
from rayfed.report.panels.base import Panel, Section

CLAIMS = "claims.json"
_KEYS = ("status", "says", "measured", "where")
_ANSWERS = {"holds": "yes", "fails": "no"}
_COUNTED = {
    "undecided": "undecided", "fails": "failing", "not reproduced": "not reproduced",
    "not checked": "not checked", "not run": "of the other length",
}  # fmt: skip


def claims_of(folder: Path) -> dict[str, Any]:
    """Return the content of ``claims.json`` of a result folder; empty without claims.

    Raises
    ------
    ScenarioError
        If it cannot be read.
    """
    path = folder / CLAIMS
    if not path.is_file():
        return {}
    with reading(path, "verdicts", "was it edited?"):
        verdicts = read_json(path, results=True)
        if not isinstance(verdicts, dict) or not verdicts.get("claims"):
            return {}
        for claim in verdicts["claims"]:
            missing = [key for key in _KEYS if not isinstance(claim[key], str)]
            if missing:
                raise TypeError(f"a claim's {', '.join(missing)} is no text")
        str(verdicts["source"])
    return verdicts


def claims_title(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of claims that hold.

    Examples
    --------
    >>> claims_title([{"status": "holds"}, {"status": "fails"}, {"status": "holds"}])
    '2 of 3 claims of the source hold; failing: 1'
    """
    counts = Counter(claim["status"] for claim in claims)
    title = f"{counts['holds']} of {len(claims)} claims of the source hold"
    others = [f"{words}: {counts[state]}" for state, words in _COUNTED.items() if counts[state]]
    return "; ".join([title, *others])


def _state(claim: Mapping[str, Any]) -> str:
    answer = _ANSWERS.get(claim["status"], str(claim["status"]))
    return f"{answer}: {claim['remark']}" if claim.get("remark") else answer


class ClaimsPanel(Panel):
    """Claims of the source, measured values, and states."""

    name: ClassVar[str] = "claims"
    section = Section.SOURCE
    rank = 0

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """The content of ``claims.json``; empty for several folders."""
        return {} if self.results.compared else claims_of(self.results.folder)

    @property
    def applies(self) -> bool:
        """Whether claims were checked."""
        return bool(self.verdicts)

    @property
    def title(self) -> str:
        """Number of claims that hold."""
        return claims_title(self.verdicts["claims"])

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """The text of each claim, its state, the measured value, and its place in the source."""
        claims = self.verdicts["claims"]
        return [(c["says"], _state(c), c["measured"], c["where"]) for c in claims]
