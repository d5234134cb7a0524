"""How much the commands that run say: quiet and verbose."""

import logging
import subprocess
import sys

import pytest

from rayfed import api

SCENARIO = """
seeds: [0]
rounds: 2
problem:
  name: least-squares
  dataset: {name: linear, features: 2, samples: 5}
clients: {count: 6}
participation: {cohort: 3}
algorithms: [fedavg]
executor: serial
"""
NOISY = """from dataclasses import dataclass
from rayfed.algorithms.fedavg import FedAvg

@dataclass(frozen=True, kw_only=True)
class Noisy(FedAvg):
    name = "noisy"
    def train(self, clients, x):
        print("here we are")
        if clients.round == 2:
            raise ValueError("labels are odd")
        return super().train(clients, x)
"""
OWN = ["--set", "algorithms=['own_noisy:Noisy']"]


@pytest.fixture
def shell(command, tmp_path, monkeypatch):
    """Return a function that runs a command beside small.yaml: status, output, errors."""
    monkeypatch.setattr(api.Result, "report", lambda result, **_: None)  # takes longer than the run
    (tmp_path / "small.yaml").write_text(SCENARIO)
    return command


def test_quiet_prints_the_folder_alone(shell):
    assert shell("run", "small.yaml", "--quiet", "--out", "out") == (0, "out\n", "")
    assert shell("resume", "out", "-q") == (0, "out\n", "")


def test_quiet_prints_errors_but_nothing_of_a_plug_in(shell, tmp_path):
    (tmp_path / "own_noisy.py").write_text(NOISY)
    status, out, err = shell("run", "small.yaml", "-q", "--out", "out", *OWN)
    assert (status, out) == (1, "out\n")
    assert "labels are odd (own_noisy.py:10)" in err
    assert "here we are" not in err


@pytest.mark.slow
def test_workers_are_quiet_too(tmp_path):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "own_noisy.py").write_text(NOISY)
    command = [sys.executable, "-m", "rayfed", "run", "small.yaml", "--out", "out", *OWN]
    command += ["--set", "executor=workers"]
    loud, quiet = (
        subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True)
        for more in ([], ["-q"])
    )
    assert "here we are" in loud.stdout
    assert (quiet.returncode, quiet.stdout) == (1, "out\n")
    assert "labels are odd" in quiet.stderr


@pytest.mark.parametrize("executor", ["serial", "workers"])
def test_verbose_prints_a_line_a_round_wherever_it_runs(shell, executor):
    changes = ["--set", f"executor={executor}", "--set", "participation.cohort=2"]
    before = logging.getLogger("rayfed").level
    status, out, err = shell("run", "small.yaml", "-v", "--out", "out", *changes)
    assert status == 0
    assert out.endswith("page: out/report.html\n")
    lines = err.splitlines()
    assert lines[0].startswith("small: data loaded, 1 runs planned in ")
    first, second = (line for line in lines if ", round " in line)
    assert first.startswith("fedavg-seed0, round 1: asked clients ")
    assert "; 2 used; loss " in first
    assert second.endswith("s simulated")
    order = ["begins", "checkpoint of round 0", "checkpoint of round 2", "ended after round 2"]
    places = [next(k for k, line in enumerate(lines) if words in line) for words in order]
    assert places == sorted(places)
    assert logging.getLogger("rayfed").level == before


def test_both_are_one_too_many(shell):
    status, _, err = shell("run", "small.yaml", "-q", "-v")
    assert (status, err) == (
        2, "rayfed: --quiet: cannot stand with --verbose; leave one out\n"
    )  # fmt: skip


CLAIMS = """
source: "A. Author, Title, 2024, https://example.org"
parts: {main: {about: "Two rounds."}}
claims:
  - says: "It ends below nothing."
    where: "table 1"
    check: {value: {column: loss, at: last}, below: 0.0}
"""


def test_a_quiet_study_that_is_reproduced_names_its_folder_and_what_fails(shell, tmp_path):
    (tmp_path / "small.claims.yaml").write_text(CLAIMS)
    status, out, err = shell("reproduce", "small.claims.yaml", "-q", "--out", "out")
    assert (status, out) == (1, "out\n")
    assert err.startswith("fails: It ends below nothing. (")
    assert err.count("\n") == 1
