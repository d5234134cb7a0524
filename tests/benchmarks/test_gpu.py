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
@pytest.mark.parametrize("worse", ["", "memory", "bytes"])
def test_updates_bytes_and_memory_are_measured(capsys, monkeypatch, tmp_path, worse):
    sizes = iter([100, 200 if worse == "memory" else 100])
    monkeypatch.setattr(gpu, "held", lambda device: next(sizes))
    taken = [[0.5, 1.0], [0.5, 2.0], [1.0, 1.0]]
    monkeypatch.setattr(gpu, "seconds", lambda workload, device, repeats: taken)
    if worse == "bytes":
        models = iter([b"a", b"b"])
        monkeypatch.setattr(gpu, "model", lambda workload, device: next(models))
    table = tmp_path / "gpu.md"
    given = ["W4", "--device", "cpu", "--small", "--write", str(table)]
    assert gpu.main(given) == (1 if worse else 0)
    text = table.read_text()
    assert text == capsys.readouterr().out
    assert "| 2.00 |" in text  # the median of 2, 4 and 1
    assert "W4, 10 rounds" in text
    assert ("different bytes" if worse == "bytes" else "the same bytes") in text
    assert "rayfed, updates a second" in table.with_suffix(".svg").read_text()


@pytest.mark.slow
def test_blocks_of_rayfed_and_of_the_bare_loop_take_turns():
    workload = gpu.on_device(gpu.network(gpu.CASES["W4"], 0, gpu.Size(0.04, 0.1)), "cpu")
    taken = gpu.seconds(workload, "cpu", repeats=2)
    assert [len(block) for block in taken] == [2, 2]
    assert min(map(min, taken)) > 0


@pytest.mark.slow
def test_the_script_runs_to_its_end_on_a_cpu(capsys):
    assert gpu.main(["--device", "cpu", "--small"]) in (0, 1)  # ratios of two rounds are noise
    shown = capsys.readouterr().out
    for name in gpu.CASES:
        assert f"| {name} |" in shown
    assert "the same bytes" in shown
