"""Graphs of a run: pure, with links that fail, and connected or refused as asked."""

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.topology import (
    Complete,
    GaussMarkov,
    Geometric,
    Graphs,
    Random,
    Ring,
    Star,
    Still,
    Targets,
    base,
)
from rayfed.topology.connect import components_of

CHANGING = {
    "drawn by rounds": Random(p=0.3, every=2, loss=0.2),
    "links fail": Ring(loss=0.3, every=1, disconnected="repair"),
    "waypoints": Geometric(range_m=300.0, every_s=20.0, loss=0.1),
    "gauss-markov": Geometric(range_m=300.0, mobility=GaussMarkov(), round_s=30.0),
}
MOMENTS = [(r, 40.0 * r) for r in range(1, 9)]


@pytest.mark.parametrize("topology", CHANGING.values(), ids=CHANGING.keys())
def test_any_order_of_questions_gets_the_same_graphs(topology):
    forward, shuffled = Graphs(topology, 20, 3), Graphs(topology, 20, 3)
    seen = {moment: forward.at(*moment).links.tolist() for moment in MOMENTS}
    for index in (5, 0, 7, 7, 2, 6, 1, 3, 4):
        assert shuffled.at(*MOMENTS[index]).links.tolist() == seen[MOMENTS[index]]
    assert len({str(links) for links in seen.values()}) > 3
    assert Graphs(topology, 20, 4).at(1).links.tolist() != seen[MOMENTS[0]]


def test_a_seed_of_its_own_goes_first():
    fixed = Random(p=0.3, seed=7)
    assert str(Graphs(fixed, 20, 1).at(1).links) == str(Graphs(fixed, 20, 2).at(1).links)
    assert str(Graphs(fixed, 20, 1).at(1).links) == str(Graphs(Random(p=0.3), 20, 7).at(1).links)


def test_links_fail_independently_with_the_probability_given():
    graphs = Graphs(Complete(loss=0.3, every=1, disconnected="allow"), 40, 0)
    up = np.stack([graphs.at(r).matrix.toarray() for r in range(1, 101)])
    pairs = np.triu_indices(40, 1)
    assert up[:, *pairs].mean() == pytest.approx(0.7, abs=4 * (0.21 / 78_000) ** 0.5)
    one, other = up[:-1, *pairs].ravel(), up[1:, *pairs].ravel()  # from one epoch to the next
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.02
    assert abs(np.corrcoef(up[:, 0, 1:20].ravel(), up[:, 0, 20:39].ravel())[0, 1]) < 0.1


def test_without_rounds_to_change_after_what_failed_stays_down():
    graphs = Graphs(Complete(loss=0.3, disconnected="allow"), 10, 0)
    assert graphs.epoch(99) == 0


def test_a_graph_is_made_once_while_it_holds():
    graphs = Graphs(Targets(number=5, every=10), 20, 0)
    assert graphs.at(1) is graphs.at(10)
    assert graphs.at(10) is not graphs.at(11)


def sparse(**settings):
    return Graphs(Random(p=0.12, **settings), 20, 2)


def test_a_graph_in_parts_is_drawn_until_it_is_whole():
    first = sparse(disconnected="allow").at(1)
    assert components_of(first).count > 1
    whole = sparse(disconnected="redraw").at(1)
    assert components_of(whole).count == 1
    assert str(whole.links) != str(first.links)


def test_a_graph_in_parts_is_repaired_with_the_fewest_links():
    first, whole = sparse(disconnected="allow").at(1), sparse(disconnected="repair").at(1)
    assert components_of(whole).count == 1
    assert len(whole.links) == len(first.links) + components_of(first).count - 1


def test_it_is_known_which_graphs_were_connected_and_which_repaired(monkeypatch):
    policies = ("allow", "repair", "redraw")
    graphs = [sparse(disconnected=policy, every=1) for policy in policies]
    parts = [components_of(graphs[0].of(epoch)).count for epoch in range(9)]
    assert {1} < set(parts)  # some are connected, some are not
    whole = [count == 1 for count in parts]
    assert [[g.connected(epoch) for epoch in range(9)] for g in graphs] == [
        whole,
        whole,
        9 * [True],
    ]
    assert [g.repaired(0) for g in graphs] == [False, not whole[0], False]
    assert [graphs[1].repaired(epoch) for epoch in range(9)] == [not one for one in whole]
    monkeypatch.setattr(base, "MOST_CHECKED", 19)
    assert sparse(disconnected="allow").connected(0) is None


def test_a_graph_in_parts_is_refused():
    with pytest.raises(ScenarioError, match=r"graph 0 is in 5 parts|client \d+ has no link"):
        sparse(disconnected="refuse").at(1)


def test_a_client_without_links_is_named():
    class Gone(Star):
        def ends(self, count):
            return super().ends(count - 1)

    with pytest.raises(ScenarioError) as refused:
        Graphs(Gone(), 5, 0).at(1)
    assert str(refused.value) == (
        "topology: client 4 has no link in graph 0; link more clients, or set disconnected to "
        "repair or allow"
    )


def test_parts_of_more_clients_are_named_too():
    class Two(Ring):
        def ends(self, count):
            return np.array([[0, 1], [1, 2], [3, 4]])

    with pytest.raises(ScenarioError, match=r"is in 2 parts, one with clients 3, 4 alone; link"):
        Graphs(Two(), 5, 0).at(1)


def test_drawing_ends_where_no_draw_is_whole():
    with pytest.raises(ScenarioError, match="in none of 1000 draws is it connected"):
        Graphs(Random(p=1e-6), 5, 0).at(1)


def test_a_graph_that_is_never_drawn_cannot_be_drawn_again():
    with pytest.raises(ScenarioError, match="every draw of this graph is the same; give refuse"):
        Ring(disconnected="redraw")
    assert Ring(disconnected="redraw", loss=0.1).loss == 0.1


def test_of_a_large_graph_in_range_only_what_is_asked_is_made():
    still = Geometric(range_m=30.0, mobility=Still(), disconnected="allow", loss=0.1)
    graph = Graphs(still, 1000, 0).at(1)
    assert "matrix" not in vars(graph)
    assert graph.listed().neighbours(5).tolist() == graph.neighbours(5).tolist()
