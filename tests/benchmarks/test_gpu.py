"""The benchmark of GPUs, tried on the CPU."""

import pytest

pytest.importorskip("torch")
from benchmarks import gpu


def test_without_a_gpu_it_says_so_and_measures_nothing(capsys, monkeypatch):
    monkeypatch.setattr(gpu, "seconds", None)
    assert gpu.main(["--device", "nothing"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("no GPU")


def test_names_are_checked():
    with pytest.raises(SystemExit):
        gpu.main(["W9"])


@pytest.mark.slow
@pytest.mark.parametrize("grown", [False, True])
def test_updates_and_memory_are_measured(capsys, monkeypatch, grown):
    sizes = iter([100, 200]) if grown else iter([100, 100])
    monkeypatch.setattr(gpu, "held", lambda device: next(sizes))
    taken = [[0.5, 1.0], [0.5, 2.0], [1.0, 1.0]]
    monkeypatch.setattr(gpu, "seconds", lambda workload, device, repeats: taken)
    given = ["W4", "--device", "cpu", "--rounds", "10", "--scale", "0.04"]
    assert gpu.main(given) == (1 if grown else 0)
    shown = capsys.readouterr().out
    assert "2.00" in shown  # the median of 2, 4 and 1
    assert "W4, 10 rounds" in shown


@pytest.mark.slow
def test_blocks_of_rayfed_and_of_the_bare_loop_take_turns():
    workload = gpu.on_device(gpu.network(gpu.CASES["W4"], 0, gpu.Size(0.04, 0.1)), "cpu")
    taken = gpu.seconds(workload, "cpu", repeats=2)
    assert [len(block) for block in taken] == [2, 2]
    assert min(map(min, taken)) > 0
