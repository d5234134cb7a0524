"""What came of the claims of a published study, as a section of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.report.page import markup

FILE = "claims.json"
_SAID = {"holds": "yes", "fails": "no"}


def read(folder: Path) -> dict[str, Any] | None:
    """Return what ``claims.json`` of a result folder tells; None where there is none.

    Raises
    ------
    ScenarioError
        If it cannot be read.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(str(path), f"cannot be read ({error}); was it edited?") from error
    return told if isinstance(told, dict) and told.get("claims") else None


def section(told: Mapping[str, Any]) -> str:
    """Return the claims as HTML: what the source says, what was measured, whether it holds."""
    heads = ("the source says", "holds", "measured", "where")
    rows = [(c["says"], _holds(c), c["measured"], c["where"]) for c in told["claims"]]
    how = f"Source: {escape(str(told['source']))}."
    if told.get("length") == "short":
        how += " Runs of the source's full length, where they are longer, come with --full."
    return (
        f"<h2>{escape(title(told['claims']))}</h2>"
        f'<p class="how">{how}</p>{markup.plain_table(heads, rows, "claims")}'
    )


def title(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return how many claims hold.

    Examples
    --------
    >>> title([{"status": "holds"}, {"status": "fails"}, {"status": "holds"}])
    '2 of 3 claims of the source hold; failing: 1'
    """
    states = [claim["status"] for claim in claims]
    others = {"fails": "failing", "not reproduced": "not reproduced", "not checked": "not checked"}
    counts = [f"{words}: {states.count(s)}" for s, words in others.items() if s in states]
    return "; ".join(
        [f"{states.count('holds')} of {len(states)} claims of the source hold", *counts]
    )


def _holds(claim: Mapping[str, Any]) -> str:
    said = _SAID.get(claim["status"], claim["status"])
    return f"{said}: {claim['remark']}" if claim.get("remark") else said
