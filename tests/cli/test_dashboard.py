"""The command `dashboard`, and what `run` and `report` take of it."""

import re
import subprocess
import sys
import urllib.request

import pytest
import yaml

import rayfed
from rayfed.testing.studies import mixed

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
    text = (tmp_path / "seen.html").read_text()
    assert '"opening":"x=time_s"' in text
    assert '"seed":4' in text
    assert '"seed":3' not in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("dashboard", "nowhere"), "nowhere: is no folder; give one with results below it"),
        (("dashboard", "s3://bucket/x"), "is a URL; give a path of this machine"),
        (("report", ".", "--view", "http://127.0.0.1:8270/"), "is the address of no view"),
        (("report", ".", "--view", "/compare?study=a"), "is no study here"),
    ],
)
def test_what_is_wrong_is_one_line(command, arguments, text):
    status, _, errors = command(*arguments)
    assert status == 2
    assert text in errors


@pytest.mark.slow
@pytest.mark.parametrize(("lr", "expected"), [(0.1, 0), (1e300, 1)])
def test_a_run_that_is_watched_ends_as_one_that_is_not(tmp_path, lr, expected):
    """Its dashboard answers while it runs, and ends with it."""
    scenario = mixed(rounds=60, clock={"name": "wall", "scale": 0.002})
    scenario["algorithms"] = [{"name": "fedavg", "local": {"steps": 5, "batch": 4, "lr": lr}}]
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario))
    command = [sys.executable, "-m", "rayfed", "run", "s.yaml", "--watch", "--no-page"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={"BROWSER": "true", "PATH": "/usr/bin:/bin"},
    ) as process:  # fmt: skip
        said = ""
        for line in process.stdout:
            said += line
            found = re.search(r"http://127.0.0.1:\d+/", line)
            if found and not expected:
                with urllib.request.urlopen(found[0]) as answer:
                    assert "1 study" in answer.read().decode()
        assert process.wait(60) == expected, said
    assert ("failed: " in said) == bool(expected)
