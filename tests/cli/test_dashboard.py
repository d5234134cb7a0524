"""The command `dashboard`, and what `run` and `report` take of it."""

import re
import subprocess
import sys
import urllib.request

import psutil
import pytest
import yaml

import rayfed
from rayfed.testing.studies import mixed
from tests.fakes.pages import data_of

pytest.importorskip("uvicorn", reason="uvicorn is not installed")


def test_a_view_is_saved_by_its_address(command, tmp_path):
    rayfed.run(mixed(seeds=[3, 4]), out=tmp_path / "results" / "first", page=False)
    address = "http://127.0.0.1:8270/compare?run=results/first/mixed#x=time_s"
    status, _, errors = command("report", "results", "--view", address)
    assert status == 2
    assert "is no run of this study" in errors
    address = "http://127.0.0.1:8270/compare?run=results/first/fedavg-seed4#x=time_s"
    status, said, errors = command("report", "results", "--view", address, "--out", "seen.html")
    assert (status, said) == (0, "page: seen.html\n"), errors
    data = data_of((tmp_path / "seen.html").read_text())
    assert data["opening"] == "x=time_s"
    (part,) = data["panels"]["convergence"]["parts"]
    assert {run["seed"] for run in part["curves"]["runs"]} == {4}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("dashboard", "nowhere"), "nowhere: is no folder; give one with results below it"),
        (("dashboard", "s3://bucket/x"), "is a URL; give a path of this machine"),
        (("report", ".", "--view", "http://127.0.0.1:8270/"), "is no address of a view"),
        (("report", ".", "--view", "/compare?study=a"), "is no study here"),
    ],
)
def test_what_is_wrong_is_one_line(command, arguments, text):
    status, _, errors = command(*arguments)
    assert status == 2
    assert text in errors


BROKEN = """
from dataclasses import dataclass

from rayfed.algorithms import FedAvg


@dataclass(frozen=True, kw_only=True)
class Broken(FedAvg):
    def round(self, state):
        raise ZeroDivisionError("no round at all")
        yield
"""
LOCAL = {"steps": 5, "batch": 4, "lr": 0.1}


@pytest.fixture
def watched(tmp_path):
    """Run a scenario with --watch; `meanwhile(page, process)` once its dashboard is up."""

    def run(algorithm, meanwhile):
        scenario = mixed(rounds=60, clock={"name": "wall", "scale": 0.002})
        (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario | {"algorithms": [algorithm]}))
        (tmp_path / "mine.py").write_text(BROKEN)
        command = [sys.executable, "-m", "rayfed", "run", "s.yaml", "--watch", "--no-page"]
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={"BROWSER": "true", "PATH": "/usr/bin:/bin"},
        ) as process:  # fmt: skip
            said = ""
            for line in process.stdout:
                said += line
                if found := re.search(r"http://127.0.0.1:\d+/\S+", line):
                    meanwhile(found[0], process)
            return process.wait(60), said

    return run


def nothing(page, process):
    pass


@pytest.mark.slow
def test_a_run_that_is_watched_ends_as_one_that_is_not(watched):
    """Its dashboard answers while it runs, and ends with it."""
    seen = []

    def opened(page, process):
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(page) as answer:
            seen.append(answer.read().decode())

    status, said = watched({"name": "fedavg", "local": LOCAL}, opened)
    assert status == 0, said
    assert "1 study" in seen[0]
    assert "computing" in said  # where the time of a round went


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        ({"name": "fedavg", "local": LOCAL | {"lr": 1e300}}, "is not finite"),
        ({"name": "mine:Broken", "local": LOCAL}, "no round at all"),
    ],
)
def test_a_watched_run_that_fails_ends_with_status_1_and_its_reason(watched, algorithm, reason):
    status, said = watched(algorithm, nothing)
    assert status == 1, said
    assert "failed: " in said
    assert reason in said


@pytest.mark.slow
def test_a_dashboard_that_is_killed_leaves_the_study_alone(watched):
    def killed(page, process):
        (server,) = psutil.Process(process.pid).children()
        server.kill()

    status, said = watched({"name": "fedavg", "local": LOCAL}, killed)
    assert status == 0, said
