"""The benchmark of one result in every placement: equal digests, kills, and what differs."""

import random

import pytest

from benchmarks import machines


@pytest.mark.parametrize("differs", [False, True])
def test_a_digest_that_differs_ends_with_1(capsys, monkeypatch, tmp_path, differs):
    def run(name, rounds, way, folder):
        return "b" * 64 if differs and way == "two nodes" else "a" * 64

    monkeypatch.setattr(machines, "run", run)
    monkeypatch.setattr(machines, "killed", lambda *of: ({"a" * 64}, [machines.Kill(3, True)]))
    plot = tmp_path / "plot.svg"
    assert machines.main(["--kills", "4", "--plot", str(plot)]) == differs
    shown = capsys.readouterr().out
    assert "| own code | 2 kills |" in shown
    assert f"`{'b' * 16}`" in shown or not differs
    drawn = plot.read_text()
    assert drawn.count("aaaaaaaa") == 12 - 2 * differs
    assert drawn.count("bbbbbbbb") == 2 * differs
    assert drawn.count('width="1.5"') == 2


def test_two_ends_of_killed_runs_must_agree(monkeypatch):
    monkeypatch.setattr(machines, "run", lambda *of: "a" * 64)
    monkeypatch.setattr(machines, "killed", lambda *of: ({"a" * 64, "b" * 64}, []))
    assert machines.main(["--kills", "2"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", machines.STUDIES)
def test_kills_give_the_digest_of_a_run_without(name, tmp_path):
    calm = machines.run(name, 30, "one process", tmp_path / "calm")
    draws = random.Random(1)
    found, kills = machines.killed(name, 30, 2, tmp_path / "killed", draws)
    assert found == {calm}
    assert len(kills) == 2
    assert all(0 <= kill.rounds <= 30 * machines.runs_of(name) for kill in kills)
    assert machines.run(name, 29, "one process", tmp_path / "shorter") != calm


def test_a_command_that_fails_is_no_result():
    with pytest.raises(RuntimeError, match="exit status 3"):
        machines.finished(machines.command("-c", "raise SystemExit(3)"))
