"""The generators of the documentation: Markdown from docstrings, schemas and claims."""

import re
from dataclasses import dataclass
from typing import ClassVar

import pytest

from rayfed.core import plugins
from rayfed.study import Study


@pytest.fixture(scope="module")
def md(generator):
    return generator("md")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x_i <- x * y", r"x\_i \<- x \* y"),
        ("``a_b`` and `c_d`", "``a_b`` and `c_d`"),
        ("see https://arxiv.org/abs/1.2, a_b", r"see <https://arxiv.org/abs/1.2>, a\_b"),
        ("|x| costs $5 [sic]", r"\|x\| costs \$5 \[sic\]"),
    ],
)
def test_plain_text_stays_plain_and_code_stays_code(md, text, shown):
    assert md.escaped(text) == shown


def test_docstrings_become_paragraphs_code_and_formulas(md):
    text = "A step is::\n\n    x <- x - g\n\n.. math::\n\n   a^2\n\n>>> 1 + 1\n2"
    code, formula, doctest = "text\nx <- x - g", "{math}\na^2", "pycon\n>>> 1 + 1\n2"
    blocks = "\n\n".join(f"```{block}\n```" for block in (code, formula, doctest))
    assert md.prose(text) == f"A step is:\n\n{blocks}"


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, "number > 0, ≤ 1"),
        ({"type": "number", "maximum": 1e12}, "number ≤ 1e+12"),
        ({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^2"}]}, "integer"),
        ({"anyOf": [{"enum": ["all"]}, {"type": "null"}]}, "`all` or null"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"$ref": "#/$defs/delays"}, "{ref}`delays <gallery-delays>`"),
    ],
)
def test_types_are_told_in_words(md, schema, shown):
    assert md.words(schema) == shown


def test_every_key_of_a_scenario_is_on_its_page(generator):
    schema = Study.json_schema()
    page = generator("scenario_reference").page(schema)
    for name in schema["properties"]:
        assert f"| `{name}` |" in page
    for key in ("clients.network", "clients.groups", "participation", "stop", "problem"):
        assert f"## `{key}`" in page
    (deadline,) = [line for line in page.splitlines() if line.startswith("| `deadline_s` |")]
    assert "number > 0" in deadline
    assert "or null | `null` | Virtual seconds" in deadline


def test_every_plugin_and_every_setting_is_in_the_gallery(generator):
    gallery, parts = generator("gallery"), Study.json_schema()["$defs"]
    for kind in plugins.KINDS:
        found = gallery.pages(kind, parts, {})
        for name in plugins.find(kind):
            file = f"{kind}/{name}.md" if kind in gallery.APART else f"{kind}.md"
            assert re.search(rf"^\({kind}-{name}\)=\n##? `{name}`$", found[file], re.M), name
            assert f"<{kind}-{name}>`" in found[f"{kind}.md"]  # in the table
    page = gallery.pages("delays", parts, {})["delays.md"]
    lognormal = page.partition("## `lognormal`")[2]
    assert "| `sigma` | number ≥ 0, ≤ 30 | `0.5` |" in lognormal


def test_settings_with_another_default_than_the_base_are_shown(generator):
    @dataclass(frozen=True)
    class Base:
        name: ClassVar[str]
        a: int = 1
        b: int = 2

    @dataclass(frozen=True)
    class Own(Base):
        b: int = 3
        c: int = 4

    assert generator("gallery")._own(Own, Base) == ["b", "c"]


def test_formulas_belong_to_plugins_that_exist(generator):
    for kind, found in generator("gallery").formulas().items():
        assert set(found) <= set(plugins.find(kind))


def told(claims, status, **more):
    """What a survey holds of each claim."""
    told = {"status": status, "over": "3 seeds", "rests_on": [], "measured": "5", "remark": ""}
    return {"seconds": 620.4, "claims": [told | more | {"says": c.says} for c in claims.claims]}


@pytest.fixture(scope="module")
def robots(generator):
    """The claims of a study, and a function that returns its page with what was measured."""
    studies, sources = generator("studies"), generator("sources")
    name = "walk_mobile_robots"
    claims = sources.load_claims(sources.scenarios() / f"{name}{sources.SUFFIX}")
    study = sources.load(sources.scenarios() / f"{name}.yaml")
    return claims, lambda surveyed: studies.page(name, claims, study, surveyed)


