"""Files of a release: one version everywhere, and a workflow of the Makefile's commands."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(path):
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("README.md", r"version = \{(.*?)\}"),
        ("docs/install.md", r"rayfed_sim-(.*?)-py3"),
        ("docs/study.md", r"with rayfed (\d+\.\d+\.\d+)"),
    ],
)
def test_documents_have_the_version(file, pattern):
    found = re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"))
    assert found
    assert set(found) == {VERSION}


def test_the_citation_has_the_version_and_its_day():
    assert CITATION["version"] == VERSION
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {VERSION} - {CITATION['date-released']}\n" in changes


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_exist(path):
    rules = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):(?!=)", rules, re.M))
    runs = [
        step["run"]
        for job in workflow(path)["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    called = [re.fullmatch(r"make ([a-z]+)( [A-Z]+=.*)?", run) for run in runs]
    assert all(called), runs
    assert {match[1] for match in called} <= targets
    given = {match[2].split("=")[0].strip() for match in called if match[2]}
    assert given <= set(re.findall(r"^([A-Z]+) \?=", rules, re.M))


def test_the_workflow_runs_lint_tests_and_every_entry_of_the_matrix():
    (path,) = WORKFLOWS
    jobs = workflow(path)["jobs"]
    text = path.read_text()
    assert {"make lint", "make test", "make flower", "make release"} <= set(
        re.findall("make [a-z]+", text)
    )
    parts = jobs["slow"]["strategy"]["matrix"]["part"]
    assert parts == [f"{k}/{len(parts)}" for k in range(1, len(parts) + 1)]
    entries = " ".join(e["entries"] for e in jobs["versions"]["strategy"]["matrix"]["include"])
    (promised,) = re.findall(
        r"^ENTRIES \?= ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.M
    )
    assert entries.split() == promised.replace("\\\n", " ").split()


def test_the_workflow_names_public_hosts_alone():
    (path,) = WORKFLOWS
    job = workflow(path)["jobs"]
    assert {each["runs-on"] for each in job.values()} == {"ubuntu-latest"}
    uses = [step["uses"] for each in job.values() for step in each["steps"] if "uses" in step]
    assert {name.split("/")[0] for name in uses} == {"actions"}
    assert "://" not in path.read_text()
    assert "secrets" not in path.read_text()
