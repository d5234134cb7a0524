"""What a claims file may hold; what is wrong with one is one line with the file and the place."""

import copy

import pytest
import yaml

from rayfed.core.errors import ScenarioError
from rayfed.reproduce.claims import Claims, load_claims, runs_of

LOSS = {"column": "loss", "of": "A", "at": "last"}
RAW = {
    "source": "Authors, title, 2024",
    "parts": {"main": {"about": "All."}, "long": {"about": "More.", "only": "full"}},
    "claims": [
        {"says": "A ends below 1.", "where": "table 1", "check": {"value": LOSS, "below": 1}},
    ],
}


@pytest.fixture
def refused(tmp_path):
    """Return a function that puts a check in the file and returns the error of reading it."""

    def read(check=None, **changes):
        raw = copy.deepcopy(RAW) | changes
        if check is not None:
            raw["claims"][0]["check"] = check
        path = tmp_path / "x.claims.yaml"
        path.write_text(yaml.safe_dump(raw, sort_keys=False))
        with pytest.raises(ScenarioError) as error:
            load_claims(path)
        line = str(error.value)
        assert "\n" not in line
        assert line.startswith(f"{path}: ")
        return line.removeprefix(f"{path}: ")

    return read


def test_a_file_is_read(tmp_path):
    path = tmp_path / "x.claims.yaml"
    path.write_text(yaml.safe_dump(RAW, sort_keys=False))
    claims = load_claims(path)
    assert claims.parts["main"].set == {}
    (claim,) = claims.claims
    assert claims.part_of(claim) == "main"
    assert [(place, where.of) for place, where in runs_of(claim.check)] == [("value", "A")]


@pytest.mark.parametrize(
    ("check", "line"),
    [
        ({"value": LOSS}, "check: found none; give one of equals, below, above, between"),
        ({"below": 1}, "check: found none; give one of value, descending, ascending, diverges"),
        ({"value": LOSS, "below": 1, "above": 0}, "check.above: found below, above; give one"),
        ({"value": LOSS, "belwo": 1}, "check.belwo: unknown key 'belwo'; did you mean 'below'?"),
        ({"value": LOSS, "below": "much"}, "check.below: found 'much'"),
        ({"value": LOSS, "equals": [1, 2]}, "check.equals: give one number"),
        (
            {"value": {"column": "loss", "at": [1, 2]}, "equals": [3]},
            "check.equals: give one number, or 2 as the value has",
        ),
        ({"value": LOSS, "below": 1, "within": 0.1}, "check.within: has no effect here"),
        (
            {"value": LOSS, "equals": 1, "within": 0.1, "factor": 2},
            "check.within: give one of within, absolute, factor",
        ),
        ({"descending": [LOSS, LOSS], "below": 1}, "check.below: has no effect here"),
        ({"value": {"of": "A"}, "below": 1}, "check.value: found none; give one of column"),
        ({"value": {"column": "loss"}, "below": 1}, "check.value.at: give at (a round, a list"),
        (
            {"value": {"column": "loss", "at": "end"}, "below": 1},
            "check.value.at: found 'end'; it should be a whole number or a list or 'last'",
        ),
        (
            {"value": {"rounds_to": {"loss": 1, "accuracy": 1}}, "below": 1},
            "check.value.rounds_to: found {",
        ),
        (
            {"value": {"rounds_to": {"loss": 1}, "at": 3}, "below": 1},
            "check.value.at: does not go with rounds_to",
        ),
        (
            {"value": {"column": "loss", "at": 3, "over": [1, 2]}, "below": 1},
            "check.value.over: goes with reduce: [first round, last round]",
        ),
        (
            {"value": {"ratio": [LOSS, LOSS], "of": "A"}, "below": 1},
            "check.value.of: does not go with ratio; leave it out",
        ),
        ({"value": {"ratio": [LOSS]}, "below": 1}, "check.value.ratio"),
        ({"value": LOSS | {"part": "man"}, "below": 1}, "check.value.part: unknown part 'man'"),
        ({"descending": [LOSS, LOSS | {"part": "no"}]}, "check.descending.1.part: unknown part"),
        ({"diverges": [{"of": "A"}], "by": 2}, "check.by: has no effect here"),
        ({"descending": [LOSS]}, "check.descending: give two values or more"),
    ],
)
def test_a_wrong_check_is_one_line(refused, check, line):
    assert refused(check).startswith(f"claims.0.{line}")


def test_what_else_may_be_wrong(refused, tmp_path):
    assert refused(parts={}).startswith("parts: found {}; it should be")
    assert refused(claims=[]).startswith("claims: found ")
    assert refused(parts={"a b": {"about": "x"}}).startswith("parts")
    assert refused(sources="x").startswith("sources: unknown key 'sources'; did you mean 'source'?")
    claim = RAW["claims"][0]
    assert refused(claims=[claim | {"part": "mani"}]) == (
        "claims.0.part: unknown part 'mani'; did you mean 'main'?"
    )
    mark = {"because": "x", "measured": {"equals": 1, "within": 0.1}}
    assert refused(claims=[claim | {"because": "x"}]).startswith(
        "claims.0.because: because and measured go together"
    )
    assert refused(claims=[claim | {"measured": mark["measured"]}]).startswith("claims.0.because")
    for measured, line in (
        ({"equals": 1}, "equals: numbers go with one of within, absolute, factor"),
        ({"equals": 1, "within": 0.1, "factor": 2}, "within: give one of within, absolute"),
        ({"equals": "diverges", "within": 0.1}, "equals: numbers go with one of"),
        ({"within": 0.1}, "measured.equals: is missing"),
    ):
        error = refused(claims=[claim | mark | {"measured": measured}])
        assert line in error
    for because in ("{1}", "{}% {}", "{", "{a}", "{0:q}", "{0.a}"):
        error = refused(claims=[claim | mark | {"because": because}])
        assert error.startswith("claims.0.because: write measured numbers as {0}, {1:.3f}")
    never = claim | {"part": "long", "only": "short"}
    assert refused(claims=[never]) == "claims.0.only: reads parts that never run together"
    assert refused(claims=[claim, claim]) == "claims.1.says: an earlier claim says the same"


def test_neither_a_list_nor_code_nor_a_key_twice(tmp_path):
    path = tmp_path / "x.claims.yaml"
    for text, line in (
        ("[]", "holds no mapping; write source, parts and claims"),
        ("source: !!python/object/apply:os.system [ls]", "holds a value that is not plain YAML"),
        ("source: a\nsource: b", "the key 'source' is given twice; remove one"),
    ):
        path.write_text(text)
        with pytest.raises(ScenarioError, match=line):
            load_claims(path)


def test_lengths_choose_parts_and_claims():
    raw = copy.deepcopy(RAW)
    raw["claims"] += [
        RAW["claims"][0] | {"says": "long", "part": "long"},
        RAW["claims"][0] | {"says": "quick", "only": "short"},
    ]
    claims = Claims.model_validate(raw)
    short, full = claims.of_length("short"), claims.of_length("full")
    assert list(short.parts) == ["main"]
    assert [claim.says for claim in short.claims] == ["A ends below 1.", "quick"]
    assert list(full.parts) == ["main", "long"]
    assert [claim.says for claim in full.claims] == ["A ends below 1.", "long"]
    assert {claim.part for claim in short.claims} == {"main"}
