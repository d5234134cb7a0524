"""The figure of adapters, drawn from two parts of the study."""

import pytest

pytest.importorskip("torch", reason="needs torch")

import rayfed
from rayfed.testing.toy import toy_scenario
from scripts import dialects


def test_the_figure_has_a_line_for_each_part(tmp_path, monkeypatch):
    drawn = []

    def write(results, folder, what):
        drawn.append((results.names, what))
        files = [folder / "convergence-column.svg", folder / "convergence-full.svg"]
        for file in files:
            file.write_text(file.name)
        return files

    for part in ("main", "full"):
        rayfed.run(toy_scenario("fedavg", rounds=1), out=tmp_path / part, page=False)
    monkeypatch.setattr(dialects, "write", write)
    dialects.figure(tmp_path, tmp_path / "to.svg")
    assert (tmp_path / "to.svg").read_text() == "convergence-full.svg"
    ((names, (what,)),) = drawn
    assert [*names] == ["adapters of rank 4", "all parameters"]
    assert "x=bytes_up,y=perplexity" in what
    assert " + convergence:x=time_s" in what
