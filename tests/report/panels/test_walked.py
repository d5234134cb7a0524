"""Where a server walked: read, counted, and compared with the long run."""

import pandas as pd
import pytest

from rayfed.report.panels import walk as walked
from rayfed.report.read.results import Results

PATH = [(0, 1), (1, 2)]


@pytest.fixture
def run(tmp_path, run_writer, walk_writer, rows):
    """Return a function that writes a run of five rounds on a path of three clients."""

    def write(positions=(1, 0, 1, 2, 1), graphs=(PATH,), **more):
        folder = run_writer(tmp_path, "fedavg", 0, rows([5, 4, 3, 2, 1, 0]))
        walk_writer(folder, positions, graphs, **more)
        return Results.read(tmp_path).runs_found[0]

    return write


def test_positions_are_those_of_the_rounds_and_none_before_the_first(run):
    assert walked.positions(run()).to_dict() == {1: 1, 2: 0, 3: 1, 4: 2, 5: 1}


def test_visits_are_counted_and_the_likeliest_come_first(run):
    found = walked.visit_counts(run(law=[[0.25, 0.5, 0.25]]))
    assert found.index.tolist() == [1, 0, 2]
    assert found["visits"].tolist() == [3, 1, 1]
    assert found["share"].tolist() == [0.6, 0.2, 0.2]
    assert found["law"].tolist() == [0.5, 0.25, 0.25]


def test_too_many_visits_at_one_place_are_too_few_elsewhere(run):
    assert walked.misplaced(run(law=[[0.25, 0.5, 0.25]])) == pytest.approx(0.1)


def test_the_law_of_changing_graphs_is_their_mean_over_the_rounds(run):
    laws = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    found = walked.visit_counts(run(graphs=(PATH, PATH), law=laws))
    # the first holds in rounds 1, 3 and 5
    assert found["law"].to_dict() == pytest.approx({0: 0.6, 1: 0.2, 2: 0.2})


def test_without_a_law_the_visited_are_counted_alone(run):
    made = run(positions=(1, 0, 1, 0, 1), law=[[]])
    assert walked.visit_counts(made)["visits"].to_dict() == {1: 3, 0: 2}
    assert pd.isna(walked.misplaced(made))


def test_ends_of_links_are_places_among_the_clients(run):
    made = run(positions=(5, 7, 5, 7, 9), graphs=([(5, 7), (7, 9)],), clients=[5, 7, 9])
    assert made.walk.links_of(0).tolist() == [[0, 1], [1, 2]]


def test_a_run_whose_server_stays_has_no_walk(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([1, 0]))
    assert Results.read(tmp_path).runs_found[0].walk is None
