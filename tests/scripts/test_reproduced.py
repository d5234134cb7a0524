"""What the table of reproduced claims says is what their files say, and its marks can fail."""

import json
import math
import re

import pytest

from rayfed.reproduce.claims import SUFFIX, Mark, load_claims
from rayfed.reproduce.survey import totals
from scripts.reproduced import FILE, ROOT, renewed

FILES = {
    path.name.removesuffix(SUFFIX): path for path in sorted((ROOT / "scenarios").glob(f"*{SUFFIX}"))
}
SURVEY = json.loads(FILE.read_text(encoding="utf-8"))
STUDIES = {study["study"]: study for study in SURVEY["studies"]}


@pytest.fixture(scope="module")
def claims():
    return {name: load_claims(path) for name, path in FILES.items()}


def test_every_study_is_in_the_table():
    assert list(STUDIES) == sorted(FILES)
    assert totals(SURVEY["studies"]) == {key: SURVEY[key] for key in ("seconds", "counts")}


@pytest.mark.parametrize("name", FILES)
def test_the_table_says_what_the_claims_say(name, claims):
    """Where words alone were changed, ``python -m scripts.reproduced`` writes it anew."""
    fresh = json.loads(json.dumps(renewed(STUDIES[name], claims[name])))
    assert fresh["source"] == STUDIES[name]["source"]
    assert fresh["claims"] == STUDIES[name]["claims"]
    states = {"holds", "undecided", "not reproduced", "not run"}
    assert {claim["status"] for claim in fresh["claims"]} <= states


@pytest.mark.parametrize("name", FILES)
def test_reasons_quote_measured_numbers_by_their_place(name, claims):
    """Numbers of three digits and more that are written out go stale: {0:.3f} does not."""
    measured = {claim["says"]: claim["values"] for claim in STUDIES[name]["claims"]}
    for claim in claims[name].claims:
        written = re.findall(r"(?<![\w.])\d*\.?\d+", claim.because or "")
        for text in (text for text in written if len(text.replace(".", "").lstrip("0")) > 2):
            places = len(text.partition(".")[2])
            same = [x for x in measured[claim.says] if x != "never" and f"{x:.{places}f}" == text]
            assert not same, f"{claim.says} {text}"


def room(claim):
    """Return how far measured numbers are from what is claimed, or from each other in an order."""
    check, numbers = claim.check, finite(claim.measured)
    bounds = (check.below, check.above, *(check.between or ()))
    wanted = [bound for bound in bounds if bound is not None]
    if check.equals is not None:
        wanted = (
            list(check.equals) if isinstance(check.equals, tuple) else [check.equals] * len(numbers)
        )
        return max(abs(x - y) for x, y in zip(numbers, wanted, strict=True))
    if wanted:
        return max(min(abs(x - bound) for bound in wanted) for x in numbers)
    return max(numbers) - min(numbers) if len(numbers) > 1 else math.inf  # the other is "never"


def finite(mark: Mark):
    """Return the numbers of a mark that are no "never"; none of one that diverges."""
    return [] if mark.equals == "diverges" else [x for x in mark.numbers if math.isfinite(x)]


def slack(mark: Mark):
    """Return how far a mark lets its largest number move."""
    largest = max(map(abs, finite(mark)))
    if mark.factor is not None:
        return largest * (1 - 1 / mark.factor)
    return mark.absolute if mark.absolute is not None else mark.within * largest


@pytest.mark.parametrize("name", FILES)
def test_a_mark_allows_less_than_what_it_is_about(name, claims):
    for claim in claims[name].claims:
        if claim.measured is not None and finite(claim.measured):
            nearest = min(room(claim), max(map(abs, finite(claim.measured))))
            assert slack(claim.measured) < nearest, claim.says
