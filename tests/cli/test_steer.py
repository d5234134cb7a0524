"""The commands `stop` and `extend`."""

import json
from types import SimpleNamespace

import pytest
import yaml

import rayfed
from rayfed.report import live
from rayfed.report.writing import LOGGING
from rayfed.testing.studies import mixed


def test_a_study_is_extended_to_what_it_would_have_been(command, tmp_path, assert_same):
    rayfed.run(mixed(rounds=5), out=tmp_path / "short", page=False)
    rayfed.run(mixed(rounds=12, seeds=[3, 4, 7]), out=tmp_path / "whole", page=False)
    status, _, errors = command(
        "extend", tmp_path / "short", "--rounds", 12, "--seeds", "4,3,7", "--no-page"
    )
    assert status == 0, errors
    assert_same(tmp_path / "whole", tmp_path / "short")
    (line,) = (tmp_path / "short" / "history.jsonl").read_text().splitlines()
    noted = json.loads(line)
    assert (noted["what"], noted["rounds"], noted["seeds"]) == ("extend", 12, [3, 4, 7])


def test_a_new_algorithm_is_added(command, tmp_path, assert_same):
    local = {"steps": 5, "batch": 4, "lr": 0.1}
    both = [{"name": "fedavg", "local": local}, {"name": "fedexp", "local": local}]
    rayfed.run(mixed(), out=tmp_path / "short", page=False)
    rayfed.run(mixed(algorithms=both), out=tmp_path / "whole", page=False)
    asked = f"algorithms={json.dumps(both)}"
    assert command("extend", tmp_path / "short", "--set", asked, "--no-page")[0] == 0
    assert_same(tmp_path / "whole", tmp_path / "short")


def test_what_cannot_be_extended_leaves_the_scenario_as_it_is(command, tmp_path):
    rayfed.run(mixed(), out=tmp_path / "out", page=False)
    before = (tmp_path / "out" / "scenario.yaml").read_bytes()
    cases = {
        ("--rounds", "3"): "after round 12",
        (): "nothing is asked for",
        ("--seeds", "4;5"): "give numbers, such as 3,4",
        ("--set", "problem.l2=0.5"): "problem.l2 was 0.01, found 0.5",
    }
    for given, text in cases.items():
        status, _, errors = command("extend", tmp_path / "out", *given)
        assert status == 2
        assert text in errors
    assert (tmp_path / "out" / "scenario.yaml").read_bytes() == before
    assert yaml.safe_load(before)["rounds"] == 12
    assert not (tmp_path / "out" / "history.jsonl").exists()


@pytest.mark.guard
def test_trackers_of_somebody_else_are_given_again(command, tmp_path, monkeypatch):
    rayfed.run(mixed(rounds=3), out=tmp_path / "out", page=False)
    (tmp_path / "out" / LOGGING).write_text('{"mlflow": {}}', encoding="utf-8")
    status, _, errors = command("extend", tmp_path / "out", "--rounds", 4, "--no-page")
    assert status == 2
    assert errors.endswith("resume with --log mlflow, else remove it\n")
    assert not (tmp_path / "out" / "history.jsonl").exists()
    opened = []

    def log(folder, name, *_):
        opened.append(name)
        return SimpleNamespace(close=lambda deadline: None)

    monkeypatch.setattr(live, "LiveLog", log)
    monkeypatch.setattr(live, "check_installed", lambda name: None)
    again = ("--log", "mlflow", "--no-page")
    assert command("extend", tmp_path / "out", "--rounds", 4, *again)[0] == 0
    assert command("resume", tmp_path / "out", "--no-page")[0] == 0  # sealed meanwhile
    assert opened == ["mlflow", "mlflow"]


def test_nothing_is_stopped_where_nobody_runs(command, tmp_path):
    rayfed.run(mixed(), out=tmp_path / "out", page=False)
    status, _, errors = command("stop", tmp_path / "out")
    assert status == 2
    assert "nobody runs this study; there is nothing to stop" in errors
    status, _, errors = command("stop", tmp_path)
    assert status == 2
    assert "is no result folder" in errors
