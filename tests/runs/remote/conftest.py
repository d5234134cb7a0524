"""Studies at URLs, resumed on other machines."""

from __future__ import annotations

import pytest

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.remote import copies
from rayfed.runs.remote import objects as owners
from rayfed.testing.studies import mixed


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Let nobody wait long, and keep copies out of the user's cache."""
    monkeypatch.setattr(owners, "WAIT_S", 0.3)
    monkeypatch.setattr(owners, "SETTLE_S", 0.0)
    monkeypatch.setattr(copies, "FINISH_S", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def plan():
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    return api.prepare(api.read(mixed(rounds=3, checkpoint={"every_s": 0}, algorithms=[stateful])))


@pytest.fixture(scope="session")
def calm(plan, tmp_path_factory):
    """The results of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("calm")
    (run,) = plan.runs
    assert Driver(run, folder, SerialExecutor(plan.tables)).execute() == "finished"
    return folder
