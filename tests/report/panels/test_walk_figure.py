"""The walk: one round of it, what it was over all rounds, and what is left out."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.figures.palette import LIGHT
from rayfed.report.page.report import page
from rayfed.report.panels import walk as panel
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.walk import TRAIL, eigenvalues, model_distances, visits, walk, walk_steps
from rayfed.report.read.results import Results

PATH, OTHER = [(0, 1), (1, 2), (2, 3)], [(0, 1), (1, 2), (1, 3)]
WAY = (1, 2, 1, 0)


def cohorts(way=WAY, links=PATH):
    """Events in which a client and its neighbours are asked."""
    around = [sorted({k for link in links if here in link for k in link}) for here in way]
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "round": number, "ask": 0, "client": ids, "start_s": 2.0 * number,
                    "compute_s": 1.0, "end_s": 2.0 * number + 1, "status": "used", "loss": 1.0,
                    "steps": 1,
                }
            )
            for number, ids in enumerate(around, 1)
        ],
        ignore_index=True,
    )  # fmt: skip


@pytest.fixture
def results(tmp_path, run_writer, walk_writer, personal_writer, rows):
    """Return a function that writes one run on a path of four clients and reads the study.

    Of `distances`, (rounds, distances), each row has the distance of every client's own model.
    """

    def write(way=WAY, graphs=(PATH,), distances=None, label="b", **more):
        losses = list(range(len(way) + 1))
        people = pd.DataFrame({"client": range(4), "samples": 5, "used": 1})
        events = cohorts(way)
        folder = run_writer(tmp_path, label, 0, rows(losses), events, people)
        walk_writer(folder, way, graphs, **more)
        if distances is not None:
            personal_writer(folder, distances[0], distance=distances[1], personal_loss=1.0)
        return Results.read(tmp_path)

    return write


def part(figure, name):
    return next(trace for trace in figure.data if trace.meta["part"] == name)


def pairs(trace):
    """The ends of a trace's lines, each as a pair of points."""
    points = list(zip(trace.x, trace.y, strict=True))
    assert all(gap == (None, None) for gap in points[2::3])
    return list(zip(points[::3], points[1::3], strict=True))


LINE = [[[0, 0], [10, 0], [20, 0], [30, 5]]]


def test_a_round_shows_where_the_server_is_whom_it_asks_and_how_it_came(results):
    figure = walk(results(places=LINE), "b", 0, round=2)
    assert (part(figure, "here").x, part(figure, "here").y) == ((20,), (0,))
    assert part(figure, "path").x == (10, 20)
    assert pairs(part(figure, "links")) == [
        ((0, 0), (10, 0)), ((10, 0), (20, 0)), ((20, 0), (30, 5)),
    ]  # fmt: skip
    ends = {end for _, end in pairs(part(figure, "around"))}
    assert {(10, 0), (30, 5)} <= ends
    assert (0, 0) not in ends
    asked = [width > 1 for width in part(figure, "clients").marker.line.width]
    assert asked == [False, True, True, True]
    assert figure.layout.xaxis.title.text == "x (m)"


def test_clients_and_links_move_from_graph_to_graph(results):
    places = [LINE[0], [[0, 1], [10, 1], [20, 1], [10, 9]]]
    found = results(graphs=(PATH, OTHER), places=places)
    first, second = (walk(found, "b", 0, round=number) for number in (1, 2))
    assert pairs(part(first, "links"))[2] == ((20, 0), (30, 5))
    assert pairs(part(second, "links"))[2] == ((10, 1), (10, 9))


# 0, 1 and 2 are asked in round 1, and 3 in round 2.
APART = ([0, 2, 4], [[0, 0, 0, 9], [0.5, 0.25, 0.75, 1], [0, 3, 0.125, 0.0625]])


def test_dots_are_filled_by_the_newest_distance_of_their_models(results):
    found = results(distances=APART)
    grey = LIGHT["waiting"]
    for number, colours, of in (
        (1, [0, 0, 0, grey], 0),
        (2, [0.5, 0.25, 0.75, 1], 2),
        (3, [0.5, 0.25, 0.75, 1], 2),
        (4, [0, 3, 0.125, 0.0625], 4),
    ):
        dots = part(walk(found, "b", 0, round=number), "clients")
        assert list(dots.marker.color) == colours
        assert (dots.marker.cmin, dots.marker.cmax) == (0, 3)  # 9 is never shown
        told = f"its own model {colours[0]} from the server's in round {of}"
        assert dots.hovertext[0] == told.replace("0.0 ", "0 ")
        assert list(dots.customdata[0]) == [0, 1]  # visited once
    assert part(walk(found, "b", 0, round=1), "clients").hovertext[3] == "not selected so far"


