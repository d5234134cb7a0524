"""Tests that guard data, trust and end points stay in `make test`, however long they take."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
EVERY = None
GUARDS = {
    # resumes: what is refused, the same bytes, after kills and on full disks
    "cli/test_changed.py": EVERY,
    "runs/test_resume.py": EVERY,
    "runs/test_driver.py": EVERY,
    "runs/test_extended.py": EVERY,
    "runs/test_forgetful.py": EVERY,
    "runs/test_full_disk.py": EVERY,
    "runs/test_modules.py": EVERY,
    "runs/test_moves.py": EVERY,
    "runs/files/test_checkpoints.py": EVERY,
    "runs/files/test_stops.py": EVERY,
    "cli/test_main.py": ("test_a_study_that_was_stopped_goes_on_to_the_same_bytes",),
    "contract/test_algorithms.py": (
        "test_after_kill_9_in_the_middle_of_a_run_resume_ends_with_the_same_bytes",
    ),
    "engine/arrivals/test_loop.py": ("test_a_resumed_run_is_the_same_to_the_byte",),
    "engine/arrivals/test_methods.py": (
        "test_state_under_arrivals_is_the_same_on_other_hosts_and_after_a_kill",
    ),
    "engine/arrivals/test_overlap.py": (
        "test_on_other_hosts_and_after_a_kill_the_bytes_are_the_same",
    ),
    "engine/test_attempts.py": ("test_on_other_hosts_and_after_a_kill_the_bytes_are_the_same",),
    "engine/test_drift.py": ("test_stacks_and_a_resume_give_the_same_bytes",),
    "engine/test_late_work.py": ("test_work_under_way_is_resumed_to_the_byte",),
    "runs/remote/test_upload.py": ("test_a_run_goes_on_from_what_an_interrupted_upload_left",),
    "runs/test_every_damage.py": ("test_of_a_run_that_has_ended",),
    "test_iteration.py": (
        "test_a_loop_that_is_left_goes_on_by_resume",
        "test_after_kill_9_a_resume_repeats_the_changes",
        "test_a_loop_that_is_left_repeats_its_changes",
        "test_a_record_that_lost_its_changes_is_refused",
    ),
    "test_sweep.py": ("test_what_was_interrupted_goes_on_with_the_same_trials",),
    # code and files of others
    "cli/test_trust.py": EVERY,
    # epsilon and noise
    "channel/test_privacy.py": EVERY,
    "engine/test_private.py": EVERY,
    # end points of published methods
    "channel/test_published.py": EVERY,
    "scenarios/test_bergerault_published.py": EVERY,
    "scenarios/test_cyclic_participation.py": EVERY,
    "scenarios/test_fedhybrid_published.py": EVERY,
    "scenarios/test_objective_inconsistency.py": EVERY,
    "scenarios/test_power_of_choice_published.py": EVERY,
    "scripts/test_golden.py": ("test_no_bit_of_quick_scenarios_changed",),
}
"""Files whose tests are guards, or those of their tests that are."""


def marked(file):
    """Return whether a file is marked as a whole, and which of its tests are."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    whole = any(
        ast.unparse(node.targets[0]) == "pytestmark" and "mark.guard" in ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
    )
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return whole, {
        test.name
        for test in tests
        if any(ast.unparse(mark) == "pytest.mark.guard" for mark in test.decorator_list)
    }


@pytest.mark.parametrize("name", GUARDS)
def test_guards_are_marked(name):
    whole, tests = marked(TESTS / name)
    assert whole if GUARDS[name] is EVERY else set(GUARDS[name]) <= tests


RESUME = re.compile("resum|kill|stop|goes?_on|crash")
SAME = re.compile("same|byte")


def explicit(node):
    """Return whether a test, or its file, is slow or starts Ray by its own marks."""
    marks = node.decorator_list if isinstance(node, ast.FunctionDef) else [node.value]
    return any(re.search(r"mark\.(slow|ray)\b", ast.unparse(mark)) for mark in marks)


def resumes(file):
    """Return the tests of a file that compare what was resumed, by their names."""
    text = file.read_text(encoding="utf-8")
    names = re.findall(r"def (test_\w+)", text)
    if not any(RESUME.search(name) and SAME.search(name) for name in names):
        return set()
    tree = ast.parse(text)
    if any(explicit(node) for node in tree.body if isinstance(node, ast.Assign)):
        return set()
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {
        test.name
        for test in tests
        if test.name.startswith("test_") and RESUME.search(test.name) and SAME.search(test.name)
        if not explicit(test)
    }


def test_what_compares_resumed_runs_is_a_guard_wherever_it_is():
    for file in sorted(TESTS.rglob("test_*.py")):
        found = resumes(file)
        whole, tests = marked(file) if found else (True, found)
        assert whole or found <= tests, (file.name, found - tests)
