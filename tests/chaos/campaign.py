"""What many cases sum up to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.case import Outcome

_MOST_REASONS = 10


@dataclass
class Campaign:
    """The counts and the findings of many cases.

    Parameters
    ----------
    first : int
        Seed of the first case; the others follow it.
    cases, runs : int
        Cases, and undisturbed runs of those that `check` accepted.
    verdicts, endings, refusals, faults : dict of str to int
        What `check` said, how runs ended, why scenarios were refused, which faults happened.
    findings : list of dict
        Of each its seed, its name and what was found.
    longest : list of (seconds, seed)
        The longest case.
    seconds : float
        Wall-clock seconds of all.
    """

    first: int
    cases: int = 0
    runs: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    longest: tuple[float, int] = (0.0, 0)
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.cases += 1
        self.runs += sum(outcome.runs.values())
        self.verdicts[outcome.verdict] += 1
        self.endings.update(outcome.runs)
        self.refusals.update([outcome.reason] if outcome.reason else [])
        self.faults.update(outcome.faults)
        self.longest = max(self.longest, (round(outcome.seconds, 2), outcome.seed))
        self.findings += [
            {"seed": outcome.seed, "name": name, "text": text} for name, text in outcome.findings
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it."""
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }

    def summary(self) -> str:
        """Return the counts as a few lines."""
        last = self.first + self.cases - 1
        lines = [
            f"{self.cases} cases, seeds {self.first} to {last}, {self.seconds:.0f} s, "
            f"longest {self.longest[0]:.1f} s (seed {self.longest[1]})",
            f"scenarios: {_listed(self.verdicts)}",
            f"runs: {_listed(self.endings)}",
            f"faults: {sum(self.faults.values())} ({_listed(self.faults)})",
            f"refused in {len(self.refusals)} ways, most often:",
            *(f"  {n:5d}  {why}" for why, n in self.refusals.most_common(_MOST_REASONS)),
            f"findings: {len(self.findings)}",
        ]
        return "\n".join(lines)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.most_common()) or "none"