def test_who_was_never_asked_has_no_model_to_compare(results):
    dots = part(walk(results(way=(0, 1, 0), distances=APART), "b", 0), "clients")
    assert dots.marker.color[3] == LIGHT["waiting"]
    assert dots.hovertext[3] == "not selected so far"


def test_who_is_not_evaluated_has_no_known_distance(results):
    distances = ([0, 2], [[0, 0, 0], [0.5, 0.25, 0.75]])  # of clients 0, 1 and 2
    dots = part(walk(results(distances=distances), "b", 0), "clients")
    assert dots.marker.color[3] == LIGHT["waiting"]
    assert dots.hovertext[3] == "its own model was not measured"


def test_a_distance_that_is_not_finite_counts_as_not_measured(results):
    distances = ([0, 2], [[0, 0, 0, 0], [0.5, np.inf, 0.75, 1]])  # of a run that diverges
    dots = part(walk(results(distances=distances), "b", 0), "clients")
    assert list(dots.marker.color) == [0.5, LIGHT["waiting"], 0.75, 1]
    assert dots.marker.cmax == 1


def test_of_many_distances_those_of_evenly_spaced_evaluations_are_kept(results):
    way = [0, 1] * 12
    run = results(way=way, distances=(range(25), np.arange(25.0)[:, None] * np.ones(4))).runs_found[
        0
    ]
    steps = walk_steps(run)
    distances = model_distances(run, steps, most=4 * 4)
    assert distances["round"] == [1, 9, 16, 24]
    assert [distances["newest"][k - 1] for k in (1, 8, 9, 16, 24)] == [0, 0, 1, 2, 3]


def test_walks_that_are_the_same_are_on_the_page_once(results):
    results(places=LINE, distances=APART)
    results(places=LINE, label="c")
    found = results(places=2 * LINE, graphs=(PATH, OTHER), label="d")
    data = panel.WalkPanel(PageSource(found)).payload
    assert [one["path"] for one in data["walks"]] == [0, 0, 1]
    assert [one["distances"] is None for one in data["walks"]] == [False, True, True]
    assert [len(data["shared"][name]) for name in ("paths", "links", "spots")] == [2, 2, 1]
    other = data["shared"]["paths"][1]
    assert (other["links"], other["spots"]) == ([0, 1, 0, 1], [0, 0, 0, 0])
    assert data["shared"]["links"][1] == [0, 1, 1, 2, 1, 3]


def test_without_models_of_their_own_dots_are_not_filled(results):
    dots = part(walk(results(), "b", 0), "clients")
    assert isinstance(dots.marker.color, str)
    assert "model" not in dots.hovertemplate


def test_without_places_linked_clients_are_drawn_near_each_other(results):
    steps = walk_steps(results().runs_found[0])
    at = np.column_stack([steps["x"][0], steps["y"][0]])
    gaps = np.hypot(*(at[:, None] - at).transpose(2, 0, 1))
    assert gaps[0, 1] < gaps[0, 2] < gaps[0, 3]


def test_the_way_is_that_of_the_last_rounds(results):
    way = [0, 1] * 12
    steps = walk_steps(results(way=way).runs_found[0])
    assert steps["trail"][-1] == way[-TRAIL:]
    assert steps["trail"][1] == [0, 1]


def test_few_steps_are_kept_where_few_numbers_may_be(results):
    run = results(way=[0, 1] * 12).runs_found[0]
    steps = walk_steps(run, most=100)
    assert 2 < len(steps["round"]) < 12
    assert (steps["round"][0], steps["round"][-1]) == (1, 24)
    assert steps["trail"][-1][-1] == 1
    assert panel.note(run, 3) == "Drawn: 3 evenly spaced of 24 rounds."


def test_a_server_at_a_client_that_is_not_drawn_is_nowhere(results):
    told = {"clients": [0, 1], "graphs": [[(0, 1)]]}
    steps = walk_steps(results(way=(1, 2, 1, 0), **told).runs_found[0])
    assert steps["here"] == [[1], [], [1], [0]]
    assert steps["trail"][1] == [1]
    assert (steps["asked"][1], steps["number"][1]) == ([1], 3)


