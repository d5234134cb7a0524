"""A machine that goes down: what was not brought to the disk is gone."""

import shutil

import pytest

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.testing.studies import mixed
from tests.fakes.disk import Down, ForgetfulDisk

pytestmark = pytest.mark.guard


def driver(plan, out):
    (run,) = plan.runs
    return Driver(run, out, SerialExecutor(plan.tables))


def names_and_sizes(folder):
    return {p.relative_to(folder): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def plan():
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    return api.prepare(api.read(mixed(rounds=3, checkpoint={"every_s": 0}, algorithms=[stateful])))


def goes_down(plan, home, number):
    """Run until an operation on files; return the disk and whether the run had ended."""
    home.mkdir()
    disk = ForgetfulDisk(home, number)
    try:
        with disk.patched():
            driver(plan, home).execute()
    except Down:
        return disk, False
    return disk, True


def test_a_machine_that_goes_down_loses_nothing_that_counts(plan, tmp_path, assert_same):
    number, seen = 1, set()
    while True:
        disk, ended = goes_down(plan, tmp_path / f"disk{number}", number)
        out = tmp_path / f"out{number}"
        disk.restore(out)
        went_on = driver(plan, out)
        seen.add(went_on.records.checkpoints.round())
        assert went_on.execute(resume=True) == "finished", number
        assert went_on.records.damage == [], number
        if number == 1:
            shutil.copytree(out, tmp_path / "calm")
        assert_same(tmp_path / "calm", out)
        if ended:
            break
        number += 11  # not every one: that takes minutes
    assert number > 100
    assert {None, 0, 1, 2, 3} <= seen


def test_a_run_that_ended_is_on_the_disk(plan, tmp_path):
    disk, ended = goes_down(plan, tmp_path / "disk", 10**9)
    assert ended
    disk.restore(tmp_path / "out")
    assert names_and_sizes(tmp_path / "out") == names_and_sizes(tmp_path / "disk")
