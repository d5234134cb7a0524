"""The short campaign: a few seeds, and faults of every kind once. `make chaos` runs many."""

import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from rayfed import api
from rayfed.core import leases
from rayfed.testing.compare import assert_same_results
from rayfed.testing.studies import mixed
from tests.chaos.__main__ import main
from tests.chaos.case import Outcome, run_seed
from tests.chaos.faults import FAULTS, Attempt, Fault, strike
from tests.chaos.processes import RAYS
from tests.fakes.disk import Disk

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


REAL = ("process", "servers")
"""Faults that need processes of their own."""


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind not in REAL])
def test_a_fault_disturbs_and_a_resume_mends(calm, kind, tmp_path):
    plan, folder, operations = calm
    attempt = Attempt(plan, api.begin(plan, tmp_path / "out"), operations)
    if kind == "damage":
        attempt.execute()
    strike(attempt, Fault(kind, 0.6, 0.3))
    replayed = kind in ("host", "nodes", "twice")  # it goes on by itself
    with nullcontext() if replayed else pytest.raises((AssertionError, OSError)):
        assert_same_results(folder, attempt.folder)
    attempt.execute()
    assert_same_results(folder, attempt.folder)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.parametrize("how", [0.1, 0.3, 0.6, 0.9], ids=RAYS)
def test_a_study_goes_on_without_ray_after_a_part_of_it_was_killed(calm, how, tmp_path):
    plan, folder, operations = calm
    attempt = Attempt(plan, api.begin(plan, tmp_path / "out"), operations)
    strike(attempt, Fault("servers", 0.0, how))
    attempt.execute()
    assert_same_results(folder, attempt.folder)


def test_a_second_resume_that_is_not_refused_is_noticed(calm, tmp_path, monkeypatch):
    plan, _, operations = calm
    monkeypatch.setattr(leases, "_lock", lambda *_: True)
    attempt = Attempt(plan, api.begin(plan, tmp_path / "out"), operations)
    with pytest.raises(AssertionError, match="a second resume: it was not refused"):
        strike(attempt, Fault("twice", 0.6, 0.3))


def test_half_of_the_damages_are_of_more_than_one_file(calm, tmp_path):
    plan, folder, operations = calm
    before = held(folder)
    struck = []
    for number in range(12):
        shutil.copytree(folder, tmp_path / str(number))
        attempt = Attempt(plan, tmp_path / str(number), operations)
        strike(attempt, Fault("damage", number / 12, 0.95))
        after = held(attempt.folder)
        struck.append(sum(before[name] != after.get(name) for name in before))
        attempt.execute()
        assert_same_results(folder, attempt.folder)
    assert min(struck) == 1
    assert 3 <= sum(count > 1 for count in struck) <= 9


def held(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_command_repeats_a_seed(capsys):
    assert main(["--seed", str(SEEDS[0])]) == 0
    assert f"1 cases, seeds {SEEDS[0]} to {SEEDS[0]}" in capsys.readouterr().out


def test_every_campaign_has_cases_of_its_own_and_says_which(capsys, monkeypatch):
    run = []
    monkeypatch.setattr(
        "tests.chaos.__main__.run_seed",
        lambda seed, **how: run.append(seed) or Outcome(seed),
    )
    firsts = []
    for _ in range(2):
        assert main(["--number", "3"]) == 0
        firsts.append(int(capsys.readouterr().out.partition("first seed: ")[2].split()[0]))
    one, two = firsts
    assert run == [one, one + 1, one + 2, two, two + 1, two + 2]
    assert one != two


@pytest.mark.slow
def test_cases_run_in_several_processes():
    """What they call must be found in a module that they can import."""
    asked = ["--first", "0", "--number", "2", "--jobs", "2"]
    command = [sys.executable, "-m", "tests.chaos", *asked]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "2 cases, seeds 0 to 1" in done.stdout + done.stderr
