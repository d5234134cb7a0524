"""Waiting between nodes, against a ring of four that is computed by hand."""

import numpy as np
import pytest

import rayfed
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.page.report import page
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.waits import WaitPairsPanel, WaitsPanel, pairs, wait_pairs, waits
from rayfed.report.read.results import Results


def scenario(seconds, up):
    """Two steps of a ring of four; a model has 8,000 bytes, so 8 Mbit/s take 16 ms for two."""
    groups = [
        {"name": f"node {i}", "ids": [i], "delay": {"name": "constant", "mean_s": mean_s},
         "network": {"latency_s": 0.125, "up_mbps": rate} if up else {}}
        for i, (mean_s, rate) in enumerate(zip(seconds, up or seconds, strict=True))
    ]  # fmt: skip
    groups[3]["network"] |= {"down_mbps": 0.08} if up else {}
    data = {"name": "synthetic", "features": 1250 - 1, "classes": 2, "samples": 2}
    return {
        "name": "ring", "rounds": 2, "problem": {"name": "logistic-regression", "dataset": data},
        "dtype": "float64", "clients": {"count": 4, "groups": groups}, "topology": "ring",
        "algorithms": [{"name": n, "local": {"steps": 1}} for n in ("dfedavg", "d-psgd", "fedavg")],
        "executor": "serial",
    }  # fmt: skip


def run(made, out):
    rayfed.run(made, out=out, page=False)
    return Results.read(out)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    made = scenario([1, 2.5, 3, 1.5], [0.16, 0.16, 0.08, 0.16])
    return run(made, tmp_path_factory.mktemp("ring") / "out")


STEP_FIRST = [[0, 7, 0, 0], [0, 0, 4, 0], [0, 3, 0, 0], [0, 0, 6, 0]]
MIX_FIRST = [[0, 1.75, 0, 0], [0, 0, 0.25, 0], [0, 0, 0, 0], [0.75, 0, 1.5, 0]]


@pytest.mark.parametrize(("name", "expected"), [("dfedavg", STEP_FIRST), ("d-psgd", MIX_FIRST)])
def test_waits_of_two_steps_of_the_ring(ring, name, expected):
    np.testing.assert_array_equal(pairs(ring.run(name, 0)), expected)
    (heat,) = wait_pairs(ring, name, 0).data
    np.testing.assert_array_equal(heat.z, expected)


def test_bars_are_the_nodes_that_are_waited_for_longest(ring):
    """Of the 20 s of waiting each 10 s are for nodes 1 and 2; the two steps take all nodes 36 s."""
    figure = waits(ring, "dfedavg", 0)
    bars, texts = figure.data
    assert list(bars.x) == [10, 10, 0, 0]
    assert list(figure.layout.meta["rows"]) == ["1", "2", "0", "3"]
    assert [text.strip() for text in texts.text] == ["50.0 %", "50.0 %", "0.0 %", "0.0 %"]
    assert figure.layout.meta["note"] == "Nodes wait 55.6 % of the time of their steps."


def test_the_page_shows_both(ring):
    html = page(ring)
    assert WaitsPanel.heading in html
    assert WaitPairsPanel.heading in html


@pytest.mark.parametrize("draw", [waits, wait_pairs])
def test_a_run_with_a_server_has_no_waits(ring, draw):
    with pytest.raises(NothingToDraw, match="the run of fedavg, seed 0, has no"):
        draw(ring, "fedavg", 0)


def test_a_study_without_waits_has_a_sentence(tmp_path):
    results = run(scenario([1, 1, 1, 1], ()), tmp_path / "out")
    source = PageSource.of(results)
    assert WaitsPanel(source).brief == "No node waits for its neighbours."
    assert not WaitPairsPanel(source).applies
    assert list(waits(results, "dfedavg", 0).data[0].x) == [0] * 4