def test_what_is_not_drawn_is_said(results):
    (run,) = results(clients=[0, 1], graphs=[[(0, 1)]]).runs_found
    run.info["clients"] = 4
    said = "Drawn: 3 evenly spaced of 4 rounds and the 2 most visited of 4 clients."
    assert panel.note(run, 3) == said
    assert panel.note(run, 4) == "Drawn: the 2 most visited of 4 clients."


@pytest.mark.parametrize(
    ("repaired", "said"),
    [
        ([0, 1, 1, 0], "2 of 4 rounds, links were added to connect it"),
        ([0, 0, 0, 0], "2 of 4 rounds, it stayed so"),
        ([0, 1, 0, 0], "2 of 4 rounds, links were added in 1 of them"),
    ],
)
def test_how_often_the_graph_was_not_connected_is_said(results, repaired, said):
    (run,) = results().runs_found
    assert panel.title(run) == "Walk of the server"  # as in files of earlier versions
    run.rounds["connected"] = [np.nan, 1, 0, 0, 1]
    run.rounds["repaired"] = [np.nan, *repaired]
    assert panel.title(run).endswith(f"; the graph was not connected in {said}")


def test_bars_are_visits_and_the_line_is_the_long_run(results):
    figure = visits(results(law=[[0.2, 0.3, 0.3, 0.2]]), "b", 0)
    assert part(figure, "visits").y.tolist() == [50, 25, 25, 0]  # of clients 1, 2, 0 and 3
    assert figure.layout.xaxis.ticktext == ("1", "2", "0", "3")
    assert part(figure, "law").y.tolist() == pytest.approx([30, 30, 20, 20])


def test_eigenvalues_follow_the_graphs(results):
    figure = eigenvalues(results(graphs=(PATH, OTHER), lambda_2=[0.5, 0.8]), "b", 0)
    assert part(figure, "lambda_2").y.tolist() == [0.5, 0.8, 0.5, 0.8]


def test_notes_have_the_distance_to_the_long_run_and_the_memory_of_the_walk(results):
    found = results(law=[[0.2, 0.3, 0.3, 0.2]], lambda_2=[0.1])
    (run,) = found.runs_found
    # 0.5 + 0.25 + 0.25 + 0 against 0.3 + 0.3 + 0.2 + 0.2: a quarter lies elsewhere
    note = visits(found, "b", 0).layout.meta["note"]
    assert note == "Distance to the long-run law (total variation): 0.25."
    memory = "Second eigenvalue 0.1. After 1 move a tenth of its start's influence remains."
    assert panel.eigenvalues_note(run) == memory
    notes = panel.WalkPanel(PageSource(found)).payload["walks"][0]["notes"]
    assert notes == {"walk": "", "visits": note, "eigenvalues": memory}


def test_the_page_asks_where_the_server_walked_only_where_one_did(results, tmp_path):
    found = results()
    said = page(found)
    assert "Where did the server walk?" in said
    assert "its graph does not change" in said
    (tmp_path / "b-seed0" / "walk.npz").unlink()
    assert "Where did the server walk?" not in page(Results.read(tmp_path))


def test_a_run_whose_server_stays_has_no_figure(results, tmp_path):
    results()
    (tmp_path / "b-seed0" / "walk.npz").unlink()
    with pytest.raises(ValueError, match="did not walk"):
        walk(Results.read(tmp_path), "b", 0)


def test_a_round_that_is_not_recorded_is_refused_with_those_that_are(results):
    with pytest.raises(ValueError, match=r"^round 9 is not recorded; give one of 1 to 4$"):
        walk(results(), "b", 0, round=9)


def test_models_that_all_diverged_leave_the_colours_a_scale(
    tmp_path, run_writer, walk_writer, personal_writer, rows
):
    folder = run_writer(tmp_path, "b", 0, rows([2, 1]), cohorts((1,), OTHER))  # asks everybody
    walk_writer(folder, (1,), (OTHER,))
    personal_writer(folder, [1], distance=np.full((1, 4), np.inf))
    run = Results.read(tmp_path).run("b", 0)
    distances = model_distances(run, walk_steps(run), 100)
    assert (distances["top"], distances["distance"]) == (1.0, [[None] * 4])
