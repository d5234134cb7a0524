"""The graph of gossip over time."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rayfed
from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.page.report import page
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.graph import GraphPanel, eigenvalue_note, graph, title
from rayfed.report.panels.timeline import TimelinePanel
from rayfed.report.panels.usage import StalenessPanel, UtilisationPanel, WastePanel
from rayfed.report.read.results import Results

SCENARIO = {
    "name": "graph",
    "rounds": 3,
    "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2},
    "clients": {"count": 5},
    "topology": "ring",
    "algorithms": [
        {"name": "d-psgd", "weights": "uniform", "local": {"steps": 2, "lr": 0.1, "batch": 8}},
        {"name": "ad-psgd", "local": {"steps": 2, "lr": 0.1, "batch": 8}},
        "fedavg",
    ],
    "executor": "serial",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "out"
    rayfed.run(SCENARIO, out=folder, page=False)
    return Results.read(folder)


@pytest.mark.parametrize("name", ["d-psgd", "ad-psgd"])
def test_nodes_are_filled_by_their_accuracy_at_each_step(results, name):
    figure, run = graph(results, name, 0), results.run(name, 0)
    (slider,) = figure.layout.sliders
    assert [step.label.split(",")[0] for step in slider.steps] == ["0", "1", "2", "3"]
    table = run.personal.pivot(index="round", columns="client", values="personal_accuracy")
    for number, step in enumerate(slider.steps):
        shown = step.args[0]["marker.color"][1]
        np.testing.assert_allclose(shown, table.loc[number], rtol=1e-2)
    assert list(figure.data[1].marker.color) == list(slider.steps[-1].args[0]["marker.color"][1])
    assert figure.data[1].marker.cmin == table.loc[1:].to_numpy().min()


def test_a_node_without_rows_to_score_is_not_filled(results):
    other = Results.read(results.folder)
    table = other.run("d-psgd", 0).personal
    table.loc[table["client"] == 2, "personal_accuracy"] = np.nan
    figure = graph(other, "d-psgd", 0)
    assert np.isnan(figure.data[1].marker.color).tolist() == [False, False, True, False, False]
    assert figure.layout.sliders[0].steps[-1].args[0]["marker.color"][1][2] is None


@pytest.mark.parametrize("name", ["d-psgd", "ad-psgd"])
def test_links_are_those_of_the_graph(results, name):
    links, nodes = graph(results, name, 0).data
    places = list(zip(nodes.x, nodes.y, strict=True))
    ends = [place for place in zip(links.x, links.y, strict=True) if place[0] is not None]
    drawn = {frozenset(map(places.index, pair)) for pair in zip(ends[::2], ends[1::2], strict=True)}
    assert drawn == {frozenset({i, (i + 1) % 5}) for i in range(5)}


def test_the_note_has_the_second_eigenvalue_of_the_ring(results):
    """Of W = (1 + 2 cos(2 pi k / 5)) / 3 the second largest modulus is that of k = 1: 0.539."""
    eigenvalue = max(abs(1 + 2 * np.cos(2 * np.pi * k / 5)) / 3 for k in range(1, 5))
    number = int(np.ceil(np.log(0.1) / np.log(eigenvalue)))
    text = eigenvalue_note(results.run("d-psgd", 0))
    assert f"{eigenvalue:.3g}" in text
    assert f"after {number} steps" in text
    assert eigenvalue_note(results.run("ad-psgd", 0)) == ""


@pytest.mark.parametrize(
    ("repaired", "said"),
    [
        ([True, False], "; links were added to connect the graph in 2 of 3 steps"),
        ([True], "; links were added to connect the graph"),
        ([False], ""),
        ([], ""),  # as in files of earlier versions
    ],
)
def test_the_title_counts_the_steps_with_a_repaired_graph(results, repaired, said):
    run = results.run("d-psgd", 0)
    graph = [0, 0, len(repaired) - 1] if len(repaired) > 1 else [0, 0, 0]
    changes = {"graph": np.array(graph), "lambda_2": np.zeros(max(1, len(repaired)))}
    known = replace(run.graph, **changes, repaired=np.array(repaired, bool))
    assert title(SimpleNamespace(graph=known)) == f"Nodes and their models{said}"


def test_a_run_with_a_server_has_no_graph_of_nodes(results):
    with pytest.raises(NothingToDraw, match="has no graph of nodes"):
        graph(results, "fedavg", 0)
    html = page(results)
    assert GraphPanel.section in html
    assert "Nodes and their models" in html


def test_texts_about_clients_mention_no_server_and_no_replies(results):
    source = PageSource.of(replace(results, runs_found=results.of("ad-psgd")))
    for kind in (TimelinePanel, UtilisationPanel, WastePanel, StalenessPanel):
        panel = kind(source)
        texts = f"{panel.render()} {json.dumps(panel.payload)}".casefold()
        assert not re.findall(r"server|repl(?:y|ies|ied)\b|not asked|cohort|selected at", texts)
