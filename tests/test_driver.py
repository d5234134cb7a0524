import json

import pytest

from rayfed import api
from rayfed.driver import Driver, Interrupted
from rayfed.executors.base import HostLost
from rayfed.executors.serial import SerialExecutor


class Flaky(SerialExecutor):
    """Loses its clients at some of its exchanges, like an actor that is killed."""

    def __init__(self, tables, data, lose_at):
        super().__init__(tables, data)
        self.lose_at, self.calls = set(lose_at), 0

    def exchange(self, key, request, send):
        self.calls += 1
        if self.calls in self.lose_at:
            self.host.close(key)
            raise HostLost("a client actor was lost")
        return super().exchange(key, request, send)


@pytest.fixture
def plan(mixed):
    stateful = {"name": "local-only", "local": {"steps": 5, "batch": 4, "lr": 0.1}}
    return api.prepare(api.read(mixed(algorithms=[stateful])))


def drive(plan, out, lose_at=()):
    (run,) = plan.runs
    return Driver(run, out, Flaky(plan.tables, run.data, lose_at))


def finish(plan, out, **how):
    driver = drive(plan, out, **how)
    assert driver.execute() == "finished"
    return driver


@pytest.mark.parametrize("lose_at", [{1}, {2}, {9, 10, 25}, {26}])
def test_a_run_that_loses_its_clients_ends_with_the_same_bytes(
    plan, tmp_path, assert_same, lose_at
):
    calm = finish(plan, tmp_path / "calm")
    assert calm.executor.calls >= 26  # so that every loss below happens
    finish(plan, tmp_path / "lost", lose_at=lose_at)
    assert_same(tmp_path / "calm", tmp_path / "lost")
    log = (tmp_path / "lost" / plan.runs[0].folder / "log.txt").read_text()
    assert log.count("a client actor was lost") == len(lose_at)
    assert "to replay" in log


def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(plan, tmp_path, assert_same):
    finish(plan, tmp_path / "calm")
    driver = drive(plan, tmp_path / "stopped")

    def stop(progress):
        if progress.round == 5:
            driver.stop()

    with pytest.raises(Interrupted):
        driver.execute(report=stop)
    told = json.loads((tmp_path / "stopped" / plan.runs[0].folder / "run.json").read_text())
    assert told["status"] == "running"
    again = drive(plan, tmp_path / "stopped")
    assert again.execute(resume=True) == "finished"
    assert again.executor.calls < 20  # the first five rounds were not run again
    assert_same(tmp_path / "calm", tmp_path / "stopped")


def test_a_crash_at_the_very_end_changes_nothing(plan, tmp_path, assert_same, monkeypatch):
    finish(plan, tmp_path / "calm")
    driver = drive(plan, tmp_path / "crash")

    def crash():
        raise MemoryError

    monkeypatch.setattr(driver.records, "finish", crash)
    with pytest.raises(MemoryError):
        driver.execute()
    assert drive(plan, tmp_path / "crash").execute(resume=True) == "finished"
    assert_same(tmp_path / "calm", tmp_path / "crash")


def test_a_rule_that_was_met_at_the_last_checkpoint_still_ends_the_run(
    mixed, tmp_path, assert_same, monkeypatch
):
    plan = api.prepare(api.read(mixed(stop={"time_s": 1e-9})))
    finish(plan, tmp_path / "calm")
    driver = drive(plan, tmp_path / "crash")
    monkeypatch.setattr(driver.records, "finish", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        driver.execute()
    drive(plan, tmp_path / "crash").execute(resume=True)
    assert_same(tmp_path / "calm", tmp_path / "crash")
    told = json.loads((tmp_path / "crash" / plan.runs[0].folder / "run.json").read_text())
    assert told["stopped_by"] == "time_s"


def test_clients_that_are_lost_for_ever_end_the_run(plan, tmp_path):
    driver = drive(plan, tmp_path, lose_at=range(1000))
    assert driver.execute() == "failed"
    told = json.loads((tmp_path / plan.runs[0].folder / "run.json").read_text())
    assert "clients were lost" in told["reason"]
