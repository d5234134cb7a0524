"""What a shell is told to complete, and that it does not wait for it."""

import json
import os
import subprocess
import sys

import pytest

from rayfed.core.plugins import KINDS, declared, find
from rayfed.core.shipped import scenarios, studies

SCENARIO = """
base: other.yaml
seeds: [0]
algorithms:
  - fedavg
participation: {cohort: 3}
"""
LABELLED = """
algorithms:
  - {name: fedavg, label: slow, local: {lr: 0.1}}
  - {name: fedexp, epsilon: 1, grid: {local.lr: [1, 2]}}
"""
HEAVY = ["numpy", "scipy", "pandas", "pyarrow", "plotly", "ray", "torch"]


@pytest.fixture
def completed(command, tmp_path, monkeypatch):
    """Return a function that completes a line in a folder with two scenarios: the words."""
    for name, text in {"mine.yaml": SCENARIO, "ours.yml": LABELLED, "notes.txt": ""}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "data").mkdir()

    def complete(line):
        monkeypatch.setenv("_RAYFED_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        status, out, err = command()
        assert (status, err) == (0, "")
        return out.split()

    return complete


def test_names_of_plug_ins_are_read_without_importing_them():
    assert {kind: declared(kind) for kind in KINDS} == {kind: tuple(find(kind)) for kind in KINDS}


def test_list_knows_kinds_plug_ins_and_those_of_a_kind(completed):
    assert completed("rayfed list al") == ["algorithms", "alie", "all", "always"]
    assert completed("rayfed list fedpr") == ["fedprox"]
    assert completed("rayfed list delays ") == list(find("delays"))
    assert completed("rayfed list columns ") == []


def test_scenarios_are_files_here_and_those_that_come_with_rayfed(completed):
    assert completed("rayfed run ") == ["data/", "mine.yaml", "ours.yml", *scenarios()]
    assert completed("rayfed check mine.yaml quick") == ["quickstart"]
    assert completed("rayfed sweep data/") == []  # the shell's own completion of files


def test_published_studies(completed):
    assert completed("rayfed reproduce ") == list(studies())


def test_keys_of_the_scenarios_that_are_named(completed):
    assert completed("rayfed run mine.yaml --set ") == [
        "algorithms=", "participation.cohort=", "seeds="
    ]  # fmt: skip
    both = "rayfed check mine.yaml ours.yml --set rounds=2 --set algorithms."
    assert completed(both) == [
        "algorithms.fedexp.epsilon=", "algorithms.fedexp.name=",
        "algorithms.slow.local.lr=", "algorithms.slow.name=",
    ]  # fmt: skip
    assert "rounds=" in completed("rayfed topology quickstart --set r")
    assert completed("rayfed run nowhere.yaml --set ") == []


def test_nothing_that_computes_is_imported(tmp_path):
    """One process for all, since what an earlier completion imported stays."""
    lines = ["rayfed list fed", "rayfed run ", "rayfed reproduce ", "rayfed run quickstart --set "]
    code = f"""
import json, os, sys
from rayfed.cli import main
for line in {lines}:
    os.environ |= {{"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}}
    try:
        main.main()
    except SystemExit as end:
        assert not end.code
print(json.dumps([name for name in {HEAVY} if name in sys.modules]))
"""
    environment = os.environ | {"_RAYFED_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *words, imported = done.stdout.splitlines()
    assert {"fedavg", "quickstart", "rounds="} <= set(words)
    assert json.loads(imported) == []
