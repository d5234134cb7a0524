"""What the pages say within their sentences holds: fragments of scenarios fit, commands exist.

Whole blocks run in `test_code_blocks`. Here are fragments such as ``groups: [{count: 2}]``: each is
put where a scenario takes its keys, into the smallest one, or is that of a plug-in.
"""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from pydantic import ValidationError
from typer.main import get_command

from rayfed.cli.main import app
from rayfed.core import plugins
from rayfed.core.errors import ScenarioError
from rayfed.study import Study, apply_overrides
from rayfed.study.scenario.fields import model_of
from rayfed.study.scenario.invalid import MISSING, complaint, errors_of

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(
        page
        for page in (ROOT / "docs").rglob("*.md")
        if not {"_build", "generated"} & set(page.relative_to(ROOT).parts)
    ),
]
FENCE = re.compile(r"^ *```([\w-]*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PLACEHOLDER = re.compile(r"\.\.\.|[:\[{,] *[A-Za-z] *(?=[,}\]]|$)")
SMALLEST = {
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 10},
    "algorithms": ["fedavg"],
    "rounds": 1,
}
PLACES = (
    "", "clients.", "clients.groups.0.", "participation.", "problem.", "evaluate.", "executor.",
    "algorithms.0.", "algorithms.0.local.", "stop.", "server.", "sweep.",
)  # fmt: skip
NO_SETTINGS = ("stopped_by", "base")
"""Keys of ``run.json``, and what stands for another file."""


def fragments(page):
    """Return the parts of scenarios that stand within sentences, as texts."""
    prose = FENCE.sub("", page.read_text("utf-8"))
    spans = (span for span in SPAN.findall(prose) if span[0] not in '"{')  # Python, and JSON
    return [span for span in spans if keys_of(span) and not PLACEHOLDER.search(span)]


def keys_of(text):
    try:
        keys = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    if not isinstance(keys, dict) or None in keys.values() or set(keys) & set(NO_SETTINGS):
        return {}
    return keys if all(re.fullmatch(r"[\w.*]+", str(key)) for key in keys) else {}


def placed(keys):
    """Return whether some place of a scenario takes keys."""
    for place in PLACES:
        raw = SMALLEST
        if place == "clients.groups.0.":
            raw = raw | {"clients": {"count": 10, "groups": [{"count": 1}]}}
        try:
            Study.parse(apply_overrides(raw, {f"{place}{key}": keys[key] for key in keys}))
        except ScenarioError:
            continue
        return True
    return False


def of_plugin(keys):
    """Return whether keys are settings of some plug-in, others of which may be missing."""
    keys = {key.removeprefix("problem."): value for key, value in keys.items()}
    for kind in plugins.KINDS:
        for cls in plugins.find(kind).values():
            model = model_of(cls)
            if set(keys) <= set(model.model_fields):
                try:
                    model.model_validate(keys)
                except ValidationError as error:
                    wrong = errors_of(complaint(error, keys))
                    if any(one.problem != MISSING for one in wrong):
                        continue
                return True
    return False


def test_fragments_are_told_from_other_code():
    assert keys_of("groups: [{ids: [north], delay: {mean_s: 5}}]")
    assert not keys_of("rayfed.run(study)")
    assert PLACEHOLDER.search("p: {by: rows, bias: b}")
    assert PLACEHOLDER.search("log: [a, b]")
    assert PLACEHOLDER.search("evaluate.rows: R")
    assert not PLACEHOLDER.search("ids: [north], delay: {mean_s: 5}")
    assert placed({"deadline_s": 5})
    assert of_plugin({"overlap": True})
    for wrong in (
        {"deadline": 5},
        {"deadline_s": -5},
        {"groups": [{"ids": [1], "dalay": "gamma"}]},
    ):
        assert not placed(wrong)
        assert not of_plugin(wrong)


@pytest.mark.parametrize("page", [p for p in PAGES if fragments(p)], ids=lambda page: page.stem)
def test_fragments_of_scenarios_fit(page):
    assert [f for f in fragments(page) if not (placed(keys_of(f)) or of_plugin(keys_of(f)))] == []


def commands(page):
    """Return the commands of rayfed that a page shows, in blocks of shells and in sentences."""
    text = page.read_text("utf-8")
    lines = [
        line.strip().removeprefix("$ ")
        for language, code in FENCE.findall(text)
        if language in ("sh", "bash", "console")
        for line in code.replace("\\\n", " ").splitlines()
    ]
    shown = [*lines, *SPAN.findall(FENCE.sub("", text))]
    return [line for line in shown if line.startswith("rayfed ")]


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda page: page.stem)
def test_commands_and_their_options_exist(page):
    whole = get_command(app)
    known, own = whole.commands, {option for each in whole.params for option in each.opts}
    for line in commands(page):
        name, *given = shlex.split(line, comments=True)[1:]
        assert name in {*known, *own}, line
        if name in known and "..." not in given:
            parser = known[name].make_parser(click.Context(known[name]))
            options = [option for option in given if option.startswith("-")]
            left = {*parser._long_opt, *parser._short_opt, "--help", "-h"}
            assert {option.partition("=")[0] for option in options} <= left, line