@pytest.mark.parametrize("surveyed", [None, {"claims": []}, "not run"])
def test_what_nobody_ran_is_not_shown_as_reproduced(generator, robots, surveyed):
    claims, page = robots
    text = page(told(claims, surveyed) if isinstance(surveyed, str) else surveyed)
    assert f"\n{len(claims.claims)} never run.\n" in text
    assert "reproduced**" not in text
    for claim in claims.claims:
        (row,) = rows(text, generator("md").escaped(claim.says))
        assert row.startswith("| **never run**")


def rows(page, claim):
    """Return the rows of a page's table that are about a claim."""
    return [line for line in page.splitlines() if f"| {' '.join(claim.split())} |" in line]


def test_claims_stand_in_the_order_of_their_states_with_what_they_rest_on(generator, robots):
    claims, page = robots
    surveyed = told(claims, "holds", rests_on=["4,000 of 50,000 images"])
    first, second, third, fourth, *_ = surveyed["claims"]
    first.update(over="one seed")
    second.update(status="not reproduced", remark="since it is so")
    third.update(status="fails", over="", rests_on=[])
    fourth.update(status="undecided", remark="better with every seed over 3 seeds")
    text = page(surveyed)
    many = len(claims.claims) - 3
    assert f"\n{many} reproduced, 1 undecided, 1 not reproduced, 1 unexpected.\n" in text
    found = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(found) == len(claims.claims)
    assert found[0].startswith("| **reproduced**, one seed |")
    assert "In place of what the source has: [1] 4,000 of 50,000 images." in text
    assert found[0].endswith("| 5 [1] |")
    assert found[-3].startswith("| **undecided**, 3 seeds |")
    assert found[-2].startswith("| **not reproduced**, 3 seeds |")
    assert found[-2].endswith("| 5; since it is so [1] |")
    assert found[-1].startswith("| **fails** |")
    (row,) = rows(text, generator("md").escaped(claims.claims[0].says))
    assert row == found[0]


def test_the_texts_of_the_survey_come_from_what_it_recorded(generator):
    studies, sources = generator("studies"), generator("sources")
    names = ("bergerault_2023_circle", "walk_mobile_robots")
    found = {
        name: sources.load_claims(sources.scenarios() / f"{name}{sources.SUFFIX}") for name in names
    }
    many, few = (len(claims.claims) for claims in found.values())
    surveyed = {
        "wall_s": 1230.0, "ended": "2031-02-03", "cpus": 7, "processor": "Abacus",
        "commit": "abcdefgh0123", "versions": {"rayfed": "0.1.0", "python": "3.11", "numpy": "2.4"},
        "studies": [
            {"study": name} | told(found[name], status)
            for name, status in zip(names, ("holds", "not run"), strict=True)
        ],
    }  # fmt: skip
    page = studies._index(found, surveyed)
    assert f"| {many} reproduced | {{ref}}`{names[0]} <study-{names[0]}>` |" in page
    assert f"| {few} never run | {{ref}}`{names[1]} <study-{names[1]}>` |" in page
    for text in ("2031-02-03", f"of {many + few} claims {many} are reproduced", "Abacus"):
        assert text in page
    details = page.partition("<details>")[2].partition("</details>")[0]
    assert "at commit `abcdefgh`," in details
    assert "abcdefgh" not in page.replace(details, "")
    assert "21 minutes of runs and checks" in " ".join(page.split())  # twice 620 s
    assert "ran again since" not in page
    surveyed["studies"][1] |= {"ended": "2031-02-04", "commit": "def"}
    since = "`walk_mobile_robots` on 2031-02-04 at `def`."
    assert since in studies._index(found, surveyed)
    assert f"| {many} never run |" in studies._index(found, {})


@pytest.mark.parametrize(
    ("more", "listed"),
    [
        ({}, True),
        ({"excluded": False}, False),
        ({"rests_on": ["tin for gold"]}, False),
        ({"status": "holds"}, False),
        ({"status": "not run"}, False),
    ],
)
def test_what_nothing_excuses_is_evidence_against_a_source(generator, robots, more, listed):
    claims, _ = robots
    surveyed = told(claims, **{"status": "not reproduced", "excluded": True, **more})
    others = claims.model_copy(update={"own": False})
    shown = generator("studies")._against({"own": others}, {"own": surveyed})
    ours = claims.model_copy(update={"own": True})
    assert not generator("studies")._against({"own": ours}, {"own": surveyed})
    assert ("Evidence against" in shown) is listed
    first = " ".join(generator("md").escaped(claims.claims[0].says).split())
    assert (first in shown) is listed
