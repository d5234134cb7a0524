"""What `docs/reproduced.json` says of claims, from the files of the claims and the numbers in it.

``python -m scripts.reproduced`` writes words and verdicts anew where claims files were changed:
reasons, marks, bounds. A claim that reads other values than before must be run again, by ``rayfed
reproduce NAME --update docs/reproduced.json``.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rayfed.reproduce.claims import Claim, Claims, Length, load_claims
from rayfed.reproduce.studies import publish
from rayfed.reproduce.survey import read, totals
from rayfed.reproduce.verdicts import NEVER, Verdict, claimed, compare, text

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "reproduced.json"
READ = ("value", "descending", "ascending", "diverges")
"""Keys of a check that say what it reads."""


def renewed(study: dict[str, Any], claims: Claims) -> dict[str, Any]:
    """Return a study of the survey with the words of its claims file, judged by it.

    Raises
    ------
    ValueError
        If a claim was never run, or reads other values than those that were recorded.
    """
    known = {claim["says"]: claim for claim in study["claims"]}
    plain = []
    for claim in claims.claims:
        claim = claim.model_copy(update={"part": claims.part_of(claim)})
        before = known.get(claim.says)
        if before is None or before["status"] == "not run":
            plain.append(_not_run(claim, claims, study["length"], study["data"]))
        else:
            plain.append(_renewed(claim, before))
    return study | {"source": claims.source, "claims": plain}


def _not_run(claim: Claim, claims: Claims, length: Length, ran: Collection[str]) -> dict[str, Any]:
    """Return a claim about the other length, or about parts without a record."""
    why = f"is about runs of {'full' if length == 'short' else 'short'} length"
    if claims.counts(claim, length):
        lacking = sorted(claims.needs(claim) - {*ran})
        if not lacking:
            raise ValueError(f"was never run: {claim.says}")
        why = "; ".join(f"part {part} was not run" for part in lacking)
    return Verdict(claim, None, why, ran=False).as_plain()


def _renewed(claim: Claim, before: dict[str, Any]) -> dict[str, Any]:
    values = numbers(before["values"])
    if not values:
        holds, measured = before["holds"], before["measured"]
    else:
        holds, measured = compare(claim.check, values), text(values) + claimed(claim.check)
    each = {
        int(seed): (compare(claim.check, numbers(own)) if own else holds, numbers(own))
        for seed, own in before["each"].items()
    }
    fresh = Verdict(
        claim, holds, measured, values, each, rests_on=tuple(before["rests_on"])
    ).as_plain()
    if any(
        before["check"].get(key) != json.loads(json.dumps(fresh["check"].get(key))) for key in READ
    ):
        raise ValueError(f"reads other values than were recorded: {claim.says}")
    return fresh


def numbers(plain: list[float | str]) -> tuple[float, ...]:
    """Return recorded numbers; "never" is infinite."""
    return tuple(NEVER if value == "never" else float(value) for value in plain)


def main() -> None:
    """Write the file anew."""
    survey = read(FILE)
    studies = [
        renewed(study, load_claims(ROOT / "scenarios" / f"{study['study']}.claims.yaml"))
        for study in survey["studies"]
    ]
    publish(FILE, {**survey, **totals(studies), "studies": studies})


if __name__ == "__main__":
    main()
