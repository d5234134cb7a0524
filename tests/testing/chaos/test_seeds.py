"""The short campaign: a few seeds, and faults of every kind once. `make chaos` runs many."""

import subprocess
import sys
from contextlib import nullcontext

import pytest

from rayfed import api
from rayfed.testing.chaos.__main__ import main
from rayfed.testing.chaos.case import run_seed
from rayfed.testing.chaos.faults import FAULTS, Attempt, Fault, strike
from rayfed.testing.compare import assert_same_results
from rayfed.testing.disk import Disk
from rayfed.testing.studies import mixed

SEEDS = range(7000, 7005)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # some runs diverge
@pytest.mark.parametrize(
    "seed", [*SEEDS[:2], *(pytest.param(s, marks=pytest.mark.slow) for s in SEEDS[2:])]
)
def test_nothing_is_found(seed):
    outcome = run_seed(seed)
    assert outcome.findings == [], f"make chaos SEED={seed}"


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """A study that nothing disturbs, and the number of its file operations."""
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    plan = api.prepare(api.read(mixed(rounds=4, algorithms=[stateful])))
    attempt = Attempt(plan, api.begin(plan, tmp_path_factory.mktemp("calm") / "out"), 0)
    disk = Disk()
    with disk.patched():
        assert set(attempt.execute().values()) == {"finished"}
    return attempt.plan, attempt.folder, disk.count


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind != "process"])
def test_a_fault_disturbs_and_a_resume_mends(calm, kind, tmp_path):
    plan, folder, operations = calm
    attempt = Attempt(plan, api.begin(plan, tmp_path / "out"), operations)
    if kind == "damage":
        attempt.execute()
    strike(attempt, Fault(kind, 0.6, 0.3))
    replayed = kind in ("host", "nodes")  # the driver does that by itself
    with nullcontext() if replayed else pytest.raises((AssertionError, OSError)):
        assert_same_results(folder, attempt.folder)
    attempt.execute()
    assert_same_results(folder, attempt.folder)


def test_the_command_repeats_a_seed(capsys):
    assert main(["--seed", str(SEEDS[0])]) == 0
    assert f"1 cases, seeds {SEEDS[0]} to {SEEDS[0]}" in capsys.readouterr().out


@pytest.mark.slow
def test_cases_run_in_several_processes():
    """What they call must be found in a module that they can import."""
    command = [sys.executable, "-m", "rayfed.testing.chaos", "--number", "2", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 cases, seeds 0 to 1" in done.stdout + done.stderr
