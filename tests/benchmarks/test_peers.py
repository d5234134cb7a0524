"""The comparison with other simulators: absent ones, blocks on request, the status."""

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import peers
from rayfed.core.errors import RayfedError


@pytest.mark.parametrize("given", [[], ["--pfl", "nowhere"]])
def test_without_an_environment_nothing_is_measured(given, capsys):
    assert peers.main(["W3", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(";")[0] for line in lines] == [
        f"skipped: no environment with {peer}" for peer in peers.PEERS
    ]


@pytest.mark.parametrize(("seconds", "status"), [(3.0, 0), (1.5, 1)])
def test_the_status_is_1_where_another_simulator_is_faster(seconds, status, monkeypatch, capsys):
    monkeypatch.setattr(peers, "_has", lambda python, module: True)
    monkeypatch.setattr(peers, "measured", lambda *given: [[2.0, 4.0, seconds, 5.0]] * 3)
    environment = str(Path(sys.prefix))
    assert peers.main(["W3", "--pfl", environment, "--flower", environment]) == status
    assert f"{seconds / 2:.2f}x" in capsys.readouterr().out


def child(code):
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_each_block_is_asked_for():
    code = "print(0.5, flush=True); print(2 * float(input()), flush=True)"
    with child(code) as process:
        assert peers.Peer("pfl", process).seconds(3.0) == 6.0


def test_an_end_before_the_first_round_is_told():
    with child("") as process, pytest.raises(RayfedError, match="flower ended"):
        peers.Peer("flower", process)


def test_processes_of_pfl_find_each_other_and_the_first_answers(tmp_path, monkeypatch):
    loop = tmp_path / "benchmarks" / "loop_pfl.py"
    loop.parent.mkdir()
    (loop.parent / "__init__.py").touch()
    loop.write_text(
        "import os, sys\n"
        "rank, size = int(os.environ['RANK']), int(os.environ.get('WORLD_SIZE', 1))\n"
        "with open(f'new-{rank}', 'w') as file:\n"
        "    file.write(os.environ.get('MASTER_PORT', 'alone'))\n"
        "os.rename(f'new-{rank}', f'{sys.argv[1]}-{rank}')\n"  # it is there when it is whole
        "print(size, flush=True)\n"
        "print(float(sys.stdin.readline()), flush=True)\n"
    )
    monkeypatch.setattr(peers, "__file__", str(loop.with_name("peers.py")))
    monkeypatch.chdir(tmp_path)
    with peers.started("pfl", Path(sys.executable), "two", 2) as pfl:
        assert pfl.seconds(3.0) == 3.0
        while not (tmp_path / "two-1").exists():  # it was started after the first
            time.sleep(0.01)
    assert (tmp_path / "two-0").read_text() == (tmp_path / "two-1").read_text() != "alone"
    with peers.started("pfl", Path(sys.executable), "one", 0) as pfl:
        assert pfl.seconds(2.0) == 2.0
    assert (tmp_path / "one-0").read_text() == "alone"
    assert not (tmp_path / "one-1").exists()


def test_blocks_leave_out_the_round_before_them(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    assert torch
    from benchmarks import loops

    times = iter((10.0, 10.0, 11.0, 20.0, 20.0, 22.0, 24.0))
    monkeypatch.setattr(loops, "perf_counter", lambda: next(times))
    monkeypatch.setattr(loops.sys, "stdin", io.StringIO("3.5\n"))
    monkeypatch.setattr(loops.sys, "__stdout__", sys.stdout)
    blocks = loops.Blocks()
    assert [blocks.round_ended() for _ in range(2)] == [True, True]
    assert [blocks.round_ended() for _ in range(3)] == [True, True, False]
    assert capsys.readouterr().out.split() == ["1.0", "2.0"]
